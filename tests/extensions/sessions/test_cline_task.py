"""Cline's tasks: messages in one array, the folder in another file, exit codes only in words."""

import sys
from pathlib import Path

import pytest

from tests.extensions.sessions.session_writers import Import, Past, cline_task, say, words_of
from xscore.extensions.sessions.cline import EXTENSION

MESSAGES = [
    say("text", "add a cache", ts=0),
    say(
        "api_req_started",
        {"request": "<environment_details>secret</environment_details>"},
        ts=1,
    ),
    say("text", "I will add one.", ts=2, partial=True),
    say("tool", {"tool": "editedExistingFile", "path": "src/reader.py", "diff": "x"}, ts=3),
    say("command", "pytest -qREQ_APP", ts=4, ask=True),
    say("command_output", "E KeyError\nCommand failed with exit code: 1", ts=5),
    say("command", "pytest -q", ts=6, ask=True),
    say("command_output", "1 passed, exit code: 0", ts=7),
    say("completion_result", "The cache is there.HAS_CHANGES", ts=8),
    say("user_feedback", "<feedback>\nand a test?\n</feedback>", ts=9),
    say("plan_mode_respond", {"response": "A test follows.", "options": []}, ts=10, ask=True),
]


@pytest.fixture
def storage(own_home: Path) -> Path:
    """Return the extension's folder on this platform."""
    base = "Library/Application Support" if sys.platform == "darwin" else ".config"
    folder = own_home / base / "Code" / EXTENSION
    folder.mkdir(parents=True)
    return folder


@pytest.mark.parametrize("how", ["cwd", "listed"])
def test_tasks_are_read(root: Path, storage: Path, run: Import, past: Past, how: str) -> None:
    """A task and each feedback is an exchange; its folder is in the environment or in the list of
    tasks."""
    cline_task(storage, "1763632800000", MESSAGES, **{how: root})
    report = run()
    assert (report.added, report.failures) == (2, 1)
    first, second = past()
    assert (
        words_of(first.text)
        == "Task: add a cache Answer: The cache is there. Failed: `pytest -q` E KeyError Command"
        " failed with exit code: 1 The same command passed later. Files changed: src/reader.py"
    )
    assert words_of(second.text) == "Task: and a test? Answer: A test follows."
    assert first.created_at == 1_763_632_800.0


def test_tasks_of_other_folders_are_not_read(
    root: Path, storage: Path, tmp_path: Path, run: Import
) -> None:
    """A task of a neighbouring or unknown folder is not imported."""
    cline_task(storage, "1", MESSAGES, cwd=tmp_path / "other")
    cline_task(storage, "2", MESSAGES)
    assert run().files == 0


def test_a_changed_task_is_read_anew_and_known(
    root: Path, storage: Path, run: Import, past: Past
) -> None:
    """Each step rewrites the file; its exchanges keep their ids."""
    cline_task(storage, "1", MESSAGES[:9], cwd=root)
    run()
    cline_task(storage, "1", MESSAGES, cwd=root)
    report = run()
    assert (report.added, report.known) == (1, 1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '[{"ts": 1, "type": "say", "say": "text", "text": "half',
            "expected a complete JSON array",
        ),
        ('{"messages": []}', "expected a complete JSON array"),
        ('[{"type": "say", "say": "text", "text": "x"}]', "expected a time as `ts`"),
        ('[{"ts": 1, "kind": "x"}]', "expected `type`"),
        ('[{"ts": 1, "type": "v9"}]', "expected messages of Cline"),
        ("[" + "[" * 100_000, "expected a complete JSON array"),
        ("[7]", "expected one JSON object"),
    ],
)
def test_other_shapes_are_refused(
    root: Path, storage: Path, run: Import, past: Past, text: str, expected: str
) -> None:
    """Incomplete and foreign files are refused with the expected form, and nothing of them is
    kept."""
    cline_task(storage, "1", MESSAGES, cwd=root).write_text(text)
    (refused,) = run().refused
    assert expected in refused.reason
    assert past() == []


def test_a_task_too_large_to_hold_is_refused(root: Path, storage: Path, run: Import) -> None:
    """A document over the limit is refused without being loaded."""
    path = cline_task(storage, "1", MESSAGES, cwd=root)
    with path.open("r+b") as file:
        file.truncate(725 << 20)
    assert "725 MiB is over the limit" in run().refused[0].reason
