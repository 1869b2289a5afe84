"""The Source Card: where evidence outside Wyrd can be read from."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Tag

from wyrd.cards.identifiers import Count16
from wyrd.cards.shapes import TAG, Lenient, tagged


class NoAuth(Lenient):
    scheme: Literal["none"]


class EnvAuth(Lenient):
    scheme: Literal["env"]
    env: str


class BasicAuth(Lenient):
    scheme: Literal["basic"]
    username: str
    password_env: str


class MultiEnvAuth(Lenient):
    scheme: Literal["multi_env"]
    vars: dict[str, str]


class SecretStoreAuth(Lenient):
    scheme: Literal["secret_store"]
    provider: str
    name: str


SourceAuth: TypeAlias = Annotated[
    Annotated[NoAuth, Tag(TAG + "none")]
    | Annotated[EnvAuth, Tag(TAG + "env")]
    | Annotated[BasicAuth, Tag(TAG + "basic")]
    | Annotated[MultiEnvAuth, Tag(TAG + "multi_env")]
    | Annotated[SecretStoreAuth, Tag(TAG + "secret_store")],
    tagged("scheme"),
]


class Connection(Lenient):
    """What every connection has."""

    auth: SourceAuth = NoAuth(scheme="none")


class Prometheus(Connection):
    vendor: Literal["prometheus"]
    endpoint: str


class Datadog(Connection):
    vendor: Literal["datadog"]
    site: str


class CloudWatch(Connection):
    vendor: Literal["cloudwatch"]
    region: str


class Loki(Connection):
    vendor: Literal["loki"]
    endpoint: str


class Elasticsearch(Connection):
    vendor: Literal["elasticsearch"]
    endpoint: str


class Splunk(Connection):
    vendor: Literal["splunk"]
    endpoint: str


class Tempo(Connection):
    vendor: Literal["tempo"]
    endpoint: str


class Jaeger(Connection):
    vendor: Literal["jaeger"]
    endpoint: str


class DatadogApm(Connection):
    vendor: Literal["datadog_apm"]
    site: str


class BigQuery(Connection):
    vendor: Literal["big_query"]
    project: str


class Snowflake(Connection):
    vendor: Literal["snowflake"]
    account: str
    warehouse: str
    database: str


class Postgres(Connection):
    vendor: Literal["postgres"]
    host: str
    database: str
    port: Count16 | None = None


class ObjectStore(Lenient):
    kind: Literal["object_store"]
    uri: str
    format: Literal["parquet", "jsonl", "arrow_ipc", "csv"]


class SqlWarehouse(Lenient):
    kind: Literal["sql_warehouse"]
    connection: Annotated[
        Annotated[BigQuery, Tag(TAG + "big_query")]
        | Annotated[Snowflake, Tag(TAG + "snowflake")]
        | Annotated[Postgres, Tag(TAG + "postgres")],
        tagged("vendor"),
    ]


class Metrics(Lenient):
    kind: Literal["metrics"]
    connection: Annotated[
        Annotated[Prometheus, Tag(TAG + "prometheus")]
        | Annotated[Datadog, Tag(TAG + "datadog")]
        | Annotated[CloudWatch, Tag(TAG + "cloudwatch")],
        tagged("vendor"),
    ]


class Logs(Lenient):
    kind: Literal["logs"]
    connection: Annotated[
        Annotated[Loki, Tag(TAG + "loki")]
        | Annotated[Elasticsearch, Tag(TAG + "elasticsearch")]
        | Annotated[Splunk, Tag(TAG + "splunk")],
        tagged("vendor"),
    ]


class Traces(Lenient):
    kind: Literal["traces"]
    connection: Annotated[
        Annotated[Tempo, Tag(TAG + "tempo")]
        | Annotated[Jaeger, Tag(TAG + "jaeger")]
        | Annotated[DatadogApm, Tag(TAG + "datadog_apm")],
        tagged("vendor"),
    ]


class SourceSpec(Lenient):
    """A Source of one kind; what its vendor needs is required."""

    source: Annotated[
        Annotated[ObjectStore, Tag(TAG + "object_store")]
        | Annotated[SqlWarehouse, Tag(TAG + "sql_warehouse")]
        | Annotated[Metrics, Tag(TAG + "metrics")]
        | Annotated[Logs, Tag(TAG + "logs")]
        | Annotated[Traces, Tag(TAG + "traces")],
        tagged("kind"),
    ]
