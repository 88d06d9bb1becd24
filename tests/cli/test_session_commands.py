"""`xscore session`, its checkpoints, and what `ask` says about a session."""

import json
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.basket import script_flags
from tests.cli.conftest import Run
from tests.conftest import MakeRepo, git, store_file

CODE = 'def add_one(n: int) -> int:\n    """Add one."""\n    return n + 1\n'
EVIL = "mend \x1b[31madd_one\u202e now"


def scripted(folder: Path) -> tuple[str, ...]:
    """Flags for a judge and an answering model without a host."""
    script = {"default": 0.9, "answer": "`add_one` is fine. \nTODO: measure it"}
    return script_flags(folder / "script.json", script)


def asleep(root: Path, hours: float) -> None:
    """Set how long ago the store's sessions were last active."""
    connection = sqlite3.connect(store_file(root))
    connection.execute("UPDATE session SET last_updated = ?", (time.time() - hours * 3_600,))
    connection.commit()
    connection.close()


def test_ask_says_what_was_worked_on_once_and_only_to_people(
    make_repo: MakeRepo, tmp_path: Path, xscore: Run
) -> None:
    """H04, H28: after two hours one line on stderr, safe for a terminal; not with --quiet; a field
    of --json."""
    root, flags = make_repo({"a.py": CODE}), scripted(tmp_path)
    git(root, "checkout", "-q", "-b", "feat/ABC-7")
    first = xscore("ask", EVIL, *flags, cwd=root)
    assert first.returncode == 0 and "You were working on" not in first.stderr
    soon = xscore("ask", EVIL, *flags, cwd=root)
    assert "You were working on" not in soon.stderr, "who asked a minute ago knows"
    asleep(root, 2.1)
    repeated = xscore("ask", "and then?", *flags, cwd=root)
    announcement = (
        'You were working on "mend \\x1b[31madd_one\\u202e now" (branch feat/ABC-7, 2 h ago).'
    )
    assert repeated.stderr.count("You were working on") == 1
    assert announcement in repeated.stderr.splitlines()
    assert announcement not in repeated.stdout
    asleep(root, 49)
    assert "You were working" not in xscore("ask", "quiet", "-q", *flags, cwd=root).stderr
    asleep(root, 49)
    in_json = xscore("ask", "last", "--json", *flags, cwd=root)
    session = json.loads(in_json.stdout)["session"]
    assert "You were working" not in in_json.stderr
    assert session["branch"] == "feat/ABC-7"
    assert session["resumed"] is True
    assert session["last_task"] == "quiet"
    assert set(session) == {"thread", "branch", "resumed", "last_task", "last_updated"}


def test_a_session_is_shown_resumed_and_closed(
    make_repo: MakeRepo, tmp_path: Path, xscore: Run
) -> None:
    """H04, L01: show, fresh, resume and close work without a model, also as JSON."""
    root, flags = make_repo({"a.py": CODE}), scripted(tmp_path)
    assert json.loads(xscore("session", "show", "--json", cwd=root).stdout) == {
        "schema": 1,
        "session": None,
    }
    assert xscore("session", "close", cwd=root).returncode == 1
    xscore("ask", "Goal: speed\nis add_one fast?", "--file", "a.py:2", *flags, cwd=root)
    shown = json.loads(xscore("session", "show", "--json", cwd=root).stdout)["session"]
    assert shown["goals"] == ["speed"]
    assert shown["entities"] == ["a.py::add_one"]
    assert shown["pending"] == ["measure it"]
    assert shown["branch"] == "main"
    assert shown["file"] == "a.py"
    assert shown["line"] == 2
    assert shown["tasks"] == 1
    page = xscore("session", "show", cwd=root).stdout
    assert "You were working on" in page and "a.py:2" in page and "measure it" in page
    begun = json.loads(xscore("session", "fresh", "--json", cwd=root).stdout)["thread"]
    assert begun != shown["thread"]
    listed = json.loads(xscore("session", "list", "--json", cwd=root).stdout)["sessions"]
    assert {session["thread"] for session in listed} == {begun, shown["thread"]}
    assert xscore("session", "resume", shown["thread"][:10], cwd=root).returncode == 0
    assert (
        json.loads(xscore("session", "show", "--json", cwd=root).stdout)["session"]["thread"]
        == shown["thread"]
    )
    closed = json.loads(xscore("session", "close", "--json", cwd=root).stdout)
    assert (closed["thread"], closed["exchanges"]) == (shown["thread"], 1)
    assert json.loads(xscore("session", "show", "--json", cwd=root).stdout)["session"] is None
    assert xscore("session", "resume", "s_nothing", cwd=root).returncode == 1


