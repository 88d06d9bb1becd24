"""`xscore memory list|show|add|update|export|import|stats`, as a user runs them."""

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run, own_store
from tests.conftest import MakeRepo, store_dir
from xscore.platform.errors import UsageError
from xscore.platform.files import write_atomically
from xscore.records.memory import Kind
from xscore.records.statement import Statement
from xscore.store.remembering import remember


@pytest.fixture
def repo(make_repo: MakeRepo) -> Path:
    """A small repository."""
    return make_repo(
        {"src/net/retry.py": "".join(f"line_{number} = {number}\n" for number in range(1, 51))}
    )


def said(xscore: Run, repo: Path, *arguments: str, stdin: str = "") -> dict[str, Any]:
    """Run a command with --json and return its object."""
    done = xscore(*arguments, "--json", cwd=repo, stdin=stdin)
    assert done.returncode == 0, done.stdout + done.stderr
    body = json.loads(done.stdout)
    assert body["schema"] == 1
    return dict(body)


def test_a_decision_is_added_listed_and_shown(xscore: Run, repo: Path) -> None:
    """P06: `add --json` prints the record with its id; list and show find it; it goes stale with
    the cited code."""
    decision = said(
        xscore,
        repo,
        *(
            "memory",
            "add",
            "we use tenacity, not backoff",
            "--kind",
            "decision",
            "--key",
            "retry",
        ),
        *(
            "--because",
            "it composes",
            "--alternative",
            "backoff",
            "--cite",
            "src/net/retry.py:10-40",
        ),
    )
    assert decision["layer"] == "governance"
    assert decision["kind"] == "decision"
    assert decision["became"] == "stored"
    assert decision["particulars"]["alternatives"] == ["backoff"]
    assert decision["citations"][0]["path"] == "src/net/retry.py"
    listed = xscore("memory", "list", "--kind", "decision", cwd=repo)
    assert listed.stdout.startswith(decision["id"]) and "we use tenacity" in listed.stdout
    shown = xscore("memory", "show", decision["id"], cwd=repo)
    assert "Because: it composes" in shown.stdout
    assert "cites       src/net/retry.py:10-40" in shown.stdout
    (repo / "src/net/retry.py").write_text("gone = True\n")
    assert "(stale, key retry)" in xscore("memory", "list", cwd=repo).stdout
    assert "changed since" in xscore("memory", "show", decision["id"], cwd=repo).stdout


def test_the_key_supersedes_and_says_so(xscore: Run, repo: Path) -> None:
    """Adding with the key of an active memory names on stderr what it replaces; the same words
    twice are one memory."""
    first = said(xscore, repo, "memory", "add", "--kind", "decision", "use A", "--key", "k")[
        "id"
    ]
    done = xscore("memory", "add", "--kind", "decision", "use B", "--key", "k", cwd=repo)
    assert done.returncode == 0
    assert f"replaces {first}" in done.stderr and first not in done.stdout
    repeated = xscore("memory", "add", "--kind", "decision", "use B", cwd=repo)
    assert "already remembered" in repeated.stdout
    assert (
        len(said(xscore, repo, "memory", "list", "--kind", "decision", "--all")["memories"])
        == 2
    )
    assert len(said(xscore, repo, "memory", "list", "--kind", "decision")["memories"]) == 1


def test_an_empty_list_says_that_nothing_is_remembered_yet(xscore: Run, repo: Path) -> None:
    """Only a filter can match nothing."""
    assert "nothing is remembered yet" in xscore("memory", "list", cwd=repo).stderr
    assert "no memory matches" in xscore("memory", "list", "--kind", "todo", cwd=repo).stderr


def test_lists_narrow_and_end_with_one_where_nothing_fits(xscore: Run, repo: Path) -> None:
    """P06: --layer, --scope and --kind filter; no match exits with 1 and an empty stdout or
    list."""
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
        memories = said(xscore, repo, "memory", "list", *chosen)["memories"]
        assert [memory["text"] for memory in memories] == texts
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
def test_a_memory_reaches_as_far_as_is_said(
    scope: str, layer: str, reach: str, xscore: Run, repo: Path
) -> None:
    """P06: `add --scope` takes every scope that `list --scope` knows, and is found by it."""
    added = said(xscore, repo, "memory", "add", "use tabs", "--key", "indent", "--scope", scope)
    assert (added["layer"], added["scope"]) == (layer, reach)
    memories = said(xscore, repo, "memory", "list", "--scope", scope)["memories"]
    assert [memory["id"] for memory in memories] == [added["id"]]


def test_an_update_keeps_the_id(xscore: Run, repo: Path) -> None:
    """`update` changes the named fields; without any it is a usage error."""
    identifier = said(xscore, repo, "memory", "add", "use A", "--because", "fast")["id"]
    after = said(
        xscore,
        repo,
        "memory",
        "update",
        identifier,
        "--text",
        "-",
        "--importance",
        "0.9",
        stdin="use B",
    )
    assert after["id"] == identifier
    assert after["text"] == "use B\n\nBecause: fast"
    assert after["importance"] == 0.9
    assert xscore("memory", "update", identifier, cwd=repo).returncode == 2


