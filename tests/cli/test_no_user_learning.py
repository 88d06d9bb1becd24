"""`--no-user-learning` never opens the user's own store (P07)."""

import sys
from pathlib import Path

import pytest

from ci import reference
from tests.cli.basket import TASK
from tests.cli.conftest import Run
from xscore.platform.paths import user_data_dir
from xscore.store.opening import user_store_path

OPENED: list[str] = []
"""Every file that this process opened; some commands skip an unreadable store, which would hide the
opening."""
sys.addaudithook(
    lambda event, arguments: (
        OPENED.append(str(arguments[0])) if event in ("open", "sqlite3.connect") else None
    )
)
POISON = b"this is no database, and to open it would be an error" * 100


@pytest.fixture
def poisoned(own_home: Path) -> Path:
    """Put an invalid file in place of the user's store."""
    path = user_store_path(user_data_dir(None))
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_bytes(POISON)
    return path


ARGUMENTS: dict[str, tuple[str, ...]] = {
    "ask": (TASK,),
    "context": (TASK,),
    "estimate": (TASK,),
    "explain": ("m_nope",),
    "watch": ("--once",),
    "store encrypt": ("--user",),
    "store decrypt": ("--user",),
    "memory add": ("likes tabs", "--kind", "preference", "--key", "tabs"),
    "memory show": ("m_nope",),
    "memory update": ("m_nope", "--title", "t"),
    "memory delete": ("m_nope",),
    "memory wipe": ("--scope", "user", "--yes"),
    "memory import": ("-",),
    "memory feedback": ("m_nope", "accept"),
    "memory mute": ("orm",),
    "graph": ("related", "a.py"),
    "session save": ("one",),
    "session load": ("one",),
    "session delete": ("one",),
    "history show": ("t_nope",),
    "history delete": ("t_nope", "--yes"),
    "view": ("--idle", "0.1s"),
}
"""The arguments that a command needs to run."""


OFTEN = {"ask", "memory add", "memory list", "memory wipe", "session show"}
"""The commands that `make test` runs; `make verify` runs all of them."""


def commands() -> list[str]:
    """Return every command that has the flag."""
    offered = []
    for name, command in reference.all_commands():
        options = {option for parameter in command.params for option in parameter.opts}
        offered.append((name.removeprefix("xscore "), options))
    return [name for name, options in offered if "--no-user-learning" in options]


@pytest.mark.parametrize(
    "command",
    [
        name if name in OFTEN else pytest.param(name, marks=pytest.mark.verify)
        for name in commands()
    ],
)
def test_the_users_store_is_never_opened(
    xscore: Run, tmp_path: Path, poisoned: Path, command: str
) -> None:
    """P07: with the flag, or a repository's setting, an invalid user.db is no error and is not even
    read."""
    (tmp_path / "a.py").write_text("x = 1\n")
    arguments = (*command.split(), *ARGUMENTS.get(command, ()))
    OPENED.clear()
    shut = xscore(*arguments, "--no-user-learning", cwd=tmp_path)
    assert shut.returncode in (0, 1, 2), shut.stderr
    (tmp_path / ".xscore.toml").write_text("[memory]\nuser_learning = false\n")
    assert xscore(*arguments, cwd=tmp_path).returncode in (0, 1, 2)
    assert OPENED and not [path for path in OPENED if poisoned.name in path]
    assert sorted(
        place.name for place in poisoned.parent.iterdir() if place.name.startswith("user")
    ) == ["user.db"]
