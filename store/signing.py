"""The server secret, and the keys derived from it.

Each purpose (access tokens, upload addresses) signs under a key of its own, so that a signature
made for one can never be used as another.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import os
import secrets
from pathlib import Path

from store.settings import Settings
from wyrd.errors import Code, WyrdError

_SHORTEST = 16


def server_secret(settings: Settings) -> bytes:
    """`settings.secret_key`, else the file `home`/secret-key (mode 0600), made when missing.

    Raises `WYRD_CFG_400_SCHEMA_MISMATCH` for a secret under 16 bytes.
    """
    if settings.secret_key is not None:
        secret = settings.secret_key.get_secret_value().encode("utf-8")
        where = "WYRD_SECRET_KEY"
    else:
        path = settings.home / "secret-key"
        secret = _read_or_make(path)
        where = str(path)
    if len(secret) < _SHORTEST:
        raise WyrdError(
            Code.CFG_400_SCHEMA_MISMATCH,
            f"the secret in {where} is shorter than {_SHORTEST} bytes",
            field="secret_key",
        )
    return secret


def purpose_key(secret: bytes, purpose: str) -> bytes:
    """The 32-byte key of one purpose."""
    return hmac.digest(secret, f"wyrd {purpose}".encode(), hashlib.sha256)


def signature(key: bytes, *parts: str) -> str:
    """HMAC-SHA-256 over the parts, each with its length, as 43 URL-safe characters."""
    message = b"".join(f"{len(part.encode())}:{part}".encode() for part in parts)
    return base64.urlsafe_b64encode(hmac.digest(key, message, hashlib.sha256)).rstrip(b"=").decode("ascii")


def signature_holds(key: bytes, given: str, *parts: str) -> bool:
    """Whether `given` signs the parts, compared in constant time."""
    return hmac.compare_digest(signature(key, *parts).encode(), given.encode("utf-8", "replace"))


def write_private(path: Path, text: str) -> None:
    """Put `text` into a file only its owner reads; what was there before is replaced as a whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def _read_or_make(path: Path) -> bytes:
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        write_private(fresh, secrets.token_urlsafe(48) + "\n")
        # Linking fails when another process was first; both then read the same secret.
        with contextlib.suppress(FileExistsError):
            os.link(fresh, path)
        fresh.unlink()
    return path.read_bytes().strip()
