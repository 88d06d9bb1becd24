"""`memory list|show|add|update|export|import|stats`, `decision`, `failure`: as a user runs them."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.conftest import MakeRepo
from tests.statements import say
from xscore.platform.paths import find_root, user_data_dir
from xscore.records import Kind, Statement
from xscore.store.remembering import remember
from xscore.store.store import Store

WEIGHED = (Kind.DECISION, Kind.TODO, Kind.CONTEXT)
SECRET = "sk-proj-" + "Zq8Lw3Rt6Yb1Nc5Xd9Kf2Hj7Ma4Ps0Vg"


@pytest.fixture
def repo(make_repo: MakeRepo) -> Path:
    """A small repository."""
    return make_repo({"src/net/retry.py": "".join(f"line_{number} = {number}\n" for number in range(1, 51))})


def elsewhere(tmp_path: Path) -> Path:
    """Make another folder with a store of its own."""
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
    """P06: `add --json` prints the record with its id; list and show find it; its evidence goes stale with the code."""
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
    """Adding with the key of an active memory names on stderr what steps back; the same words twice are one memory."""
    first = said(xscore, repo, "memory", "add", "--kind", "decision", "use A", "--key", "k")["id"]
    done = xscore("memory", "add", "--kind", "decision", "use B", "--key", "k", cwd=repo)
    assert done.returncode == 0
    assert f"replaces {first}" in done.stderr and first not in done.stdout
    again = xscore("memory", "add", "--kind", "decision", "use B", cwd=repo)
    assert "known already" in again.stdout
    assert len(said(xscore, repo, "memory", "list", "--kind", "decision", "--all")["memories"]) == 2
    assert len(said(xscore, repo, "memory", "list", "--kind", "decision")["memories"]) == 1


def test_lists_narrow_and_end_with_one_where_nothing_fits(xscore: Run, repo: Path) -> None:
    """P06: --layer, --scope and --kind choose; nothing left is exit code 1, with an empty stdout or list."""
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


def test_ids_are_exact(xscore: Run, repo: Path) -> None:
    """A unique prefix is refused with exit code 1 and the whole id as the hint; an unknown id too."""
    identifier = said(xscore, repo, "memory", "add", "x")["id"]
    for command in (("memory", "show"), ("memory", "update", "--title", "t")):
        refused = xscore(*command, identifier[:-2], cwd=repo)
        assert refused.returncode == 1
        assert identifier in refused.stderr
    error = json.loads(xscore("memory", "show", "m_nothing", "--json", cwd=repo).stdout)["error"]
    assert (error["code"], error["kind"]) == (1, "nothing_matched")


def test_an_update_keeps_the_id(xscore: Run, repo: Path) -> None:
    """`update` changes what is named; nothing named is a usage error."""
    identifier = said(xscore, repo, "memory", "add", "use A", "--because", "fast")["id"]
    after = said(xscore, repo, "memory", "update", identifier, "--text", "-", "--importance", "0.9", stdin="use B")
    assert (after["id"], after["text"], after["importance"]) == (identifier, "use B\n\nBecause: fast", 0.9)
    assert xscore("memory", "update", identifier, cwd=repo).returncode == 2


def test_what_was_said_beside_can_be_taken_back(xscore: Run, repo: Path) -> None:
    """An empty --because, --alternative, --link or --cite takes away what was there, and nothing else."""
    beside = (
        "--because",
        "fast",
        "--alternative",
        "B",
        "--link",
        "https://a.example",
        "--cite",
        "src/net/retry.py:1-3",
    )
    identifier = said(xscore, repo, "memory", "add", "--kind", "decision", "use A", *beside)["id"]
    kept = {"rationale": "fast", "alternatives": ["B"], "links": ["https://a.example"]}
    for option, name in (("--alternative", "alternatives"), ("--link", "links"), ("--because", "rationale")):
        after = said(xscore, repo, "memory", "update", identifier, option, "")
        kept = {**kept, name: "" if name == "rationale" else []}
        assert {name: after["particulars"][name] for name in kept} == kept
        assert len(after["citations"]) == 1
    assert said(xscore, repo, "memory", "update", identifier, "--cite", "")["citations"] == []
    (repo / "src/net/retry.py").write_text("gone = True\n")
    assert said(xscore, repo, "memory", "list")["memories"][0]["status"] == "active"


def test_a_kind_weighs_the_same_however_it_is_said(xscore: Run, repo: Path) -> None:
    """P06: the command line and Python give a kind the same importance; failures are counted."""
    with Store.open(find_root(repo), user_data_dir=user_data_dir(None)) as store:
        by_python = {kind: say(store, f"py {kind}", kind=kind, layer=None).memory.importance for kind in WEIGHED}
        stated = remember(store, Statement(text="plain", kind=Kind.DECISION)).memory.importance
    by_hand = {
        kind: said(xscore, repo, "memory", "add", f"cli {kind}", "--kind", str(kind))["importance"] for kind in WEIGHED
    }
    assert by_python == by_hand == {Kind.DECISION: 0.7, Kind.TODO: 0.5, Kind.CONTEXT: 0.5}
    assert (
        stated == said(xscore, repo, "memory", "add", "--kind", "decision", "by its own command")["importance"] == 0.7
    )
    counted = xscore("memory", "add", "x", "--kind", "failure", cwd=repo)
    assert counted.returncode == 0 and "1×, not fixed" in counted.stdout


def test_export_and_import(xscore: Run, repo: Path, tmp_path: Path) -> None:
    """P06: lines go out sorted and come back as imports; the user's own layer is in if named; a bad line is named."""
    said(xscore, repo, "memory", "add", "x", "--kind", "todo")
    said(xscore, repo, "memory", "add", "mine", "--kind", "preference", "--key", "k")
    exported = xscore("memory", "export", cwd=repo)
    assert [json.loads(line)["text"] for line in exported.stdout.splitlines()] == ["x"]
    assert "mine" in xscore("memory", "export", "--layer", "user", cwd=repo).stdout
    file = tmp_path / "out.jsonl"
    assert xscore("memory", "export", "-o", str(file), cwd=repo).stdout == ""
    assert file.read_text() == exported.stdout and file.stat().st_mode & 0o777 == 0o600
    other = elsewhere(tmp_path)
    assert len(said(xscore, other, "memory", "import", str(file))["added"]) == 1
    assert said(xscore, other, "memory", "list")["memories"][0]["source"] == "import"
    bad = xscore("memory", "import", "-", cwd=other, stdin=exported.stdout + "{}\n")
    assert bad.returncode == 2 and "line 2" in bad.stderr
    assert xscore("memory", "import", str(tmp_path / "none"), cwd=other).returncode == 2


