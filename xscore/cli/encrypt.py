"""`xscore encrypt` and `xscore decrypt`: a store's file as cipher text, or plain again.

They open the store once to see that it is this user's and of today's schema, and close it before it is converted.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from xscore.cli.opening import read_settings
from xscore.cli.options import OUTPUT, Flags, options
from xscore.cli.terminal import echo, print_json
from xscore.errors import UsageError
from xscore.safe_text import one_line

if TYPE_CHECKING:
    from xscore.memory.encryption import Conversion
    from xscore.settings import Settings

USER = click.option("--user", is_flag=True, help="Your own store instead of the one of this repository.")
ALL = click.option("--all", "both", is_flag=True, help="Both.")


@click.command()
@USER
@ALL
@click.option("--drop-asides", is_flag=True, help="Remove set-aside stores, which would stay readable.")
@options(OUTPUT)
def encrypt(*, user: bool, both: bool, drop_asides: bool, flags: Flags) -> None:
    """Encrypt the store of this repository (AES-256); needs `xscore[crypt]`, and no other xscore at work on it.

    The key is made once, in the keyring, or in the file store.key of your data folder. Keep a copy of it elsewhere:
    without it nobody can read the store again.
    """
    from xscore.memory import encryption

    settings = read_settings(flags).settings
    user_data = _user_data(settings)
    done = [
        encryption.encrypt(path, user_data_dir=user_data, drop_asides=drop_asides)
        for path in _opened_once(
            settings,
            user=user or both,
            repository=both or not user,
            first=lambda path: encryption.note_again(path, user_data_dir=user_data),
        )
    ]
    _tell(done, flags)
    if any(each.changed for each in done):
        flags.terminal.note(f"the key is in {one_line(done[0].key)}: without it nobody can read this again")


@click.command()
@USER
@ALL
@options(OUTPUT)
def decrypt(*, user: bool, both: bool, flags: Flags) -> None:
    """Write the store of this repository as a plain one again. The key stays where it is."""
    from xscore.memory import encryption

    settings = read_settings(flags).settings
    user_data = _user_data(settings)
    paths = _opened_once(settings, user=user or both, repository=both or not user)
    _tell([encryption.decrypt(path, user_data_dir=user_data) for path in paths], flags)


def _user_data(settings: "Settings") -> Path:
    from xscore.paths import user_data_dir

    return user_data_dir(settings.store.user_data_dir)


def _opened_once(
    settings: "Settings", *, user: bool, repository: bool, first: Callable[[Path], None] = lambda path: None
) -> list[Path]:
    """Name the databases that are meant, made where there are none, so that what is kept later is kept so too.

    first: done with each path before it is opened.
    """
    from xscore.memory import trust, user_store
    from xscore.paths import find_root

    user_data, paths = _user_data(settings), []
    if repository:
        root = find_root(Path.cwd())
        first(root.store_file)
        trust.open_store(root.store_dir, user_data_dir=user_data, trust=settings.store.trust).close()
        paths.append(root.store_file)
    if user:
        if not settings.memory.user_learning:
            raise UsageError(
                "your own store stays shut: `memory.user_learning` is false here",
                hint="Run it elsewhere, or switch the setting on in your own file.",
            )
        path = user_store.path_in(user_data)
        first(path)
        user_store.open_user_store(user_data).close()
        paths.append(path)
    return paths


def _tell(done: "list[Conversion]", flags: Flags) -> None:
    from xscore.pipeline.receipt import SCHEMA, plain

    if flags.terminal.as_json:
        print_json({"schema": SCHEMA, "stores": [plain(each) for each in done]})
        return
    for each in done:
        word = "encrypted" if each.is_encrypted else "decrypted" if each.changed else "plain"
        echo(f"{word if each.changed else f'already {word}'}: {one_line(each.path)}")
        for place in each.removed:
            echo(f"  removed {one_line(place)}, which anyone could read")