def test_a_merge_closes_the_session_of_the_branch_that_was_merged(
    make_repo: MakeRepo, tmp_path: Path, xscore: Run
) -> None:
    """L01: the hook of docs/memories.md, run by git itself: main continues, and so does a branch
    just created."""
    docs = (Path(__file__).parents[2] / "docs" / "memories.md").read_text()
    (recipe,) = (line for line in docs.splitlines() if "> .git/hooks/post-merge" in line)
    root, flags = make_repo({"a.py": CODE}), scripted(tmp_path)
    xscore("ask", "on main", *flags, cwd=root)
    for branch in ("feat/one", "feat/begun"):
        git(root, "checkout", "-q", "-b", branch, "main")
        xscore("ask", f"on {branch}", *flags, cwd=root)
    git(root, "checkout", "-q", "feat/one")
    (root / "b.py").write_text(CODE)
    git(root, "add", "b.py")
    git(root, "commit", "-q", "-m", "more")
    git(root, "checkout", "-q", "main")
    ours = recipe.replace("exec xscore", f"exec {sys.executable} -m xscore")
    subprocess.run(["sh", "-c", f"mkdir -p .git/hooks && {ours}"], cwd=root, check=True)
    assert "closed" not in git(root, "merge", "--no-ff", "-m", "merge it", "feat/one")
    listed = json.loads(xscore("session", "resume", "--json", cwd=root).stdout)["sessions"]
    over = {session["branch"]: session["closed_at"] is not None for session in listed}
    assert over == {"main": False, "feat/one": True, "feat/begun": False}
    by_name = xscore("session", "close", "--branch", "feat/begun", "-q", cwd=root)
    assert (by_name.returncode, by_name.stdout, by_name.stderr) == (0, "", "")
    assert xscore("session", "close", "--branch", "feat/begun", cwd=root).returncode == 1
    assert (
        json.loads(xscore("session", "close", "--merged", "--json", cwd=root).stdout)["closed"]
        == []
    )


def session_json(xscore: Run, root: Path, *arguments: str) -> dict[str, Any]:
    """Run `xscore session … --json` and return what it prints."""
    body: dict[str, Any] = json.loads(xscore("session", *arguments, "--json", cwd=root).stdout)
    return body


@pytest.fixture
def root(make_repo: MakeRepo) -> Path:
    """A repository of one function."""
    return make_repo({"a.py": CODE})


def test_a_checkpoint_is_not_replaced_by_accident(
    root: Path, tmp_path: Path, xscore: Run
) -> None:
    """B06: saved and loaded by name; its note and goal are lost to `--replace` alone."""
    assert xscore("session", "save", "x", cwd=root).returncode == 1, "there is no session yet"
    xscore("ask", "is add_one fast?", *scripted(tmp_path), cwd=root)
    notes = ("--note", "ask Ann", "--goal", "faster")
    saved = session_json(xscore, root, "save", "speed", *notes)
    assert saved["goals"] == ["faster"]
    assert saved["notes"] == ["ask Ann"]
    assert saved["pending"] == ["measure it"]
    refused = xscore("session", "save", "speed", cwd=root)
    assert refused.returncode == 2
    assert "--replace" in refused.stderr
    assert session_json(xscore, root, "load", "speed") == saved
    replaced = xscore("session", "save", "speed", "--replace", "--note", "ask Bob", cwd=root)
    assert replaced.returncode == 0
    loaded = session_json(xscore, root, "load", "speed")
    assert loaded["notes"] == ["ask Bob"]
    assert loaded["goals"] == ["is add_one fast?"]
    assert "ask Bob" in xscore("session", "load", "speed", cwd=root).stdout


