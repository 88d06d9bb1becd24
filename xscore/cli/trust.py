"""`xscore trust`: believe a store that was made elsewhere, or set it aside and build a new one.

The one command that works without opening the pipeline first, since that is what was refused.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from xscore.cli.opening import in_pipeline, read_settings
from xscore.cli.options import OUTPUT, Flags, options
from xscore.cli.progress import Watch
from xscore.cli.terminal import Terminal, echo, print_json
from xscore.errors import UsageError
from xscore.pipeline.receipt import SCHEMA
from xscore.safe_text import one_line

if TYPE_CHECKING:
    from xscore.memory.trust import Rebuilt


@click.command()
@click.option("--rebuild", is_flag=True, help="Set the store aside and build a new one, with what is left of yours.")
@click.option("--user", is_flag=True, help="With --rebuild: your own store, and no project's.")
@options(OUTPUT)
def trust(rebuild: bool, user: bool, flags: Flags) -> None:
    """Accept the store of this repository, although it was made elsewhere or moved.

    Whoever made a store chose its scores. Accept what you copied yourself; rebuild what came with a clone.
    """
    from xscore.paths import find_root, user_data_dir

    settings = read_settings(flags)
    store_dir = find_root(Path.cwd()).store_dir
    user_data = user_data_dir(settings.settings.store.user_data_dir)
    if user:
        _rebuild_own(user_data, flags.terminal, rebuild=rebuild)
        return
    if not rebuild:
        _accept(store_dir, user_data)
        said = {"schema": SCHEMA, "store": str(store_dir), "action": "trusted", "aside": None, "salvaged": None}
        print_json(said) if flags.terminal.as_json else echo(f"trusted: {one_line(str(store_dir))}")
        return
    from xscore.memory.trust import rebuild as build_anew

    rebuilt = build_anew(store_dir, user_data_dir=user_data)
    in_pipeline(lambda open_: open_.index(), settings, Watch(flags.terminal))
    _tell(store_dir, rebuilt, flags.terminal)


def _tell(store_dir: Path, rebuilt: "Rebuilt", terminal: Terminal) -> None:
    salvaged = rebuilt.salvaged
    if terminal.as_json:
        counts = salvaged and {
            **salvaged.kept,
            "rows_not_believed": salvaged.not_believed,
            "places_not_read": salvaged.places,
            "batches_at_vendors": salvaged.at_vendors,
        }
        aside = str(rebuilt.aside) if rebuilt.aside else None
        said = {"schema": SCHEMA, "store": str(store_dir), "action": "rebuilt", "aside": aside, "salvaged": counts}
        print_json(said)
        return
    echo(f"built anew: {one_line(str(store_dir))}")
    if rebuilt.aside:
        echo(f"set aside: {one_line(str(rebuilt.aside))}")
        echo(salvaged.words if salvaged else "salvaged nothing: it could not be shown that you made it here")


def _rebuild_own(user_data: Path, terminal: Terminal, *, rebuild: bool) -> None:
    from xscore.memory.user_rebuild import rebuild_user_store
    from xscore.memory.user_store import path_in

    if not rebuild:
        raise UsageError(
            "your own store is believed as it is", hint="To build it anew: `xscore trust --rebuild --user`."
        )
    _tell(path_in(user_data), rebuild_user_store(user_data), terminal)


def _accept(store_dir: Path, user_data: Path) -> None:
    from xscore.memory.trust import accept
    from xscore.paths import STORE_FILE

    if not (store_dir / STORE_FILE).exists():
        raise UsageError(f"there is no store at {store_dir}", hint="`xscore index` makes one; it is trusted as yours.")
    accept(store_dir, user_data_dir=user_data)
