"""The commands `store encrypt | decrypt`.

A store is opened before it is converted, to check that it is trusted, and so that a missing one is
made: its later rows are then encrypted too. Trade-off: no other xscore may be at work on it.
"""

from pathlib import Path

import click

from xscore.cli.flags import Flags, command
from xscore.cli.options import option
from xscore.cli.settings_and_store import read_settings
from xscore.extensions.privacy import encryption
from xscore.pipeline.json_form import record_json
from xscore.platform.errors import UsageError
from xscore.platform.paths import find_root, refuse_wide_folder, user_data_dir
from xscore.platform.text import one_line
from xscore.store import opening

WHICH_STORE = [
    option(
        "--user", is_flag=True, help="Your own store instead of the one of this repository."
    ),
    option("--all", "both", is_flag=True, help="Both."),
]


@command(WHICH_STORE)
@click.option(
    "--drop-asides", is_flag=True, help="Remove set-aside stores, which would stay readable."
)
def encrypt(*, drop_asides: bool, flags: Flags) -> None:
    """Encrypt the store of this repository (AES-256); needs `xscore[crypt]`, and no other xscore
    may be using it.

    The key is made once, in the keyring, or in the file store.key of your data folder. Keep a copy
    of it elsewhere: without it the store cannot be read again.
    """
    user_data, paths = _opened_once(flags)
    done = []
    for path in paths:
        # First the copies: no plain one ever exists together with an encrypted store.
        encryption.convert_copies(path, encryption.encrypt_store, user_data_dir=user_data)
        done.append(
            encryption.encrypt_store(path, user_data_dir=user_data, drop_asides=drop_asides)
        )
    _print_conversions(done, flags)
    if any(conversion.changed for conversion in done):
        flags.terminal.note(
            f"the key is in {one_line(done[0].key)}: without it this cannot be read again"
        )


@command(WHICH_STORE)
def decrypt(flags: Flags) -> None:
    """Write the store of this repository as a plain one again. The key stays where it is."""
    user_data, paths = _opened_once(flags)
    done = []
    for path in paths:
        done.append(encryption.decrypt_store(path, user_data_dir=user_data))
        encryption.convert_copies(path, encryption.decrypt_store, user_data_dir=user_data)
    _print_conversions(done, flags)


def _opened_once(flags: Flags) -> tuple[Path, list[Path]]:
    """Return the user's data folder and the chosen databases, made if missing, so that later rows
    are encrypted too."""
    settings = read_settings(flags).settings
    paths = list[Path]()
    user = flags.given["user"]
    both = flags.given["both"]
    user_data = user_data_dir(settings.store.user_data_dir)
    if both or not user:
        root = find_root(Path.cwd())
        refuse_wide_folder(root)
        encryption.restore_note(root.store_file, user_data_dir=user_data)
        opening.open_store(
            root.store_dir, user_data_dir=user_data, trust=settings.store.trust
        ).close()
        paths.append(root.store_file)
    if user or both:
        if not settings.memory.user_learning:
            raise UsageError(
                "your own store stays closed: `memory.user_learning` is false here",
                hint="Run it elsewhere, or turn the setting on in your own file.",
            )
        paths.append(opening.user_store_path(user_data))
        encryption.restore_note(paths[-1], user_data_dir=user_data)
        opening.open_user_store(user_data).close()
    return user_data, paths


def _print_conversions(done: list[encryption.Conversion], flags: Flags) -> None:
    lines = []
    for conversion in done:
        if conversion.is_encrypted:
            word = "encrypted"
        elif conversion.changed:
            word = "decrypted"
        else:
            word = "plain"
        if not conversion.changed:
            word = f"already {word}"
        lines.append(f"{word}: {one_line(conversion.path)}")
        for place in conversion.removed:
            lines.append(f"  removed {one_line(place)}, which anyone could read")
    stores = [record_json(conversion) for conversion in done]
    flags.terminal.print_result({"stores": stores}, "\n".join(lines))
