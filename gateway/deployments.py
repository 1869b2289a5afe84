"""Which endpoints this server may call: the configuration file and the native route.

The file names deployments; a credential is never in it, only the name of the environment
variable that holds one.

    deployments:
      openai:
        adapter: openai
        api_key_env: OPENAI_API_KEY
        models: [gpt-6-luna]
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from engine.failure import BlockFailure, ReasonKind
from gateway.calls import EffectiveRoute
from wyrd.cards.yaml_reader import YamlRefused, read_documents
from wyrd.errors import Code, WyrdError

MAX_CONFIG_BYTES = 1024 * 1024


class Adapter(StrEnum):
    """How an endpoint is spoken to."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"
    GEMINI = "gemini"
    VERTEX = "vertex"
    """Google's models under an API key; service accounts are not supported."""
    OPENAI_COMPATIBLE = "openai_compatible"


DEFAULT_BASE_URLS: Mapping[Adapter, str] = {
    Adapter.OPENAI: "https://api.openai.com/v1",
    Adapter.ANTHROPIC: "https://api.anthropic.com",
    Adapter.GEMINI: "https://generativelanguage.googleapis.com/v1beta",
    Adapter.VERTEX: "https://aiplatform.googleapis.com/v1/publishers/google",
}

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{2,63}$")]
VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=256)]


class Deployment(BaseModel):
    """One endpoint under a name. An empty `models` offers every model."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    adapter: Annotated[Adapter, Field(strict=False)]
    base_url: str | None = None
    api_key_env: VariableName | None = None
    models: tuple[Annotated[str, Field(min_length=1)], ...] = Field(default=(), strict=False)

    @field_validator("base_url")
    @classmethod
    def _plain_address(cls, value: str | None) -> str | None:
        return value if value is None else _address(value)

    @model_validator(mode="after")
    def _complete(self) -> Deployment:
        if self.adapter is Adapter.OPENAI_COMPATIBLE:
            if self.base_url is None:
                raise ValueError("openai_compatible needs a base_url")
        elif self.api_key_env is None:
            raise ValueError(f"{self.adapter} needs api_key_env, the name of a variable")
        return self


def _address(value: str) -> str:
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError:
        raise ValueError("not a URL") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ValueError("must be an http or https URL with a host")
    if parts.username is not None or parts.password is not None:
        raise ValueError("must not hold a credential; name a variable in api_key_env")
    if parts.query or parts.fragment or re.search(r"\s", value):
        raise ValueError("must not hold a query, a fragment or white space")
    return value.rstrip("/")


class GatewayConfig(BaseModel):
    """The configuration file's content. Without a file there are no deployments."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    deployments: dict[Name, Deployment] = Field(default_factory=dict)

    @classmethod
    def load(cls, path: Path | None) -> GatewayConfig:
        """Read a `.toml`, `.yaml`, `.yml` or `.json` file; None is a server without deployments.

        `WYRD_GATEWAY_400_INVALID_CONFIGURATION` with `details.field` says what is wrong.
        """
        return cls() if path is None else cls.parse(_document(path))

    @classmethod
    def parse(cls, document: Any) -> GatewayConfig:
        """Check a document that is already read. Errors as in `load`."""
        try:
            return cls.model_validate({} if document is None else document)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            where = ".".join(str(part) for part in first["loc"] if part != "[key]")
            what = first["msg"].removeprefix("Value error, ")
            raise _invalid(f"{where or 'the file'}: {what}", where) from None


def _document(path: Path) -> Any:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise _invalid(f"{path.name} cannot be read: {error.strerror}", "file") from None
    if len(raw) > MAX_CONFIG_BYTES:
        raise _invalid(f"{path.name} is larger than {MAX_CONFIG_BYTES} bytes", "file")
    if path.suffix == ".toml":
        try:
            return tomllib.loads(raw.decode("utf-8-sig"))
        except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
            raise _invalid(f"{path.name} is not TOML: {error}", "file") from None
    try:
        documents = read_documents(raw)
    except YamlRefused as refused:
        fault = refused.faults[0]
        place = f"line {fault.line}, column {fault.column}"
        raise _invalid(f"{path.name} is not YAML: {fault.message} at {place}", "file") from None
    if len(documents) != 1:
        raise _invalid(f"{path.name} holds {len(documents)} documents instead of one", "file")
    return documents[0].value


