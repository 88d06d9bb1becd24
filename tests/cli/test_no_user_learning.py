"""`--no-user-learning` leaves the user's own store shut, whatever stands in its place (P07)."""

import os
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.test_commands import FILES, SCRIPT, TASK, script_flags
from tests.conftest import MakeRepo
from tests.memory.test_erasure import raw
from xscore.memory.remembering import remember
from xscore.memory.store import Store
from xscore.memory.user_store import path_in
from xscore.paths import find_root, user_data_dir
from xscore.records import Kind, Statement

POISON = b"this is no database, and to open it would be an error" * 100


@pytest.fixture
def poisoned(own_home: Path) -> Path:
    """Put a file that no store can be into the place of the user's."""
    path = path_in(user_data_dir(None))
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_bytes(POISON)
    return path


@pytest.mark.parametrize(
    "command",
    [
        ("ask", "where is the total summed?"),
        ("context", "where is the total summed?"),
        ("memory", "wipe", "--kind", "todo", "--dry-run"),
        ("memory", "delete", "m_nope"),
    ],
)
def test_the_users_store_is_never_opened(
    xscore: Run, make_repo: MakeRepo, tmp_path: Path, poisoned: Path, command: tuple[str, ...]
) -> None:
    """P07: with the flag, or a repository's setting, a poisoned user.db is no error, and is not even read."""
    shop = make_repo(FILES)
    asks = command[0] in ("ask", "context")
    judge = script_flags(tmp_path / "script.json", SCRIPT)[: 4 if command[0] == "ask" else 2] if asks else ()
    os.utime(poisoned, (1.0, 1.0))
    shut = xscore(*command, *judge, "--no-user-learning", cwd=shop)
    assert shut.returncode == (0 if asks else 1), shut.stderr
    (shop / ".xscore.toml").write_text("[memory]\nuser_learning = false\n")
    assert xscore(*command, *judge, cwd=shop).returncode == shut.returncode
    assert poisoned.read_bytes() == POISON and poisoned.stat().st_mtime == 1.0
    assert sorted(place.name for place in poisoned.parent.iterdir() if place.name.startswith("user")) == ["user.db"]


def test_without_the_flag_it_is_looked_at(xscore: Run, make_repo: MakeRepo, poisoned: Path) -> None:
    """The test above can fail: without the flag the poisoned store is noticed."""
    done = xscore("memory", "delete", "m_nope", cwd=make_repo(FILES))
    assert done.returncode == 6


def test_what_is_known_of_the_user_stays_in_their_store(
    xscore: Run, make_repo: MakeRepo, tmp_path: Path, own_home: Path
) -> None:
    """Issue: a turn that keeps a preference leaves neither its text nor its reason in the project's files."""
    shop = make_repo(FILES)
    with Store.open(find_root(shop), user_data_dir=user_data_dir(None)) as store:
        said = Statement(text="Sums totals with the tangerine abacus", kind=Kind.PREFERENCE, key="sums.tool")
        remember(store, said, now=1.0)
    rule = {"entity": "user sums.tool", "score": 0.9, "reason": "names the marmalade instrument"}
    script = {**SCRIPT, "rules": [rule]}
    done = xscore("ask", TASK, *script_flags(tmp_path / "script.json", script), "--json", cwd=shop)
    assert done.returncode == 0 and "marmalade" in done.stdout, done.stderr
    project, own = raw(shop / ".xscore"), raw(user_data_dir(None))
    for words in (b"tangerine", b"marmalade", b"sums.tool"):
        assert words not in project, words
        assert words in own, words
