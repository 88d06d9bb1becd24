"""`xscore report` as a user and CI run it, over real turns and prepared ledgers, and where it
writes."""

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from sqlite3 import Connection

import polars as pl
import pytest
from click import unstyle

from tests.cli.conftest import Run
from tests.cli.terminals import shown_on_terminal
from tests.conftest import MakeRepo, store_dir, store_file
from tests.cost_reports.ledger_rows import DAY, add_call, add_figures, add_turn
from xscore.cli.text_layout import bold, render_table, wrapped
from xscore.platform.paths import user_data_dir
from xscore.store.opening import connect_store, key_source

SOURCE = "def total(lines):\n    return sum(lines)\n\n\ndef tax(n):\n    return n\n"
HOSTILE = '=HYPERLINK("http://x") | <script>alert(1)</script> `x` [a](b)\n# b'


@pytest.fixture
def shop(make_repo: MakeRepo) -> Path:
    """A repository of two functions."""
    return make_repo({"shop.py": SOURCE})


@pytest.fixture
def ledger(shop: Path, xscore: Run) -> Iterator[Connection]:
    """The shop's store, created and trusted, open for test rows."""
    assert xscore("index", cwd=shop).returncode == 0
    with closing(
        connect_store(store_file(shop), key_source(user_data_dir(None)))
    ) as connection:
        yield connection


def fill(ledger: Connection, *, task: str = "Mend it.") -> None:
    """Insert two turns on two days, one killed, and what an index paid."""
    add_turn(ledger, "t_1", DAY, task=task)
    add_figures(ledger, "t_1")
    add_call(ledger, "a", "t_1", cost=1_234_567_890)
    add_turn(ledger, "t_2", DAY + 86_400, "interrupted", task=task)
    add_call(ledger, "b", "t_2", DAY + 86_400, outcome="rate_limited", cost=0)
    add_call(ledger, "c", "e_1", stage="embed", model=task)


