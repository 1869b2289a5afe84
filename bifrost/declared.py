"""Tables that a Service declares under `spec.tables`: registered with the Card, or nothing is."""

from __future__ import annotations

from sqlalchemy import Connection

from bifrost.names import DATASETS, TableName
from bifrost.tables import Tables
from store.caller import Tenant
from store.cards import StoredCard
from wyrd.errors import Code, WyrdError
from wyrd.wire.bifrost import RegisterTable
from wyrd.wire.table_schema import fields_of_json_schema


def register_declared(connection: Connection, tenant: Tenant, service: StoredCard, *, new: bool) -> None:
    """Register the tables of a Service as `vala.datasets.<name>`, in the caller's transaction.

    A new version may let a table grow. A version that was declared before leaves a table alone
    that is there, since a later version may have let it grow meanwhile. Raises
    `WYRD_VALA_409_BIFROST_FINGERPRINT_MISMATCH` when a table is there with other columns.
    """
    tables = Tables(connection, tenant)
    for table in service.spec_document.get("tables", ()):
        if not new and _exists(tables, TableName(DATASETS, table["name"])):
            continue
        fields = fields_of_json_schema(table["schema"])
        tables.register(RegisterTable(namespace=DATASETS, name=table["name"], fields=fields))


def _exists(tables: Tables, name: TableName) -> bool:
    try:
        tables.find(name)
    except WyrdError as error:
        if error.member is not Code.VALA_404_BIFROST_TABLE_NOT_FOUND:
            raise
        return False
    return True