def _invalid(detail: str, where: str) -> WyrdError:
    return WyrdError(Code.GATEWAY_400_INVALID_CONFIGURATION, detail, field=where)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a call goes and with what. `api_key` None sends none."""

    adapter: Adapter
    base_url: str
    model: str
    route: EffectiveRoute
    api_key: str | None = field(default=None, repr=False)


_NATIVE: Mapping[str, tuple[Adapter, tuple[str, ...], str]] = {
    "openai": (Adapter.OPENAI, ("OPENAI_API_KEY",), "OPENAI_BASE_URL"),
    "anthropic": (Adapter.ANTHROPIC, ("ANTHROPIC_API_KEY",), "ANTHROPIC_BASE_URL"),
    "google": (Adapter.GEMINI, ("GEMINI_API_KEY", "GOOGLE_API_KEY"), "GEMINI_BASE_URL"),
    "vertex": (Adapter.VERTEX, ("VERTEX_API_KEY",), "VERTEX_BASE_URL"),
}


def resolve(
    config: GatewayConfig, environ: Mapping[str, str], *, deployment: str | None, provider: str, model: str
) -> Endpoint:
    """The endpoint of a call, before any connection. Raises `BlockFailure` NOT_CONFIGURED."""
    if deployment is not None:
        return _deployed(config, environ, deployment, model)
    return _native(environ, provider, model)


def _deployed(config: GatewayConfig, environ: Mapping[str, str], name: str, model: str) -> Endpoint:
    found = config.deployments.get(name)
    if found is None:
        raise _missing(f"this server has no deployment {name!r}")
    if found.models and model not in found.models:
        raise _missing(f"the deployment {name!r} does not offer the model {model!r}")
    base_url = found.base_url or DEFAULT_BASE_URLS[found.adapter]
    key = None
    if found.api_key_env is not None:
        key = _credential(environ, found.api_key_env)
        if key is None:
            raise _missing(f"the deployment {name!r} needs {found.api_key_env}, which is not set here")
    route = EffectiveRoute("wyrd_gateway", found.adapter.value, urlsplit(base_url).netloc, name)
    return Endpoint(found.adapter, base_url, model, route, key)


def _native(environ: Mapping[str, str], provider: str, model: str) -> Endpoint:
    stem = provider.upper().replace("-", "_")
    other = (Adapter.OPENAI_COMPATIBLE, (f"{stem}_API_KEY",), f"{stem}_BASE_URL")
    adapter, key_names, base_name = _NATIVE.get(provider, other)
    base_url = environ.get(base_name, "").strip() or DEFAULT_BASE_URLS.get(adapter)
    if base_url is None:
        raise _missing(
            f"the native route does not know the provider {provider!r}; set {base_name} to an address "
            "that speaks chat completions, or route the Agent through a deployment"
        )
    try:
        base_url = _address(base_url)
    except ValueError as error:
        raise _missing(f"{base_name} {error}") from None
    key = next((value for name in key_names if (value := _credential(environ, name))), None)
    if key is None:
        raise _missing(
            f"the native route to {provider} needs {' or '.join(key_names)}, which is not set here"
        )
    return Endpoint(
        adapter, base_url, model, EffectiveRoute("native", provider, urlsplit(base_url).netloc), key
    )


def _credential(environ: Mapping[str, str], name: str) -> str | None:
    key = environ.get(name, "").strip()
    if not key:
        return None
    if not key.isascii() or not key.isprintable():
        raise _missing(f"the credential in {name} holds characters that no header can carry")
    return key


def _missing(reason: str) -> BlockFailure:
    return BlockFailure(ReasonKind.NOT_CONFIGURED, reason)
