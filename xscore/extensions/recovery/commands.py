"""`xscore store rebuild`: set a damaged or untrusted store aside and build a new one, with what is left of yours.

It works without opening the store first, since that is what failed. Nothing is deleted: the old file stays beside.
"""

from pathlib import Path

import click

from xscore.cli.opening import read_settings, run_turn
from xscore.cli.options import Flags, command
from xscore.cli.terminal import Terminal
from xscore.extensions.recovery.rebuild import RebuiltStore, rebuild_store, rebuild_user_store
from xscore.platform.paths import find_root, user_data_dir
from xscore.platform.text import one_line
from xscore.store.opening import user_store_path


@command()
@click.option("--user", is_flag=True, help="Your own store, and no project's.")
def rebuild(user: bool, flags: Flags) -> None:
    """Set the store of this repository aside and build a new one; what is shown to be yours is taken over.

    Memories, turns, the ledger and judgments come along where the old file can be read and was made here by you.
    """
    settings = read_settings(flags)
    user_data = user_data_dir(settings.settings.store.user_data_dir)
    if user:
        _print_rebuilt(user_store_path(user_data), rebuild_user_store(user_data), flags.terminal)
        return
    store_dir = find_root(Path.cwd()).store_dir
    rebuilt = rebuild_store(store_dir, user_data_dir=user_data)
    run_turn(flags, lambda open_: open_.index(), settings=settings)
    _print_rebuilt(store_dir, rebuilt, flags.terminal)


def _print_rebuilt(place: Path, rebuilt: RebuiltStore, terminal: Terminal) -> None:
    salvaged, aside = rebuilt.salvaged, rebuilt.set_aside_at
    counts = salvaged and {
        **salvaged.kept,
        "rows_not_believed": salvaged.rejected_rows,
        "places_not_read": salvaged.damaged_places,
        "batches_at_vendors": salvaged.at_vendors,
    }
    lines = [f"rebuilt: {one_line(str(place))}"]
    if aside:
        lines.append(f"set aside: {one_line(str(aside))}")
        lines.append(salvaged.summary if salvaged else "salvaged nothing: nothing shows that you made it here")
    body = {"store": str(place), "action": "rebuilt", "aside": str(aside) if aside else None, "salvaged": counts}
    terminal.print_result(body, "\n".join(lines))
