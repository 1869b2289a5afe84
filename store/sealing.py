"""Secrets at rest: each under a data key of its own, which the configured key wraps."""

from __future__ import annotations

import base64
import os
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from store.settings import Settings
from store.signing import purpose_key, server_secret
from wyrd.errors import Code, WyrdError
from wyrd.wire.canonical import canonical_json

_KEY_BYTES = 32
_NONCE_BYTES = 12


@dataclass(frozen=True, slots=True)
class Sealed:
    """A secret and its data key, each as nonce, ciphertext and tag."""

    secret: bytes
    key: bytes


class Sealer:
    """AES-256-GCM. `bound` is what a secret belongs to: it opens for exactly the same words only."""

    def __init__(self, key: bytes) -> None:
        self._wrapping = AESGCM(key)

    @classmethod
    def of(cls, settings: Settings) -> Sealer:
        """The sealer of `connection_key`; where none is set, of a key derived from the server secret.

        Raises `WYRD_CFG_400_SCHEMA_MISMATCH` for a key that is not 32 bytes in base64.
        """
        if settings.connection_key is None:
            return cls(purpose_key(server_secret(settings), "operator connections"))
        try:
            key = base64.b64decode(settings.connection_key.get_secret_value(), validate=True)
        except ValueError:
            key = b""
        if len(key) != _KEY_BYTES:
            raise WyrdError(
                Code.CFG_400_SCHEMA_MISMATCH,
                "connection_key must be 32 bytes in base64",
                field="connection_key",
            )
        return cls(key)

    def seal(self, secret: bytes, *bound: str) -> Sealed:
        associated = canonical_json(list(bound))
        key = AESGCM.generate_key(bit_length=8 * _KEY_BYTES)
        return Sealed(_locked(AESGCM(key), secret, associated), _locked(self._wrapping, key, associated))

    def open(self, sealed: Sealed, *bound: str) -> bytes:
        """Raises `WYRD_OPERATOR_503_KEY_UNAVAILABLE` where the key is another one, or the row was changed."""
        associated = canonical_json(list(bound))
        try:
            key = _unlocked(self._wrapping, sealed.key, associated)
            return _unlocked(AESGCM(key), sealed.secret, associated)
        except (InvalidTag, ValueError):
            raise WyrdError(
                Code.OPERATOR_503_KEY_UNAVAILABLE,
                "the secret of the connection cannot be opened with the configured key",
            ) from None


def _locked(cipher: AESGCM, plain: bytes, associated: bytes) -> bytes:
    nonce = os.urandom(_NONCE_BYTES)
    return nonce + cipher.encrypt(nonce, plain, associated)


def _unlocked(cipher: AESGCM, data: bytes, associated: bytes) -> bytes:
    return cipher.decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], associated)
