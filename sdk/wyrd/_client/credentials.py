"""Which credential a client uses, and how an API key becomes a short-lived token."""

from __future__ import annotations

import os
import time
import tomllib
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from pydantic import ValidationError

from wyrd._client.answers import error_of, unanswered_error
from wyrd._client.flow import Reply, Send, Unanswered
from wyrd._client.servers import is_loopback
from wyrd.errors import Code, WyrdError
from wyrd.wire.auth import API_KEY_TYPE, TOKEN_EXCHANGE, TokenAnswer
from wyrd.wire.canonical import JsonRefused, strict_loads

KEY_PREFIX = "wyrd_sk_"
RENEW_BEFORE = 30.0
"""Seconds of life left under which a token is exchanged again."""

_OAUTH_ERRORS = {
    "invalid_client": Code.AUTH_401_UNAUTHENTICATED,
    "invalid_grant": Code.AUTH_401_INVALID_TOKEN,
}


@dataclass(slots=True)
class Credential:
    """A secret: an API key with the token it was last exchanged for, or a token sent as it is."""

    secret: str = field(repr=False)
    _token: str | None = field(default=None, repr=False)
    _fresh_until: float = 0.0

    def token(self, server_url: str, refused: str | None) -> Generator[Send, Reply, str]:
        """The flow that yields a bearer token, exchanging only when the one at hand is used up.

        One attempt. Errors: the server's own; AUTH_401_* for an OAuth answer;
        CLIENT_503_TRANSPORT_DOWN when there is no server.
        """
        if not self.secret.startswith(KEY_PREFIX):
            return self.secret
        if self._token is not None and self._token != refused and time.monotonic() < self._fresh_until:
            return self._token
        asked = time.monotonic()
        try:
            reply = yield Send(
                "POST",
                f"{server_url}/auth/token",
                {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"},
                self._form(),
            )
        except Unanswered as fault:
            raise unanswered_error(fault) from None
        if not 200 <= reply.status < 300:
            raise _exchange_error(reply)
        try:
            minted = TokenAnswer.model_validate(strict_loads(reply.body))
        except (JsonRefused, ValidationError):
            raise WyrdError(
                Code.SPEC_502_UPSTREAM_FAILURE, "the token answer is not what was expected"
            ) from None
        self._token = minted.access_token
        self._fresh_until = asked + minted.expires_in - RENEW_BEFORE
        return minted.access_token

    def _form(self) -> bytes:
        form = {
            "client_id": "wyrd-cli",
            "grant_type": TOKEN_EXCHANGE,
            "subject_token": self.secret,
            "subject_token_type": API_KEY_TYPE,
        }
        return urlencode(form).encode("ascii")


def _exchange_error(reply: Reply) -> WyrdError:
    try:
        answer = strict_loads(reply.body)
    except JsonRefused:
        answer = None
    if isinstance(answer, dict) and "code" not in answer and answer.get("error") in _OAUTH_ERRORS:
        return WyrdError(_OAUTH_ERRORS[answer["error"]], str(answer.get("error_description") or ""))
    return error_of(reply)


def _credential(value: str) -> Credential:
    value = value.strip()
    if not value or not value.isascii() or not value.isprintable():
        raise WyrdError(Code.CLIENT_400_CONFIG_INVALID, "the credential is not one", field="credential")
    return Credential(value)


def _read(path: Path) -> str | None:
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError):
        raise WyrdError(
            Code.CLIENT_401_SAVED_LOGIN_UNUSABLE, f"{path} cannot be read", path=str(path)
        ) from None


def dev_key_path(home: str | Path | None = None) -> Path:
    """Where `wyrd up` keeps its dev key: in the given home, `WYRD_HOME` or `./.wyrd`."""
    return Path(home or os.environ.get("WYRD_HOME") or ".wyrd") / "dev-key"


def _saved_login() -> str | None:
    path = Path.home() / ".config" / "wyrd" / "credentials.toml"
    text = _read(path)
    if text is None:
        return None
    try:
        profile = tomllib.loads(text).get("default", {})
    except tomllib.TOMLDecodeError as error:
        raise WyrdError(Code.CLIENT_401_SAVED_LOGIN_UNUSABLE, f"{path}: {error}", path=str(path)) from None
    key = profile.get("api_key") if isinstance(profile, dict) else None
    return key if isinstance(key, str) else None


def resolve_credential(argument: str | None, server_url: str) -> Credential:
    """The first of: argument, `WYRD_ACCESS_TOKEN`, `WYRD_API_KEY`, the dev key of `wyrd up` (sent to a
    loopback server only), the saved login.

    Errors: CLIENT_400_CONFIG_INVALID, CLIENT_401_NO_CREDENTIALS, CLIENT_401_SAVED_LOGIN_UNUSABLE.
    """
    if argument is not None:
        return _credential(argument)
    if token := os.environ.get("WYRD_ACCESS_TOKEN"):
        return _credential(token)
    if key := os.environ.get("WYRD_API_KEY"):
        return _credential(key)
    # The dev key opens the stack it was made by; a server elsewhere has no use for it.
    if is_loopback(urlsplit(server_url).hostname) and (key := _read(dev_key_path())):
        return _credential(key)
    if key := _saved_login():
        return _credential(key)
    raise WyrdError(
        Code.CLIENT_401_NO_CREDENTIALS,
        "no credential: give one, set WYRD_API_KEY or WYRD_ACCESS_TOKEN, or run where wyrd up keeps .wyrd",
    )
