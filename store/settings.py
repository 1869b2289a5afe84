"""Every setting of the server processes, read once from the environment (prefix `WYRD_`)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, SecretStr
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict


def _listed(given: Any) -> Any:
    """The items of a text with commas between them."""
    if not isinstance(given, str):
        return given
    return tuple(item.strip() for item in given.split(",") if item.strip())


class Settings(BaseSettings):
    """What `serve`, `worker` and the migrations are told. Embedded defaults live under `home`."""

    model_config = SettingsConfigDict(env_prefix="WYRD_", extra="ignore", frozen=True)

    home: Path = Path(".wyrd")
    """Folder of everything the embedded stack keeps."""
    database_url: str | None = None
    """SQLAlchemy URL; none means SQLite at `home`/wyrd.db."""
    blob_url: str | None = None
    """`s3://bucket/prefix`; none means the folder `home`/blobs."""
    s3_endpoint: str | None = None
    s3_public_endpoint: str | None = None
    """Address of the S3 server as clients see it, for presigned URLs; none means `s3_endpoint`."""
    s3_region: str = "us-east-1"
    s3_access_key: str | None = None
    s3_secret_key: SecretStr | None = None
    secret_key: SecretStr | None = None
    """Signs access tokens and upload addresses; none means the file `home`/secret-key, made when missing."""
    tenant: str = "local"
    """Slug of the tenant that the first start makes."""
    dev_key: bool = False
    """Keep an administrator's key in `home`/dev-key; `wyrd up` sets it."""

    host: str = "127.0.0.1"
    port: int = Field(8080, ge=0, le=65535)

    grpc_port: int = Field(50051, ge=0, le=65535)
    """Port of the gRPC door for batches of rows; 0 takes a free one."""

    warehouse_url: str | None = None
    """`s3://bucket/prefix` of the tables, on the S3 server of the blobs; none means `home`/warehouse."""
    publish_rows: int = Field(5000, ge=1)
    """Rows of one table that are published as soon as they have gathered."""
    publish_seconds: float = Field(30.0, gt=0)
    """How long rows wait to be published at most."""
    max_unpublished_bytes: int = Field(4 * 1024**3, ge=1024)
    """Bytes of one tenant that may wait to be published before batches are refused with INGEST_BUSY."""
    query_workers: int | None = Field(None, ge=1)
    """Query processes, and so queries that run at once; none means one a core."""
    query_seconds: float = Field(60.0, gt=0)
    """How long a query may take when it asks for no deadline, and at most."""

    temporal_address: str = "127.0.0.1:7233"
    temporal_namespace: str = "default"
    temporal_ui_url: str | None = Field(None, pattern=r"^https?://")
    """Address of the Temporal UI as people see it; answers about executions link to it."""
    temporal_api_key: SecretStr | None = None
    temporal_tls: bool = False
    payload_key: SecretStr | None = None
    """Base64 of 32 bytes; when set, Temporal payloads are encrypted with AES-256-GCM."""

    connection_key: SecretStr | None = None
    """Base64 of 32 bytes that protect the secrets of operator connections; none derives them from the
    server secret."""
    slack_url: str = Field("https://slack.com", pattern=r"^https?://")
    pager_duty_url: str = Field("https://events.pagerduty.com", pattern=r"^https?://")
    operator_destinations: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_listed)] = ()
    """Hosts, addresses and networks (CIDR), with commas between them, that Operators may reach although
    they are private."""
    notify_slots: int = Field(32, ge=1)
    """Deliveries of Operators that a worker makes at the same time."""
    public_url: str | None = Field(None, pattern=r"^https?://")
    """Address of the API as people see it, for the links in what Operators send."""

    gateway_config: Path | None = None
    """YAML file of model deployments; none means `home`/gateway.yaml when that exists."""

    max_body_bytes: int = Field(8 * 1024 * 1024, ge=1024, le=8 * 1024 * 1024)
    max_file_bytes: int = Field(256 * 1024 * 1024, ge=1, le=256 * 1024 * 1024)
    max_waiting_executions: int = Field(100_000, ge=1)
    """Executions of one tenant that may wait before enqueue answers STAGING_FULL."""
    execution_timeout_seconds: float = Field(1800.0, gt=0)
    target_cache_seconds: float = Field(1.0, ge=0)
    """How long a process may trust what it read of a Verifier's bindings."""

    window_margin_seconds: float = Field(10.0, ge=0)
    """How long after its end a scheduled window is judged, so that samples under way are in it."""

    agent_slots: int = Field(16, ge=1)
    sandbox_workers: int | None = None
    extract_workers: int = Field(2, ge=1)
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @property
    def api_url(self) -> str:
        """`public_url`, else where the API listens."""
        return (self.public_url or f"http://{self.host}:{self.port}").rstrip("/")

    @property
    def sql_url(self) -> str:
        return self.database_url or f"sqlite:///{(self.home / 'wyrd.db').absolute()}"
