"""${message[0].upper() + message[1:]}.

Revision ${up_revision}, after ${down_revision or "nothing"}. There is no way down: restore a backup.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from store.tables.metadata import Document, Instant

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None


def upgrade() -> None:
    ${upgrades if upgrades else "pass"}