def test_a_snapshot_goes_out_and_comes_back(xscore: Run, repo: Path, tmp_path: Path) -> None:
    """A12: a snapshot gives itself again where it was made; elsewhere it comes in as an import."""
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


def test_failures_become_a_pattern_at_three(xscore: Run, repo: Path) -> None:
    """A08: at two there is none, at three there is; `resolve` says what mended it."""
    patterns = [
        said(xscore, repo, "memory", "add", "--kind", "failure", "-", stdin=f"KeyError: 'port' at 0x{number}f\n")[
            "pattern"
        ]
        for number in range(3)
    ]
    assert [bool(pattern) for pattern in patterns] == [False, False, True]
    identifier = said(xscore, repo, "memory", "list", "--kind", "failure")["memories"][0]["id"]
    assert "fixed by: set it" in xscore("memory", "update", identifier, "--fix", "set it", cwd=repo).stdout
    assert "3×" in xscore("memory", "list", "--kind", "failure", cwd=repo).stdout


def test_stats_count_against_the_caps(xscore: Run, repo: Path) -> None:
    """H30, L11: rows, bytes, caps, age and use of each layer."""
    said(xscore, repo, "memory", "add", "héllo")
    layers = {one["layer"]: one for one in said(xscore, repo, "memory", "stats")["layers"]}
    assert list(layers) == ["session", "project", "user", "governance"]
    project = layers["project"]
    assert (project["rows"], project["never_used"], project["max_rows"]) == (1, 1, 5_000)
    assert project["bytes"] >= 2 * len("héllo".encode())
    assert "project" in xscore("memory", "stats", cwd=repo).stdout


def test_nothing_of_a_memory_reaches_the_terminal_unescaped(xscore: Run, repo: Path) -> None:
    """Escapes in a memory are shown, not obeyed; a secret in it is not even stored."""
    done = xscore("memory", "add", f"a\x1b[31m b \u202e token = '{SECRET}'", cwd=repo)
    assert "left out: a memory keeps none" in done.stderr
    identifier = said(xscore, repo, "memory", "list")["memories"][0]["id"]
    shown = xscore("memory", "show", identifier, cwd=repo).stdout + xscore("memory", "list", cwd=repo).stdout
    assert "\\x1b[31m" in shown and "\x1b" not in shown and "\u202e" not in shown and SECRET not in shown


def test_the_user_layer_can_be_off(xscore: Run, repo: Path) -> None:
    """P07: with `memory.user_learning` off a preference is refused, and lists go on without the user's store."""
    (repo / ".xscore.toml").write_text("[memory]\nuser_learning = false\n")
    refused = xscore("memory", "add", "x", "--kind", "preference", "--key", "k", cwd=repo)
    assert refused.returncode == 2 and "user layer is off" in refused.stderr
    said(xscore, repo, "memory", "add", "x")
    assert xscore("memory", "list", cwd=repo).returncode == 0
