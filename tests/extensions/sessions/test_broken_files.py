"""Hostile or broken session files: clear messages, never half an import."""

import os
from pathlib import Path

import pytest

from tests.extensions.sessions.session_writers import (
    ClaudeLog,
    CodexLog,
    Import,
    Past,
    Texts,
    words_of,
)

NOW = 4_000_000_000.0
HUGE = "HUGE " + "x" * 9_000_000
FIRST, THIRD = "Task: first Answer: answer one", "Task: third Answer: answer three"


def test_damage_in_the_middle_loses_one_exchange(
    root: Path, own_home: Path, run: Import, texts: Texts
) -> None:
    """A half-written question is left out and counted, with the words that answered it; the rest is
    read, and all of it once the file is whole."""
    log = ClaudeLog(root).user("one").says("answer one").user("two").says("answer two")
    log.user("three").says("answer three")
    path = log.write(own_home)
    lines = path.read_text().splitlines()
    lines[2] = lines[2][:40]
    path.write_text("\n".join(lines) + "\n")
    os.utime(path, (NOW - 9_000, NOW - 9_000))
    report = run()
    assert (report.damaged_lines, report.refused) == (1, [])
    assert "1 damaged line" in report.notes[0] and "line 3" in report.notes[0]
    assert texts() == ["Task: one Answer: answer one", "Task: three Answer: answer three"]
    report = run()
    assert (report.unchanged, report.damaged_lines, report.notes) == (1, 0, [])
    log.write(own_home)
    assert run().added == 1


@pytest.mark.parametrize(
    "line",
    ['{"type":"user",' + '"a":[' * 100_000, "[1]", '"user"', '{"type":"user","x":1e}'],
    # A test's name is in its environment, which git is given too.
    ids=["deep", "list", "string", "number"],
)
def test_hostile_json_is_left_out(
    root: Path, own_home: Path, run: Import, texts: Texts, line: str
) -> None:
    """Deep nesting, wrong types and bad numbers are counted, by their line."""
    log = ClaudeLog(root).user("one").says("answer one").user("two").says("answer two")
    path = log.write(own_home)
    first, second, *rest = path.read_text().splitlines()
    path.write_text("\n".join([first, second, line, *rest]) + "\n")
    report = run()
    assert (report.damaged_lines, report.refused) == (1, [])
    assert "line 3: expected one JSON object" in report.notes[0]
    assert texts() == ["Task: one Answer: answer one", "Task: two Answer: answer two"]


def test_a_file_without_a_good_exchange_is_refused(
    root: Path, own_home: Path, run: Import, past: Past
) -> None:
    """It is of another format, and named, each time."""
    path = ClaudeLog(root).user("one").says("answer").write(own_home)
    path.write_text("{]\n" + path.read_text().splitlines()[1] + "\n")
    os.utime(path, (NOW - 9_000, NOW - 9_000))
    for _ in range(2):
        (refused,) = run().refused
        assert refused.reason.startswith("line 1: expected one JSON object")
    assert past() == []


def test_odd_letters_are_harmless(root: Path, own_home: Path, run: Import, past: Past) -> None:
    """Lone surrogates, NUL, escapes and non-UTF-8 bytes are replaced; the exchange is kept."""
    path = (
        ClaudeLog(root, "s\ud800")
        .user("a\ud800b\x00c \x1b[31mred\x1b[0m")
        .says("fine")
        .write(own_home, "odd")
    )
    path.write_bytes(path.read_bytes().replace(b"fine", b"fi\xff\xfene"))
    assert run().refused == []
    assert words_of(past()[0].text) == "Task: a?b\ufffdc red Answer: fi\ufffd\ufffdne"


def test_a_clock_in_the_future_is_not_believed(
    root: Path, own_home: Path, run: Import, past: Past
) -> None:
    """No memory has a time in the future."""
    log = ClaudeLog(root).user("one").says("answer")
    for record in log.records:
        record["timestamp"] = "2999-01-01T00:00:00Z"
    log.write(own_home)
    run()
    assert past()[0].updated_at == NOW


