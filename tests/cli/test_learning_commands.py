"""`xscore memory consolidate | feedback | suggest | mute`, as a user runs them."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run, own_store
from tests.extensions.learning.conftest import made, preference
from xscore.platform import database
from xscore.records.memory import Kind, Memory
from xscore.store import memory_writer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make a folder that is a project."""
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def put(folder: Path, *memories: Memory) -> None:
    """Add memories to the project's and the user's store."""
    with own_store(folder) as store:
        for memory in memories:
            with database.transaction(store.home_of(memory.layer)) as connection:
                memory_writer.put_memories(connection, [memory])


def fresh(text: str, **fields: Any) -> Memory:
    """Make a project convention dated today."""
    return made(text, **{"created_at": time.time(), "updated_at": time.time(), **fields})


def mine(text: str, **fields: object) -> Memory:
    """Make a preference dated today."""
    return preference(text, **({"created_at": time.time(), "updated_at": time.time()} | fields))


def test_consolidate_shows_each_action_and_why(xscore: Run, folder: Path) -> None:
    """L03: a dry run reports and changes nothing; the run does the same; the next one has nothing
    to do."""
    first, second = (
        fresh("Retries use tenacity everywhere here", confidence=1.0),
        fresh("Retries use tenacity, everywhere here.", confidence=1.0),
    )
    put(folder, first, second)
    dry = xscore("memory", "consolidate", "--scope", "project", "--dry-run", cwd=folder)
    assert dry.returncode == 0, dry.stderr
    assert "merge" in dry.stdout
    assert "2 say the same; seen 2 times in all" in dry.stdout
    assert "would do" in dry.stdout
    report = json.loads(
        xscore("memory", "consolidate", "--scope", "project", "--json", cwd=folder).stdout
    )
    assert (report["schema"], report["dry_run"], report["counts"]["merge"]) == (1, False, 1)
    assert set(report["actions"][0]["memory_ids"]) == {first.id, second.id}
    repeated = json.loads(
        xscore("memory", "consolidate", "--scope", "project", "--json", cwd=folder).stdout
    )
    assert "merge" not in repeated["counts"]


def test_feedback_moves_confidence(xscore: Run, folder: Path) -> None:
    """L08: accept changes the weight by 0.10, reject by 0.20, override by 0.30, in either store."""
    ours, usual = fresh("Errors end in a full stop"), mine("Use tabs", key="indent")
    put(folder, ours, usual)
    accepted = xscore("memory", "feedback", ours.id, "accept", cwd=folder)
    assert "confidence 0.60 -> 0.70 (accept)" in accepted.stdout
    feedback = json.loads(
        xscore("memory", "feedback", usual.id, "override", "--json", cwd=folder).stdout
    )
    assert (feedback["schema"], feedback["before"], feedback["after"]) == (1, 0.6, 0.3)


def test_what_the_user_usually_does_is_suggested_until_muted(xscore: Run, folder: Path) -> None:
    """H25: one sentence about what the project leaves open; never what is muted, known here or
    doubtful."""
    put(
        folder,
        mine("Usually uses Prisma.", key="orm", confidence=0.9),
        mine("Postgres", key="database", confidence=0.8),
        mine("Tabs", key="indent", confidence=0.59),
        mine("pytest", key="tests", confidence=0.9),
        fresh("Tests run under pytest", kind=Kind.TECH_STACK, key="test_runner"),
        mine("MIT", key="licence", confidence=0.9),
        fresh("Apache", kind=Kind.TECH_STACK, key="licence"),
    )
    printed = xscore("memory", "suggest", cwd=folder)
    assert printed.stdout.splitlines()[0] == (
        "You typically use Prisma + Postgres. This project has no memory of it yet (orm, database)."
    )
    assert xscore("memory", "mute", "orm", cwd=folder).returncode == 0
    in_json = json.loads(xscore("memory", "suggest", "--json", cwd=folder).stdout)
    assert [suggestion["key"] for suggestion in in_json["suggestions"]] == ["database"]
    assert xscore("memory", "mute", "--list", cwd=folder).stdout == "orm\n"
    assert xscore("memory", "mute", "orm", "--undo", cwd=folder).returncode == 0
    assert "Prisma" in xscore("memory", "suggest", cwd=folder).stdout