def test_a_snapshot_goes_out_and_comes_back(xscore: Run, repo: Path, tmp_path: Path) -> None:
    """A12: a snapshot restores itself where it was made; elsewhere it is an import."""
    said(
        xscore,
        repo,
        "memory",
        "add",
        "--kind",
        "decision",
        "use A",
        "--cite",
        "src/net/retry.py",
    )
    xscore("index", cwd=repo)
    file = tmp_path / "snapshot.json"
    assert xscore("memory", "export", "--snapshot", "-o", str(file), cwd=repo).returncode == 0
    header, memory, *records = map(json.loads, file.read_text().splitlines())
    done = xscore("memory", "update", memory["id"], "--importance", "0.1", cwd=repo)
    assert done.returncode == 0
    assert said(xscore, repo, "memory", "import", "--snapshot", str(file))["changed"] == 1
    assert xscore("memory", "export", "--snapshot", cwd=repo).stdout == file.read_text()
    assert header["holds"] == "snapshot"
    assert [record["record"] for record in records].count("map") == 1
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert said(xscore, elsewhere, "memory", "import", "--snapshot", str(file))["added"] == 1
    copied = xscore("memory", "export", "--snapshot", cwd=elsewhere).stdout
    _, imported, *_ = map(json.loads, copied.splitlines())
    assert (imported["text"], imported["source"]) == (memory["text"], "import")


def test_stats_count_against_the_caps(xscore: Run, repo: Path) -> None:
    """H30, L11: rows, bytes, caps, age and use of each layer."""
    said(xscore, repo, "memory", "add", "héllo")
    layers = {
        layer["layer"]: layer for layer in said(xscore, repo, "memory", "stats")["layers"]
    }
    assert list(layers) == ["session", "project", "user", "governance"]
    project = layers["project"]
    assert (project["rows"], project["never_used"], project["max_rows"]) == (1, 1, 5_000)
    assert project["bytes"] >= 2 * len("héllo".encode())
    assert "project" in xscore("memory", "stats", cwd=repo).stdout


def test_a_long_list_shows_the_newest_and_says_how_many_more(xscore: Run, repo: Path) -> None:
    """Fifty lines unless --limit says more, the newest of all layers; the rest is counted on
    stderr."""
    with own_store(repo) as store:
        for number in range(60):
            kind = Kind.DECISION if number % 2 else Kind.CONVENTION
            remember(
                store,
                Statement(text=f"word{number:03} is said", kind=kind),
                now=1_000.0 + number,
            )
    listed = xscore("memory", "list", cwd=repo)
    assert len(listed.stdout.splitlines()) == 50
    assert "word059" in listed.stdout
    assert "word009" not in listed.stdout
    assert "word010" in listed.stdout
    assert "10 older ones are not shown: `--limit 60` shows all" in listed.stderr
    assert len(xscore("memory", "list", "--limit", "3", cwd=repo).stdout.splitlines()) == 3
    at_limit = xscore("memory", "list", "--limit", "60", cwd=repo)
    assert len(at_limit.stdout.splitlines()) == 60 and "not shown" not in at_limit.stderr


def test_a_title_that_is_not_the_whole_text_is_marked(xscore: Run, repo: Path) -> None:
    """A first line with more below it, and a long text, end in an ellipsis; a short text does
    not."""
    for text in (
        "Waits a minute.\n\nThe vendor says so.",
        "Waits " + "and waits " * 20,
        "Waits.",
    ):
        xscore("memory", "add", text, "--kind", "decision", cwd=repo)
    listed = xscore("memory", "list", cwd=repo).stdout.splitlines()
    assert sorted(line[-1] for line in listed) == [".", "…", "…"]


def test_the_command_shows_what_the_rules_select(xscore: Run, repo: Path) -> None:
    """A05: `memory list --match --reference` prints what matches, scored, best first, and nothing
    else."""
    for text, links in (
        ("we use tenacity", ("src/net/retry.py", "docs/net.md")),
        ("tenacity is pinned", ()),
        ("ports", ()),
    ):
        options = [part for link in links for part in ("--link", link)]
        xscore("memory", "add", text, "--importance", "1", *options, cwd=repo)
    filters = (
        "--match",
        "tenacity",
        "--reference",
        "src/net/retry.py",
        "--reference",
        "docs/net.md",
    )
    listed = xscore("memory", "list", *filters, cwd=repo)
    assert [line.split()[0] for line in listed.stdout.splitlines()] == [
        "1.60",
        "1.00",
    ], listed.stderr
    memories = json.loads(xscore("memory", "list", *filters, "--json", cwd=repo).stdout)[
        "memories"
    ]
    assert [(memory["text"], memory["score"]) for memory in memories] == [
        ("we use tenacity", 1.6),
        ("tenacity is pinned", 1.0),
    ]
    assert xscore("memory", "list", "--match", "nowhere", cwd=repo).returncode == 1