def test_links_pipes_and_folders_are_not_followed(
    root: Path, own_home: Path, tmp_path: Path, run: Import
) -> None:
    """A link out of the folder and an endless pipe are reported and never opened; they are no
    broken session."""
    log = ClaudeLog(root).user("q").says("a")
    folder = log.place(own_home).parent
    folder.mkdir(parents=True)
    (tmp_path / "secret.jsonl").write_text(log.text())
    (folder / "link.jsonl").symlink_to(tmp_path / "secret.jsonl")
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "folder.jsonl").mkdir()
    report = run()
    assert (report.added, report.files, report.refused) == (0, 0, [])
    assert [note.rpartition("/")[2] for note in report.notes] == [
        f"{name}.jsonl: left out, no regular file" for name in ("folder", "link", "pipe")
    ]


@pytest.mark.verify
def test_a_packed_bomb_is_refused(root: Path, own_home: Path, run: Import) -> None:
    """A file that unpacks beyond the limit is read up to it, with a message."""
    import zstandard

    log = (
        CodexLog(root)
        .event("user_message", message="q" * 90_000_000)
        .event("agent_message", message="a")
    )
    log.write(own_home, "rollout-x.jsonl.zst")
    assert "expand to more than" in run().refused[0].reason
    huge = zstandard.ZstdCompressionParameters(window_log=30)
    path = own_home / ".codex/sessions/2026/11/20/rollout-x.jsonl.zst"
    packer = zstandard.ZstdCompressor(compression_params=huge).compressobj()
    path.write_bytes(packer.compress(log.text().encode()) + packer.flush())
    assert "it cannot be decompressed" in run().refused[0].reason


def test_claude_code_keeps_what_stands_before(
    root: Path, own_home: Path, run: Import, texts: Texts
) -> None:
    """The exchange before the long question is imported, the long one is skipped with a message."""
    log = ClaudeLog(root).user("first").says("answer one").user(HUGE).says("answer two")
    log.user("third").says("answer three").write(own_home)
    report = run()
    assert texts() == [FIRST, THIRD]
    assert report.notes[0].endswith(": 1 line of more than 8 MiB left out")


@pytest.mark.verify
def test_codex_keeps_what_stands_before(
    root: Path, own_home: Path, run: Import, texts: Texts
) -> None:
    """The same for events, for events together with API messages, and for API messages
    alone."""
    log = (
        CodexLog(root)
        .event("user_message", message="first")
        .event("agent_message", message="answer one")
    )
    log.wire("user", HUGE).event("user_message", message=HUGE).event(
        "agent_message", message="answer two"
    )
    log.event("user_message", message="third").event(
        "agent_message", message="answer three"
    ).write(own_home)
    wire = (
        CodexLog(root, "wired")
        .wire("user", "first")
        .wire("assistant", "answer one")
        .wire("user", HUGE)
    )
    wire.wire("assistant", "answer two").wire("user", "third").wire("assistant", "answer three")
    wire.write(own_home, "rollout-wire.jsonl")
    report = run()
    assert sorted(texts()) == [FIRST, FIRST, THIRD, THIRD]
    assert len(report.notes) == 2


@pytest.mark.verify
def test_aider_keeps_what_stands_before(root: Path, run: Import, texts: Texts) -> None:
    """A question with one overlong line is skipped whole, with its answer."""
    history = (
        f"#### first\n\nanswer one\n\n#### so\n#### {HUGE}\n\nanswer two\n\n#### third\n\nanswer"
        " three\n"
    )
    (root / ".aider.chat.history.md").write_text(
        "# aider chat started at 2026-11-20 09:00:00\n\n" + history
    )
    report = run()
    assert texts() == [FIRST, THIRD]
    assert report.notes[0].endswith(": 1 line of more than 8 MiB left out")
