"""Judges and contents for the cache's tests."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from sqlite3 import Connection

import pytest

from xscore.cache.judgments import insert_judgments
from xscore.cache.keys import JudgmentKey, judge_key
from xscore.platform import database
from xscore.records.judgment import JudgeIdentity, Judgment
from xscore.store.opening import connect_store

JUDGE = JudgeIdentity("openai", "api.openai.com", "m", "low", "judge-2", "memory_first", True)
NAMES = ("turn", judge_key(JUDGE), 0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Give the place of a database."""
    return tmp_path / "memory.db"


@pytest.fixture
def connection(path: Path) -> Iterator[Connection]:
    """Open a new database."""
    opened = connect_store(path)
    yield opened
    opened.close()


def judgments(start: int, stop: int, *, score: float = 0.5) -> list[Judgment]:
    """Judge contents by number."""
    return [Judgment(f"{number:032x}", score) for number in range(start, stop)]


def write_judgments(connection: Connection, found: Sequence[Judgment], names: JudgmentKey = NAMES) -> None:
    """Keep judgments in a transaction of their own."""
    with database.transaction(connection):
        insert_judgments(connection, found, names)
