"""`memory list|show|add|update|export|import|stats`, `decision`, `failure`, as a user runs them."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.conftest import MakeRepo


@pytest.fixture
def repo(make_repo: MakeRepo) -> Path:
    """A small repository."""
    return make_repo({"src/net/retry.py": "".join(f"line_{number} = {number}\n" for number in range(1, 51))})


def elsewhere(tmp_path: Path) -> Path:
    """Make another folder with its own store."""
    (tmp_path / "elsewhere").mkdir()
    return tmp_path / "elsewhere"


def said(xscore: Run, repo: Path, *arguments: str, stdin: str = "") -> dict[str, Any]:
    """Run a command with --json and return its object."""
    done = xscore(*arguments, "--json", cwd=repo, stdin=stdin)
    assert done.returncode == 0, done.stdout + done.stderr
    body = json.loads(done.stdout)
    assert body["schema"] == 1
    return dict(body)


def test_a_decision_is_added_listed_and_shown(xscore: Run, repo: Path) -> None:
    """P06: `add --json` prints the record with its id; list and show find it; it goes stale with the cited code."""
    told = said(
        xscore, repo, *("memory", "add", "we use tenacity, not backoff", "--kind", "decision", "--key", "retry"),
        *("--because", "it composes", "--alternative", "backoff", "--cite", "src/net/retry.py:10-40"),
    )  # fmt: skip
    assert (told["layer"], told["kind"], told["became"]) == ("governance", "decision", "stored")
    assert told["particulars"]["alternatives"] == ["backoff"]
    assert told["citations"][0]["path"] == "src/net/retry.py"
    listed = xscore("memory", "list", "--kind", "decision", cwd=repo)
    assert listed.stdout.startswith(told["id"]) and "we use tenacity" in listed.stdout
    shown = xscore("memory", "show", told["id"], cwd=repo)
    assert "Because: it composes" in shown.stdout and "cites       src/net/retry.py:10-40" in shown.stdout
    (repo / "src/net/retry.py").write_text("gone = True\n")
    assert "(stale, key retry)" in xscore("memory", "list", cwd=repo).stdout
    assert "changed since" in xscore("memory", "show", told["id"], cwd=repo).stdout


def test_the_key_supersedes_and_says_so(xscore: Run, repo: Path) -> None:
    """Adding with the key of an active memory names on stderr what it replaces; the same words twice are one memory."""
    first = said(xscore, repo, "memory", "add", "--kind", "decision", "use A", "--key", "k")["id"]
    done = xscore("memory", "add", "--kind", "decision", "use B", "--key", "k", cwd=repo)
    assert done.returncode == 0
    assert f"replaces {first}" in done.stderr and first not in done.stdout
    again = xscore("memory", "add", "--kind", "decision", "use B", cwd=repo)
    assert "known already" in again.stdout
    assert len(said(xscore, repo, "memory", "list", "--kind", "decision", "--all")["memories"]) == 2
    assert len(said(xscore, repo, "memory", "list", "--kind", "decision")["memories"]) == 1


def test_lists_narrow_and_end_with_one_where_nothing_fits(xscore: Run, repo: Path) -> None:
    """P06: --layer, --scope and --kind filter; no match exits with 1 and an empty stdout or list."""
    said(xscore, repo, "memory", "add", "tabs", "--kind", "preference", "--key", "indent")
    said(xscore, repo, "memory", "add", "-", "--kind", "todo", stdin="lint before pushing\n")
    for chosen, texts in {
        ("--layer", "user"): ["tabs"],
        ("--scope", "user"): ["tabs"],
        ("--scope", "global"): ["tabs"],
        ("--scope", "project"): ["lint before pushing"],
        ("--kind", "todo"): ["lint before pushing"],
        (): ["lint before pushing", "tabs"],
    }.items():
        found = said(xscore, repo, "memory", "list", *chosen)["memories"]
        assert [memory["text"] for memory in found] == texts
    nothing = xscore("memory", "list", "--layer", "governance", cwd=repo)
    assert (nothing.returncode, nothing.stdout) == (1, "")
    assert "stats" in nothing.stderr
    nothing = xscore("memory", "list", "--kind", "decision", "--json", cwd=repo)
    assert (nothing.returncode, json.loads(nothing.stdout)["memories"]) == (1, [])


@pytest.mark.parametrize(
    ("scope", "layer", "reach"),
    [
        ("global", "project", "global"),
        ("workspace", "project", "workspace"),
        ("session", "project", "session"),
        ("repository", "project", "repository"),
        ("project", "project", "repository"),
        ("user", "user", "global"),
    ],
)
def test_a_memory_reaches_as_far_as_is_said(scope: str, layer: str, reach: str, xscore: Run, repo: Path) -> None:
    """P06: `add --scope` takes every scope that `list --scope` knows, and is found by it."""
    told = said(xscore, repo, "memory", "add", "use tabs", "--key", "indent", "--scope", scope)
    assert (told["layer"], told["scope"]) == (layer, reach)
    found = said(xscore, repo, "memory", "list", "--scope", scope)["memories"]
    assert [memory["id"] for memory in found] == [told["id"]]


def test_an_update_keeps_the_id(xscore: Run, repo: Path) -> None:
    """`update` changes the named fields; without any it is a usage error."""
    identifier = said(xscore, repo, "memory", "add", "use A", "--because", "fast")["id"]
    after = said(xscore, repo, "memory", "update", identifier, "--text", "-", "--importance", "0.9", stdin="use B")
    assert (after["id"], after["text"], after["importance"]) == (identifier, "use B\n\nBecause: fast", 0.9)
    assert xscore("memory", "update", identifier, cwd=repo).returncode == 2


def test_a_snapshot_goes_out_and_comes_back(xscore: Run, repo: Path, tmp_path: Path) -> None:
    """A12: a snapshot restores itself where it was made; elsewhere it is an import."""
    said(xscore, repo, "memory", "add", "--kind", "decision", "use A", "--cite", "src/net/retry.py")
    xscore("index", cwd=repo)
    file = tmp_path / "snapshot.json"
    assert xscore("memory", "export", "--snapshot", "-o", str(file), cwd=repo).returncode == 0
    header, memory = map(json.loads, file.read_text().splitlines())
    assert xscore("memory", "update", memory["id"], "--importance", "0.1", cwd=repo).returncode == 0
    assert said(xscore, repo, "memory", "import", "--snapshot", str(file))["changed"] == 1
    assert xscore("memory", "export", "--snapshot", cwd=repo).stdout == file.read_text()
    assert len(header["repository_maps"]) == 1
    other = elsewhere(tmp_path)
    assert said(xscore, other, "memory", "import", "--snapshot", str(file))["added"] == 1
    _, there = map(json.loads, xscore("memory", "export", "--snapshot", cwd=other).stdout.splitlines())
    assert (there["text"], there["source"]) == (memory["text"], "import")


def test_stats_count_against_the_caps(xscore: Run, repo: Path) -> None:
    """H30, L11: rows, bytes, caps, age and use of each layer."""
    said(xscore, repo, "memory", "add", "héllo")
    layers = {one["layer"]: one for one in said(xscore, repo, "memory", "stats")["layers"]}
    assert list(layers) == ["session", "project", "user", "governance"]
    project = layers["project"]
    assert (project["rows"], project["never_used"], project["max_rows"]) == (1, 1, 5_000)
    assert project["bytes"] >= 2 * len("héllo".encode())
    assert "project" in xscore("memory", "stats", cwd=repo).stdout