def test_a_file_that_others_could_read_is_for_the_user_alone(
    xscore: Run, tmp_path: Path
) -> None:
    """P06: an existing file of mode 0644 becomes 0600; a process that had it open still reads the
    old content."""
    done = xscore("memory", "add", "lint before pushing", "--kind", "todo", cwd=tmp_path)
    assert done.returncode == 0
    file = tmp_path / "out.jsonl"
    file.write_text("before\n")
    file.chmod(0o644)
    with file.open() as reader:
        assert xscore("memory", "export", "-o", str(file), cwd=tmp_path).returncode == 0
        assert reader.read() == "before\n"
    assert file.stat().st_mode & 0o777 == 0o600
    _, memory = map(json.loads, file.read_text().splitlines())
    assert memory["text"] == "lint before pushing"


def test_what_stood_there_stays_where_the_file_cannot_be_replaced(tmp_path: Path) -> None:
    """P06: a folder in its place is left unchanged, with no new file next to it."""
    (tmp_path / "out").mkdir()
    with pytest.raises(UsageError, match="cannot be written"):
        write_atomically(tmp_path / "out", b"half", mode=0o600)
    assert [place.name for place in tmp_path.iterdir()] == ["out"]


def test_links_and_pipes_are_written_through(tmp_path: Path) -> None:
    """P06: a link stays a link, a pipe a pipe; a missing folder is a usage error."""
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_atomically(tmp_path / "link", b"x")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_text() == "x"
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=write_atomically, args=(tmp_path / "pipe", b"y"))
    writer.start()
    assert (tmp_path / "pipe").read_text() == "y"
    writer.join(5)
    with pytest.raises(UsageError):
        write_atomically(tmp_path / "none" / "file", b"z")


def test_lines_or_one_object(xscore: Run, tmp_path: Path) -> None:
    """P06: `--json` prints one object with the same memories; an empty store is no error, an
    unmatched filter is."""
    done = xscore("memory", "add", "lint before pushing", "--kind", "todo", cwd=tmp_path)
    assert done.returncode == 0
    header, memory = map(
        json.loads, xscore("memory", "export", cwd=tmp_path).stdout.splitlines()
    )
    assert header == {"form": "xscore", "schema": 4, "holds": "memories"}
    assert memory.pop("record") == "memory"
    exported = json.loads(xscore("memory", "export", "--json", cwd=tmp_path).stdout)
    assert exported == {"schema": 1, "memories": [memory]}
    nothing = xscore("memory", "export", "--kind", "decision", cwd=tmp_path)
    assert (nothing.returncode, nothing.stdout) == (1, "")
    (tmp_path / "empty" / ".git").mkdir(parents=True)
    assert xscore("memory", "export", cwd=tmp_path / "empty").returncode == 0


def test_a_file_writes_the_users_own_layer_only_when_that_is_named(
    xscore: Run, tmp_path: Path
) -> None:
    """P06: a line of the user layer (valid everywhere) is refused, and accepted when named."""
    xscore(
        "memory",
        "add",
        "run what README says",
        "--kind",
        "preference",
        "--key",
        "runner",
        cwd=tmp_path,
    )
    (tmp_path / "theirs.jsonl").write_text(
        exported := xscore("memory", "export", "--layer", "user", cwd=tmp_path).stdout
    )
    memory = json.loads(exported.splitlines()[1])
    assert xscore("memory", "delete", memory["id"], "--yes", cwd=tmp_path).returncode == 0
    refused = xscore("memory", "import", "theirs.jsonl", cwd=tmp_path)
    assert (
        "imported 0 memories" in refused.stdout and "1 line of your own layer" in refused.stderr
    )
    assert (
        "imported 1"
        in xscore("memory", "import", "theirs.jsonl", "--layer", "user", cwd=tmp_path).stdout
    )


def test_aliases_are_given_shown_exported_and_erased(
    xscore: Run, repo: Path, tmp_path: Path
) -> None:
    """`--alias` repeats; list, show and JSON have them, an export carries them, `update` replaces
    them, and deleting leaves none."""
    added = said(
        xscore, repo, "memory", "add", "jobs wait in a table", "--key", "queue",
        *("--alias", "DLQ", "--alias", "dead letter"),
    )  # fmt: skip
    assert added["particulars"]["aliases"] == ["DLQ", "dead letter"]
    assert "DLQ" in xscore("memory", "list", cwd=repo).stdout
    assert "DLQ, dead letter" in xscore("memory", "show", added["id"], cwd=repo).stdout
    saved = tmp_path / "saved.jsonl"
    assert xscore("memory", "export", "-o", str(saved), cwd=repo).returncode == 0
    changed = said(xscore, repo, "memory", "update", added["id"], "--alias", "parking lot")
    assert changed["particulars"]["aliases"] == ["parking lot"]
    gone = xscore("memory", "delete", added["id"], "--yes", cwd=repo)
    assert gone.returncode == 0, gone.stderr
    files = [path for path in store_dir(repo).rglob("*") if path.is_file()]
    assert files and not [path for path in files if b"parking lot" in path.read_bytes()]
    assert b"dead letter" in saved.read_bytes()
    refused = xscore("memory", "add", "x", "--alias", "a" * 101, cwd=repo)
    assert refused.returncode == 2
