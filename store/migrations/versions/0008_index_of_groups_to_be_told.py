"""An index of the groups to be told.

Revision 0008, after 0007. There is no way down: restore a backup.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    untold = sa.text("coalesce(told_due_at < due_at, due_at IS NOT NULL)")
    op.create_index("ix_groups_untold", "groups", ["due_at"], sqlite_where=untold, postgresql_where=untold)
