"""Judges and contents for the cache's tests."""

from collections.abc import Sequence
from sqlite3 import Connection

from xscore.cache.judgment_store import insert_judgments
from xscore.cache.keys import JudgmentKey, judge_key
from xscore.platform import database
from xscore.records.judgment import JudgeIdentity, Judgment

JUDGE = JudgeIdentity("openai", "api.openai.com", "m", "low", "judge-2", "memory_first", True)
NAMES = ("turn", judge_key(JUDGE), 0)


def judgments(start: int, stop: int, *, score: float = 0.5) -> list[Judgment]:
    """Make judgments for numbered contents."""
    return [Judgment(f"{number:032x}", score) for number in range(start, stop)]


def write_judgments(
    connection: Connection, judgments: Sequence[Judgment], names: JudgmentKey = NAMES
) -> None:
    """Store judgments in one transaction."""
    with database.transaction(connection):
        insert_judgments(connection, judgments, names)
