"""Judgments that this user's other stores hold, copied into this one.

Other worktrees, clones and repositories may have judged the same contents for the same turn. What
they hold is only read. Trade-off: reasons stay where they were given.
"""

from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from sqlite3 import Connection

from xscore.cache.judgment_store import insert_judgments
from xscore.cache.judgments import read_judgments
from xscore.cache.keys import JudgmentKey
from xscore.platform import database
from xscore.platform.errors import StoreError
from xscore.records.judgment import Judgment
from xscore.store.siblings import opened_sibling


def copy_judgments(
    connection: Connection, key: JudgmentKey, hashes: Collection[str], stores: Iterable[Path]
) -> int:
    """Copy the judgments of these contents that other stores of this user hold; return how many.
    Raises StoreError.

    A store that is damaged, held by another process or gone is passed over.
    """
    copied: dict[str, Judgment] = {}
    for store in stores:
        missing = [content for content in hashes if content not in copied]
        with suppress(StoreError), opened_sibling(store) as sibling:
            copied |= read_judgments(sibling, key, missing)
    if copied:
        with database.transaction(connection):
            insert_judgments(connection, list(copied.values()), key)
    return len(copied)
