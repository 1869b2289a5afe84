"""Where the server is, and which addresses may be spoken to without TLS."""

from __future__ import annotations

import ipaddress
import os
from urllib.parse import urljoin, urlsplit

from wyrd.errors import Code, WyrdError

DEFAULT_URL = "http://localhost:8080"
GRPC_PORT = 50051


def is_loopback(host: str | None) -> bool:
    if host is None:
        return False
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _refuse(field: str, detail: str) -> WyrdError:
    return WyrdError(Code.CLIENT_400_CONFIG_INVALID, detail, field=field)


def checked_url(text: str, field: str) -> str:
    """The address without a trailing slash. Refused with CLIENT_400_CONFIG_INVALID: no http(s)
    address, user information or a query in it, cleartext to a host that is not loopback."""
    try:
        parts = urlsplit(text.strip())
        host, _port = parts.hostname, parts.port
    except ValueError:
        raise _refuse(field, f"{text[:200]!r} is not an address") from None
    if parts.scheme not in ("http", "https") or not host:
        raise _refuse(field, f"{text[:200]!r} is not an http or https address")
    if parts.username is not None or parts.password is not None:
        raise _refuse(field, "the address must not hold a user name or password")
    if parts.query or parts.fragment:
        raise _refuse(field, "the address must not hold a query or fragment")
    if parts.scheme == "http" and not is_loopback(host):
        raise _refuse(field, f"cleartext http to {host} is refused; use https")
    return parts.geturl().rstrip("/")


def resolve_server_url(argument: str | None) -> str:
    """Argument, `WYRD_SERVER_URL`, then http://localhost:8080."""
    found = argument if argument is not None else os.environ.get("WYRD_SERVER_URL")
    return checked_url(found or DEFAULT_URL, "http_config.base_url")


def resolve_grpc_url(argument: str | None, server_url: str) -> str:
    """Argument, `WYRD_GRPC_URL`, then port 50051 of the server's host."""
    found = argument if argument is not None else os.environ.get("WYRD_GRPC_URL")
    if found:
        return checked_url(found, "grpc_config.base_url")
    parts = urlsplit(server_url)
    host = parts.hostname or "localhost"
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{GRPC_PORT}"


def origin(url: str) -> tuple[str, str, int]:
    """Scheme, host and port: what must agree before a token is sent."""
    parts = urlsplit(url)
    default = 443 if parts.scheme == "https" else 80
    return parts.scheme, (parts.hostname or "").lower(), parts.port or default


def upload_url(server_url: str, put_url: str, *, with_token: bool) -> str:
    """The absolute address of an upload plan.

    A plan that would send the token anywhere but to the server, or evidence in cleartext over a
    network, is refused with SPEC_502_UPSTREAM_FAILURE.
    """
    url = urljoin(f"{server_url}/", put_url)
    parts = urlsplit(url)
    if with_token and origin(url) != origin(server_url):
        raise WyrdError(Code.SPEC_502_UPSTREAM_FAILURE, "an upload plan points away from the server")
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname)):
        raise WyrdError(Code.SPEC_502_UPSTREAM_FAILURE, "an upload plan asks for an unprotected connection")
    return url
