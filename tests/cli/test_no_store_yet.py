"""Read-only commands without a store: they say so and write nothing."""

import json
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from ci.runner import KEYS as RUNNER_KEYS
from tests.cli.conftest import Run
from tests.conftest import MakeRepo, store_dir, store_file
from xscore.cache.background_lease import BackgroundLease
from xscore.platform.paths import user_data_dir
from xscore.settings.values import JUDGE_KEYS
from xscore.store.opening import connect_store, key_source
from xscore.store.worktrees import enter_worktree

CHECKOUT = Path(__file__).parents[2]
READING = (
    (("report",), 0),
    (("report", "--format", "markdown"), 0),
    (("history", "list"), 0),
    (("status",), 0),
    (("doctor",), 0),
    (("memory", "list"), 0),
    (("memory", "stats"), 0),
    (("memory", "suggest"), 0),
    (("memory", "audit"), 0),
    (("memory", "consolidate"), 0),
    (("memory", "imported"), 0),
    (("memory", "export"), 0),
    (("session", "show"), 0),
    (("session", "list"), 0),
    (("session", "checkpoints"), 0),
    (("graph", "related", "shop.py"), 1),
    (("memory", "show", "m_0123456789abcdef"), 1),
    (("history", "show"), 1),
    (("explain", "shop.py::total"), 1),
    (("report", "--turn", "latest"), 1),
)
SOURCE = {"shop.py": "def total(lines):\n    return sum(lines)\n"}


def everything(*folders: Path) -> set[Path]:
    """Return every file and folder."""
    return {
        path for folder in folders for path in folder.rglob("*") if ".git" not in path.parts
    }


@pytest.mark.parametrize(
    ("arguments", "code", "is_repository"),
    [
        # In a repository and in a plain folder, in turn.
        pytest.param(arguments, code, number % 2 == 0, id=" ".join(arguments))
        for number, (arguments, code) in enumerate(READING)
    ],
)
def test_a_reading_command_makes_no_store(
    arguments: tuple[str, ...],
    code: int,
    is_repository: bool,
    xscore: Run,
    make_repo: MakeRepo,
    tmp_path: Path,
    own_home: Path,
) -> None:
    """It says once that there is no store and how to make one, exits as for an empty store, and
    writes no file."""
    folder = make_repo(SOURCE) if is_repository else tmp_path / "empty"
    folder.mkdir(exist_ok=True)
    before = everything(folder, own_home)
    ran = xscore(*arguments, cwd=folder)
    assert (ran.returncode, ran.stderr.count("there is no store here yet")) == (code, 1), (
        ran.stderr
    )
    assert "`xscore index`" in ran.stderr
    assert everything(folder, own_home) == before


@pytest.mark.parametrize("command", ["index", "ask what", "context what", "estimate what"])
@pytest.mark.parametrize(
    "files", [{}, {"a.png": b"\x89PNG", "b": bytes(range(256)) * 9}], ids=["empty", "binary"]
)
def test_a_folder_without_text_gets_no_store(
    command: str, files: dict[str, bytes], xscore: Run, tmp_path: Path, own_home: Path
) -> None:
    """It says that there is nothing to read and why; exit 1, nothing written.

    One text file is enough.
    """
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    before = everything(folder, own_home)
    done = xscore(*command.split(), cwd=folder)
    assert done.returncode == 1 and "nothing to read" in done.stderr
    assert ("2 binary" if files else "is empty") in done.stderr
    assert everything(folder, own_home) == before
    (folder / "c.py").write_text("x = 1\n")
    done = xscore(*command.split(), cwd=folder)
    assert "nothing to read" not in done.stderr and (store_file(folder)).is_file()


def test_a_bare_repository_is_not_called_empty(xscore: Run, tmp_path: Path) -> None:
    """Its folder holds git's own files and none to read; no store is made there."""
    folder = tmp_path / "bare.git"
    subprocess.run(["git", "init", "-q", "--bare", str(folder)], check=True)
    done = xscore("ask", "what", cwd=folder)
    assert (
        done.returncode == 1 and "bare repository" in done.stderr and "empty" not in done.stderr
    )
    assert not (folder / "xscore").exists()


