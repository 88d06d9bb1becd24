"""Past sessions on the command line: import, list, ask using the imported exchanges, forget."""

import json
from pathlib import Path

from tests.cli.conftest import Run
from tests.conftest import MakeRepo
from tests.extensions.sessions.session_writers import ClaudeLog, CodexLog

FILES = {"src/reader.py": "def read_lines(text):\n    return text.splitlines()\n"}


def imported(xscore: Run, make_repo: MakeRepo, home: Path) -> Path:
    """A repository with two past sessions in the store."""
    root = make_repo(FILES)
    log = ClaudeLog(root, "s-claude").user(
        "why does the zebra importer drop the trailing umlaut?"
    )
    log.says("The zebra importer decodes latin-1; the umlaut is lost in `read_lines`.").write(
        home
    )
    CodexLog(root, "s-codex").event("user_message", message="rename the giraffe").event(
        "agent_message", message="Renamed."
    ).write(home)
    done = xscore("memory", "import-sessions", "--json", cwd=root)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["added"] == 2
    return root


def test_ask_keeps_the_right_past_exchange(
    xscore: Run, make_repo: MakeRepo, own_home: Path
) -> None:
    """End to end: after an import the lexical judge keeps the exchange whose answer fits, and drops
    the other."""
    root = imported(xscore, make_repo, own_home)
    task = "the zebra importer loses the umlaut in latin-1"
    done = xscore("ask", task, "--judge", "lexical", "--no-answer", "--json", cwd=root)
    assert done.returncode == 0, done.stderr
    kept = [
        memory for memory in json.loads(done.stdout)["selected"] if memory["kind"] == "exchange"
    ]
    assert [memory["title"] for memory in kept] == [
        "why does the zebra importer drop the trailing umlaut?"
    ]
    listed = json.loads(xscore("memory", "imported", "--json", cwd=root).stdout)
    assert {session["session"] for session in listed["sessions"]} == {"s-claude", "s-codex"}


def test_import_says_what_was_taken_and_left(
    xscore: Run, make_repo: MakeRepo, own_home: Path
) -> None:
    """A second import adds nothing; a broken file is named on stderr, exit code 1."""
    root = imported(xscore, make_repo, own_home)
    repeated = xscore("memory", "import-sessions", cwd=root)
    assert repeated.returncode == 0
    assert "imported  0 exchanges" in repeated.stdout
    ClaudeLog(root, "bad").user("x").raw(type="user", cwd=str(root)).write(own_home)
    broken = xscore("memory", "import-sessions", "--from", "claude-code", cwd=root)
    assert broken.returncode == 1
    assert "not read: ~/.claude/projects/" in broken.stderr
    assert "line 2: expected `message`" in broken.stderr


def test_what_is_forgotten_stays_away(xscore: Run, make_repo: MakeRepo, own_home: Path) -> None:
    """forget asks or needs --yes, removes a whole session, and no import restores it."""
    root = imported(xscore, make_repo, own_home)
    assert xscore("memory", "wipe", "--session", "s-claude", cwd=root).returncode == 2
    assert xscore("memory", "wipe", "--session", "other", "--yes", cwd=root).returncode == 1
    looked = xscore("memory", "wipe", "--session", "s-claude", "--dry-run", cwd=root)
    assert looked.returncode == 0 and "would erase 1 memory" in looked.stdout
    assert xscore("memory", "wipe", "--session", "s-claude", "--yes", cwd=root).returncode == 0
    log = (
        ClaudeLog(root, "s-claude")
        .user("why does the zebra importer drop the trailing umlaut?")
        .says("Because.")
    )
    log.user("and now?").says("Fixed.").write(own_home)
    report = json.loads(xscore("memory", "import-sessions", "--json", cwd=root).stdout)
    assert (report["added"], report["forgotten"]) == (1, 1)
    listed = xscore("memory", "imported", cwd=root).stdout
    assert "zebra" not in listed and "and now?" in listed
    assert xscore("memory", "wipe", "--before", "2030-01-01", "--yes", cwd=root).returncode == 0
    assert xscore("memory", "wipe", "--from", "codex", "--yes", cwd=root).returncode == 1
