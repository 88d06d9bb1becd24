"""The steps between the schema numbers of a store, a repository's or the user's own.

A change of `schema.sql` is a number and a step here: keep the schema as it was at the number before
as `migrations/<number>.sql` if a step aims at it, write `step_<number>.py`, raise `SCHEMA` in
`store.opening`, and add a fixture of the number before (`tests/store/schemas`). Judgments,
statements, receipts and the ledger are always kept; what the index made may be dropped, since it is
rebuilt from the files. `meta` and its `store_id` stay what they are: they are read before
anything else is known of a store.
"""

import sqlite3
from collections.abc import Mapping
from pathlib import Path

from xscore.platform.database import Migration, Schema
from xscore.platform.migration import Step, migrate
from xscore.platform.sqlite_drivers import KeySource
from xscore.store.migrations import (
    step_2,
    step_3,
    step_4,
    step_5,
    step_6,
    step_7,
    step_8,
    step_9,
    step_10,
    step_11,
)

STEPS: Mapping[int, Step] = {
    2: Step(step_2.run, step_2.KEPT_ROWS),
    3: Step(step_3.run, step_3.KEPT_ROWS),
    4: Step(step_4.run, step_4.KEPT_ROWS),
    5: Step(step_5.run, step_5.KEPT_ROWS),
    6: Step(step_6.run, step_6.KEPT_ROWS),
    7: Step(step_7.run, step_7.KEPT_ROWS),
    8: Step(step_8.run, step_8.KEPT_ROWS),
    9: Step(step_9.run, step_9.KEPT_ROWS),
    10: Step(step_10.run, step_10.KEPT_ROWS),
    11: Step(step_11.run, step_11.KEPT_ROWS),
}
"""By the number that each leads to."""


def migrate_store(
    connection: sqlite3.Connection, path: Path, schema: Schema, keys: KeySource | None
) -> Migration | None:
    """Bring an open older store to the schema; None: another process was faster.

    Raises StoreError.
    """
    return migrate(connection, path, schema, STEPS, keys)