def test_the_keys_that_are_enough_are_the_same_everywhere(
    xscore: Run, make_repo: MakeRepo
) -> None:
    """The doctor (once), a turn without a key, README and action name every key; one that only
    judges says so."""
    folder = make_repo(SOURCE)
    texts = [xscore("doctor", cwd=folder).stdout, xscore("ask", "what", cwd=folder).stderr]
    texts += [
        (CHECKOUT / name).read_text("utf-8")
        for name in ("README.md", "action.yml", "docs/ci.md")
    ]
    assert [key for key in JUDGE_KEYS for text in texts if key not in text] == []
    assert RUNNER_KEYS == JUDGE_KEYS and texts[0].count("OPENAI_API_KEY") == 1
    keyed = {"TYPESAFE_API_KEY": "sk-test-0123456789abcdef"}
    assert (
        "Set OPENAI_API_KEY, ANTHROPIC_API_KEY, or"
        in xscore("doctor", cwd=folder, environ=keyed).stdout
    )


def test_a_report_of_free_turns_compares_no_prices(xscore: Run, make_repo: MakeRepo) -> None:
    """Where no model judged, there are no tokens to count, and every other way to pay is $0."""
    folder = make_repo(SOURCE)
    assert xscore("context", "anything at all", cwd=folder).returncode in (0, 1)
    report = xscore("report", cwd=folder)
    assert report.returncode == 0 and "dollars" in report.stdout
    assert "would have cost" not in report.stdout and "prefix caches" not in report.stdout


@pytest.mark.parametrize("command", ["report", "status"])
def test_a_program_gets_what_an_empty_store_gives(
    command: str, xscore: Run, make_repo: MakeRepo
) -> None:
    """The object without a store has the same fields as for an empty store."""
    folder = make_repo(SOURCE)
    without = json.loads(xscore(command, "--json", cwd=folder).stdout)
    assert xscore("index", cwd=folder).returncode == 0
    assert without.keys() == json.loads(xscore(command, "--json", cwd=folder).stdout).keys()


def test_a_link_in_the_place_of_a_store_is_refused_all_the_same(
    xscore: Run, make_repo: MakeRepo, tmp_path: Path
) -> None:
    """Read-only commands refuse links as every other command does."""
    folder = make_repo(SOURCE)
    (store_dir(folder)).symlink_to(tmp_path / "nowhere")
    assert xscore("report", cwd=folder).returncode == 6
    assert not (tmp_path / "nowhere").exists()


def test_what_is_kept_out_is_counted_and_listed(xscore: Run, tmp_path: Path) -> None:
    """status, a turn over no memory and `index -v` agree on the files kept out, also where they are
    all of them."""
    (tmp_path / "a.png").write_bytes(b"\x89PNG")
    (tmp_path / "yarn.lock").write_text("x\n")
    assert "a.png: binary\nyarn.lock: lockfile\n" in xscore("index", "-v", cwd=tmp_path).stderr
    (tmp_path / "b.py").write_text("x = 1\n")
    xscore("index", cwd=tmp_path)
    counted = {"binary": 1, "lockfile": 1}
    assert json.loads(xscore("status", "--json", cwd=tmp_path).stdout)["kept_out"] == counted
    assert (
        "2 kept out: 1 binary, 1 lockfile; `xscore index -v`"
        in xscore("status", cwd=tmp_path).stdout
    )
    (tmp_path / "b.py").unlink()
    assert "(2 kept out: 1 binary, 1 lockfile;" in xscore("ask", "what", cwd=tmp_path).stderr
    (tmp_path / "yarn.lock").unlink()
    receipt = json.loads(xscore("ask", "what", "--json", cwd=tmp_path).stdout)
    assert receipt["kept_out"] == {"binary": 1}
    assert json.loads(xscore("status", "--json", cwd=tmp_path).stdout)["kept_out"] == {
        "binary": 1
    }


def test_a_store_being_indexed_is_not_said_to_be_empty(
    xscore: Run, make_repo: MakeRepo
) -> None:
    """While the background process indexes, status does not ask for `xscore index`; when none runs,
    it does."""
    folder = make_repo(SOURCE)
    done = xscore("memory", "add", "We sum plainly.", "--kind", "decision", cwd=folder)
    assert done.returncode == 0
    assert "Nothing is indexed yet: run `xscore index`." in xscore("status", cwd=folder).stdout
    with closing(
        connect_store(store_file(folder), key_source(user_data_dir(None)))
    ) as connection:
        enter_worktree(connection)
        lease = BackgroundLease(connection)
        assert lease.take()
        lease.say("indexing")
        assert lease.beat()
        shown = xscore("status", cwd=folder).stdout
        assert "indexing for" in shown and "Nothing is indexed" not in shown