def test_a_checkpoint_goes_from_hand_to_hand(root: Path, tmp_path: Path, xscore: Run) -> None:
    """B06: list, ask and delete by name; a dry run changes nothing; an unknown name exits with
    1."""
    flags = scripted(tmp_path)
    xscore("ask", "is add_one fast?", *flags, cwd=root)
    saved = session_json(xscore, root, "save", "speed", "--note", "ask Bob")
    (listed,) = session_json(xscore, root, "checkpoints")["checkpoints"]
    assert listed == {name: value for name, value in saved.items() if name != "schema"}
    with_checkpoint = ("--checkpoint", "speed")
    in_json = xscore("ask", "go on", *with_checkpoint, "--json", *flags, cwd=root)
    assert json.loads(in_json.stdout)["checkpoint"] == "speed"
    shown = xscore("context", "is add_one fast?", *with_checkpoint, *flags[:2], cwd=root)
    assert shown.stdout.index("ask Bob") < shown.stdout.index("def add_one")
    wrong = xscore("ask", "go on", "--checkpoint", "sped", *flags, cwd=root)
    assert wrong.returncode == 1
    assert "speed" in wrong.stderr
    assert xscore("session", "delete", "speed", "--dry-run", cwd=root).returncode == 0
    gone = session_json(xscore, root, "delete", "speed")
    assert gone == {"schema": 1, "name": "speed", "dry_run": False, "is_clean": True}
    assert xscore("session", "delete", "speed", cwd=root).returncode == 1
    assert session_json(xscore, root, "checkpoints")["checkpoints"] == []


def test_a_thread_is_followed_by_name_or_from_the_latest_turn(
    make_repo: MakeRepo, tmp_path: Path, xscore: Run
) -> None:
    """`--thread` and `--continue` carry judgments and name the source; `--fresh` carries none; all
    are counted."""
    parts = {
        f"part_{at}.py": "".join(f"def f{at}_{n}():\n    return {n}\n\n\n" for n in range(9))
        for at in range(5)
    }
    root, script = make_repo({**parts, "a.py": CODE}), tmp_path / "script.json"
    script.write_text(
        json.dumps({"rules": [{"entity": "add_one", "score": 0.9}], "answer": "Fine."})
    )
    flags = ["--judge", f"scripted:{script}", "--no-answer"]
    first = json.loads(
        xscore("ask", "add one", "--thread", "sums/1", "--json", *flags, cwd=root).stdout
    )
    guess = json.loads(
        xscore("estimate", "and two?", "--continue", "--json", *flags[:2], cwd=root).stdout
    )["judge"]
    continued = xscore("ask", "and two?", "--continue", *flags, cwd=root)
    assert (
        f'earlier questions: {guess["carried"]} from {first["turn_id"]} "add one"'
        in continued.stderr
    )
    assert f"{guess['carried']} judgment" in xscore("session", "list", cwd=root).stdout
    (listed,) = json.loads(xscore("session", "list", "--json", cwd=root).stdout)["sessions"]
    assert listed["thread"] == "sums/1"
    assert listed["tasks"] == 2
    assert listed["carried"] == guess["carried"]
    why = xscore("explain", "part_1.py::f1_1", cwd=root).stdout
    assert f"carried from turn {first['turn_id']}: judged under “add one”." in why
    fresh = xscore(
        "ask", "and three?", "--thread", "sums/1", "--fresh", "--json", *flags, cwd=root
    )
    told_all = json.loads(fresh.stdout)
    assert told_all["coverage"]["judged"] == told_all["coverage"]["candidates"]
    assert told_all["session"]["thread"] == "sums/1"
    assert xscore("ask", "x", "--thread", "a b", *flags, cwd=root).returncode == 2
    assert xscore("ask", "x", "--thread", "a", "--continue", *flags, cwd=root).returncode == 2
