"""`xscore memory mute`: suggest nothing of a key any more."""

from typing import TYPE_CHECKING

import click

from xscore.cli.opening import in_store
from xscore.cli.options import OUTPUT, Flags, options
from xscore.cli.terminal import echo, print_json
from xscore.errors import NothingMatched, UsageError
from xscore.learning import suggestions
from xscore.pipeline.receipt import SCHEMA
from xscore.safe_text import one_line

if TYPE_CHECKING:
    from xscore.memory.store import Store


@click.command()
@click.argument("key", required=False, default="")
@click.option("--list", "show", is_flag=True, help="List the muted keys.")
@click.option("--undo", is_flag=True, help="Suggest KEY again.")
@options(OUTPUT)
def mute(key: str, show: bool, undo: bool, flags: Flags) -> None:
    """Suggest nothing of KEY any more, in any project; `--undo` takes it back."""
    if show == bool(key) or (show and undo):
        raise UsageError("a key or --list is needed, one of them", hint="`xscore memory mute orm`, or `--list`.")
    muted = in_store(lambda store: _muted(store, key, undo=undo), flags)
    if flags.terminal.as_json:
        print_json({"schema": SCHEMA, "muted": list(muted)})
    elif show and muted:
        echo("\n".join(map(one_line, muted)))
    elif show:
        flags.terminal.note("nothing is muted")
    else:
        echo(f"{one_line(key)} is {'suggested again' if undo else 'muted'}")


def _muted(store: "Store", key: str, *, undo: bool) -> tuple[str, ...]:
    if key and undo and not suggestions.unmute(store, key):
        raise NothingMatched(f"{key} is not muted", hint="`xscore memory mute --list` shows what is.")
    if key and not undo:
        suggestions.mute(store, key, now=store.clock())
    return suggestions.muted(store)
