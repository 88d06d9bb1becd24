"""`xscore trust`: believe a store that was made elsewhere, or set it aside and build a new one.

The one command that works without opening the pipeline first, since that is what was refused.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from xscore.cli.opening import in_pipeline, read_settings
from xscore.cli.options import OUTPUT, Flags, options
from xscore.cli.progress import Watch
from xscore.cli.safe_text import one_line
from xscore.cli.terminal import Terminal, echo, print_json
from xscore.errors import UsageError
from xscore.pipeline.receipt import SCHEMA

if TYPE_CHECKING:
    from xscore.settings import Loaded


@click.command()
@click.option("--rebuild", is_flag=True, help="Set the store aside and build a new one; its judgments are paid anew.")
@options(OUTPUT)
def trust(rebuild: bool, flags: Flags) -> None:
    """Accept the store of this repository, although it was made elsewhere or moved.

    Whoever made a store chose its scores. Accept what you copied yourself; rebuild what came with a clone.
    """
    from xscore.paths import find_root, user_data_dir

    settings = read_settings()
    root = find_root(Path.cwd())
    if rebuild:
        aside = _rebuild(root.store_dir, settings, flags.terminal)
    else:
        _accept(root.store_dir, user_data_dir(settings.settings.store.user_data_dir))
        aside = None
    if flags.terminal.as_json:
        print_json(
            {
                "schema": SCHEMA,
                "store": str(root.store_dir),
                "action": "rebuilt" if rebuild else "trusted",
                "aside": str(aside) if aside else None,
            }
        )
    elif rebuild:
        echo(f"built anew: {one_line(str(root.store_dir))}" + (f"\nset aside: {one_line(str(aside))}" if aside else ""))
    else:
        echo(f"trusted: {one_line(str(root.store_dir))}")


def _accept(store_dir: Path, user_data: Path) -> None:
    from xscore.memory.trust import accept
    from xscore.paths import STORE_FILE

    if not (store_dir / STORE_FILE).exists():
        raise UsageError(f"there is no store at {store_dir}", hint="`xscore index` makes one; it is trusted as yours.")
    accept(store_dir, user_data_dir=user_data)


def _rebuild(store_dir: Path, settings: "Loaded", terminal: Terminal) -> Path | None:
    from xscore.memory.trust import set_aside

    aside = set_aside(store_dir)
    watch = Watch(terminal)
    in_pipeline(lambda open_: open_.index(), settings, watch)
    return aside