@pytest.mark.usefixtures("ledger")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--last", "soon"], "24h"),
        (["--last", "30s"], ""),
        (["--last", "7d"], ""),
        (["--last", "0h"], "24h"),
        (["--since", "2026-13-01"], "2026-11-01"),
        (["--since", "nan"], "2026-11-01"),
        (["--since", "9999-12-31T23:59-14:00"], "2026-11-01"),
        (["--until", "0001-01-01T00:00+14:00"], "2026-11-01"),
        (["--last", "999999w"], ""),
        (["--last", "1h", "--since", "2026-11-01"], "--last and --since contradict each other"),
        (["--since", "2026-11-02", "--until", "2026-11-01"], "--until"),
        (["--by", "mood"], "model"),
        (["--json", "--format", "markdown"], "stdout"),
        (["--repo", "."], ""),
        (
            ["--check", "--update-baseline"],
            "--check and --update-baseline contradict each other",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_nonsense_is_a_usage_error_with_an_example(
    shop: Path, xscore: Run, arguments: list[str], words: str
) -> None:
    """Contradictory options exit with 2 and say what is valid; the repository itself may be named
    again."""
    ran = xscore("report", *arguments, cwd=shop)
    assert ran.returncode == (2 if words else 0)
    assert words in ran.stderr + ran.stdout


def test_the_page_fits_the_window(shop: Path, ledger: Connection, xscore: Run) -> None:
    """A pipe gets whole lines without color; a terminal's lines are wrapped to its width, whatever
    a name contains."""
    fill(ledger, task="\x1b[31m" + "long name " * 30)
    ran = xscore("report", "--by", "turn", cwd=shop)
    for width in (80, 120):
        assert max(map(len, wrapped(ran.stdout, width).splitlines()[1:])) <= width
    assert "\x1b" not in ran.stdout
    assert "1 × 429" in ran.stdout


def test_a_line_breaks_between_its_parts() -> None:
    """A figure is not parted from its word where a line has room for both; a sentence breaks
    between words."""
    assert (
        wrapped("kinds  131k block · 25k method · 40 class", 24)
        == "kinds  131k block ·\n       25k method ·\n       40 class"
    )
    assert wrapped("a sentence of plain words", 14) == "a sentence of\n  plain words"
    assert (
        wrapped("hit rate  24 % of 9 in all · 24 % of 9 today", 30)
        == "hit rate  24 % of 9 in all ·\n          24 % of 9 today"
    )
    assert (
        wrapped(f"{bold('0.10')}  a name of words", 21) == f"{bold('0.10')}  a name of words"
    ), "colors take no room"
    assert (
        wrapped(f"{bold('0.10')}  {bold('a name')} of words", 18)
        == f"{bold('0.10')}  {bold('a name')} of\n      words"
    )


def test_a_label_stays_beside_what_it_labels() -> None:
    """A label stays with a path that is wider than the window, which ends its lines after a
    slash or a dot, or before colons."""
    path = "src/" + "folder/" * 5 + "file.ts:13-76"
    shown = f"0.23  src/{'folder/' * 4}\n      folder/file.ts:13-76  name"
    assert wrapped(f"0.23  {path}  name", 40) == shown
    assert (
        wrapped("commons.io.filters::ArchiveItself", 20)
        == "commons.io.filters\n  ::ArchiveItself"
    )
    assert wrapped("a commons.io.filters", 14) == "a commons.io.\n  filters"


def test_no_figure_is_cut_in_a_narrow_window() -> None:
    """Where a table's figures would be cut, each row is a block; a column of text alone is cut."""
    heads, row = (
        ("way", "model", "dollars", "calls"),
        ("chat cold", "openai:gpt-6-luna", "~$0.0123", "1,407"),
    )
    narrow = unstyle(render_table(heads, [row], right={"dollars", "calls"}, width=30))
    assert narrow.splitlines() == [
        "way      chat cold",
        "model    openai:gpt-6-luna",
        "dollars  ~$0.0123",
        "calls    1,407",
    ]
    cut = unstyle(render_table(heads, [row], right={"dollars", "calls"}, width=42)).splitlines()
    assert "…" in cut[1] and cut[1].endswith("~$0.0123  1,407") and len(cut[1]) <= 42


def test_tables_for_other_programs(
    shop: Path, ledger: Connection, xscore: Run, tmp_path: Path
) -> None:
    """CSV and Parquet have one line for a turn or a group; text that looks like a formula is
    escaped in CSV."""
    fill(ledger, task=HOSTILE)
    ledger.execute("UPDATE turn_figures SET judge_s = 0.1234567891")
    to = tmp_path / "table"
    ran = xscore("report", "-o", f"{to}.csv", "-o", f"{to}.parquet", cwd=shop)
    assert (ran.returncode, ran.stdout) == (0, "")
    csv, parquet = pl.read_csv(f"{to}.csv"), pl.read_parquet(f"{to}.parquet")
    assert csv["turn"].to_list() == parquet["turn"].to_list() == ["t_2", "t_1"]
    assert all(task.startswith("'=") for task in csv["task"])
    assert all(task.startswith("=") for task in parquet["task"])
    assert str(parquet["cost_usd"].sum()) == "0.001234567890"
    for table in (csv, parquet):
        assert table["kept"].to_list() == [None, 5], (
            "an unfinished turn has an unknown number of kept memories"
        )
        assert table["total_s"].to_list() == [None, 1.0]
        assert table["primary_s"].to_list() == [None, None], (
            "no answering call took no time, which is not 0 s"
        )
        assert table["judge_s"].to_list() == [None, 0.123457]
    assert parquet["at"].to_list() == [
        datetime.fromtimestamp(DAY + 86_400, UTC),
        datetime.fromtimestamp(DAY, UTC),
    ]
    assert csv["at"].to_list() == [
        datetime.fromtimestamp(at, UTC).isoformat() for at in (DAY + 86_400, DAY)
    ]
    out = xscore("report", "--format", "csv", "--by", "day", cwd=shop).stdout
    assert pl.read_csv(out.encode())["day"].to_list() == ["2025-10-11", "2025-10-10"]
    stages = pl.read_csv(
        xscore("report", "--format", "csv", "--by", "stage", cwd=shop).stdout.encode()
    )
    assert set(stages["candidates"]) == set(stages["kept"]) == {None}, (
        "a stage is a part of turns"
    )


def failing(out: str) -> set[str]:
    """Return the names of failed gates."""
    return {
        line["what"] for line in json.loads(out)["gate"]["lines"] if line["verdict"] == "failed"
    }


def test_the_gate_is_wired(shop: Path, ledger: Connection, xscore: Run) -> None:
    """A new baseline passes; with more calls it fails with 5, except within what `[gates]`
    allows."""
    fill(ledger)
    baseline = ("--baseline", "b.json")
    assert xscore("report", "--update-baseline", *baseline, cwd=shop).returncode == 0
    assert xscore("report", "--check", *baseline, cwd=shop).returncode == 0
    for number in range(9):
        add_call(ledger, f"more_{number}", "t_1")
    ran = xscore("report", "--check", *baseline, "--json", cwd=shop)
    assert ran.returncode == 5
    assert failing(ran.stdout) >= {"calls", "attempts", "dollars"}
    assert (
        "### Gates"
        in xscore("report", "--check", *baseline, "--format", "markdown", cwd=shop).stdout
    )
    before = (shop / "b.json").read_bytes()
    assert xscore("report", "--check", "--update-baseline", *baseline, cwd=shop).returncode == 2
    assert (shop / "b.json").read_bytes() == before, "a check never writes"
    (shop / ".xscore.toml").write_text("[gates]\ncost = 99.0\n")
    allowed = xscore("report", "--check", *baseline, "--json", cwd=shop)
    assert allowed.returncode == 5 and "dollars" not in failing(allowed.stdout)


def test_damage_is_reported_with_valid_json(
    shop: Path, ledger: Connection, xscore: Run
) -> None:
    """Invalid rows are in `warnings` and on stderr; a turn whose own row is invalid is damage (6),
    not unknown."""
    fill(ledger)
    add_call(ledger, "bad", "t_1", duration_s=float("inf"))
    ran = xscore("report", "--json", cwd=shop)
    assert "1 rows of calls" in json.loads(ran.stdout)["warnings"][0]
    assert "xscore store rebuild" in ran.stderr
    ledger.execute("UPDATE turn SET started_at = 'soon' WHERE id = 't_1'")
    ran = xscore("report", "--turn", "t_1", cwd=shop)
    assert (ran.returncode, "xscore store rebuild" in ran.stderr) == (6, True)


def test_the_json_is_as_documented(shop: Path, ledger: Connection, xscore: Run) -> None:
    """Every key of a report is in its section of docs/reference/json.md."""
    fill(ledger)
    page = (Path(__file__).parents[2] / "docs" / "reference" / "json.md").read_text()
    section = page.split("## `report`")[1].split("\n## ")[0]
    report = json.loads(xscore("report", "--json", "--by", "model", cwd=shop).stdout)
    free = {"turns_by_state", "unjudged_by_cause", "cost_by_model"}

    def keys(value: object) -> Iterator[str]:
        for inner in value if isinstance(value, list) else ():
            yield from keys(inner)
        for name, inner in value.items() if isinstance(value, dict) else ():
            yield name
            yield from () if name in free else keys(inner)

    assert [name for name in keys(report) if name not in section] == []


@pytest.fixture
def used_folder(shop: Path, xscore: Run) -> Path:
    """The repository, asked about once in words with terminal escapes."""
    assert (
        xscore("context", "the total \x1b[31m", "--judge", "lexical", cwd=shop).returncode == 0
    )
    return shop


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-o", "x.txt"], "no known suffix"),
        (["-o", "a.csv", "-o", "no/such/b.parquet"], "there is no such folder"),
        (["-o", "a.html", "-o", "notes.md"], "notes.md exists and is not an earlier report"),
        (["--check", "--baseline", ""], "--baseline names no file"),
        (["--update-baseline", "--baseline", "-"], "--baseline names no file"),
        (["-o", "x.csv", "-o", "folder/../x.csv"], "name the same file"),
        (["-o", "x.csv", "-o", "link/x.csv"], "name the same file"),
        (
            ["-o", "x.csv", "--check", "--baseline", "./x.csv"],
            "--output and --baseline name the same file",
        ),
        (["-o", ".xscore/page.html"], "is inside a store's folder"),
        (["--update-baseline", "--baseline", "store/new/b.json"], "is inside a store's folder"),
        (["-o", "loop/a.html"], "cannot be written"),
        (["-o", "a.html", "--check", "--baseline", "none.json"], "there is no baseline"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_cannot_be_written_is_refused_first(
    used_folder: Path, xscore: Run, arguments: list[str], words: str
) -> None:
    """Exit 2 with a message, nothing on stdout, and every file is unchanged."""
    (used_folder / "folder").mkdir()
    (used_folder / "notes.md").write_text("my notes")
    (used_folder / "link").symlink_to(".")
    (used_folder / "store").symlink_to(".xscore")
    (used_folder / "loop").symlink_to("loop")
    before = sorted(
        path.name for path in (*used_folder.iterdir(), *(store_dir(used_folder)).iterdir())
    )
    ran = xscore("report", *arguments, cwd=used_folder)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert words in ran.stderr
    assert (used_folder / "shop.py").read_text() == SOURCE
    after = [*used_folder.iterdir(), *store_dir(used_folder).iterdir()]
    assert sorted(path.name for path in after) == before


def test_what_was_written_earlier_is_replaced(used_folder: Path, xscore: Run) -> None:
    """Each output may overwrite its earlier file, as a daily script does; an empty file may be
    filled."""
    every = ("-o", "p.html", "-o", "t.csv", "-o", "t.parquet", "-o", "r.md")
    (used_folder / "p.html").touch()
    for grouped in ((), ("--by", "model"), ()):
        ran = xscore("report", *every, *grouped, cwd=used_folder)
        assert (ran.returncode, ran.stdout) == (0, ""), ran.stderr
    for form in (["--format", "html"], ["--html"]):
        ran = xscore("report", *form, cwd=used_folder)
        assert ran.stdout.startswith("<!doctype html>") and ran.stdout.endswith("</html>\n")
    assert xscore("report", "--html", "--format", "csv", cwd=used_folder).returncode == 2


def test_a_page_is_not_printed_on_a_terminal(
    used_folder: Path, xscore: Run, own_home: Path
) -> None:
    """On a terminal, and where FILE is given without its option, the hint is `-o FILE`."""
    environ = {"TERM": "dumb", "NO_COLOR": "1", "HOME": str(own_home)}
    seen, code = shown_on_terminal(
        ["-m", "xscore", "report", "--html"], cwd=used_folder, environ=environ
    )
    assert code == 2 and "-o report.html" in seen and "<!doctype" not in seen
    misplaced = xscore("report", "--html", "r.html", cwd=used_folder)
    assert misplaced.returncode == 2 and "-o r.html" in misplaced.stderr


def test_a_turn_of_another_repository_is_found(
    used_folder: Path, xscore: Run, tmp_path: Path
) -> None:
    """With --repo a turn may be in either ledger; the latest is that of the current repository."""
    other_folder = tmp_path / "other"
    other_folder.mkdir()
    (other_folder / "m.py").write_text(SOURCE)
    xscore("context", "elsewhere", "--judge", "lexical", cwd=other_folder)
    away = (
        xscore("history", "list", "--json", cwd=other_folder)
        .stdout.split('"id": "')[1]
        .split('"')[0]
    )
    ran = xscore(
        "report",
        "--repo",
        str(other_folder),
        "--turn",
        away[:12],
        "--format",
        "csv",
        cwd=used_folder,
    )
    assert ran.stdout.splitlines()[1].startswith(away)
    latest = xscore(
        "report",
        "--repo",
        str(other_folder),
        "--turn",
        "latest",
        "--format",
        "csv",
        cwd=used_folder,
    )
    assert "the total" in latest.stdout
