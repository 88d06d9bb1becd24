"""`xscore cache export`: judgments as one signed Parquet file, for another machine with a clone of this repository."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from xscore.cli.cache_key import KEY, key_in_force
from xscore.cli.opening import in_store
from xscore.cli.options import FILE, OUTPUT, Flags, options
from xscore.cli.spans import Stretch
from xscore.cli.terminal import Terminal, echo, print_json
from xscore.errors import UsageError
from xscore.safe_text import one_line
from xscore.wording import counted, size

if TYPE_CHECKING:
    from xscore.cache.exporting import Exported
    from xscore.memory.store import Store


@click.command()
@click.argument("file", metavar="FILE.parquet", type=FILE)
@click.option("--judge", metavar="KEY", multiple=True, help="Only of this judge: its name, or its key. Repeatable.")
@click.option("--since", metavar="STRETCH", type=Stretch(), help="Only of turns asked in the last 12h, 30d, 8w.")
@click.option("--no-reasons", is_flag=True, help="Leave out the judges' reasons, which are words about your code.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before an encrypted store is exported as a plain file.")
@options(KEY, OUTPUT)
def export(
    *, file: Path, judge: tuple[str, ...], since: float | None, no_reasons: bool, yes: bool, flags: Flags
) -> None:
    """Write the judgments of this repository to FILE.parquet, signed with the key that your machines share.

    It holds no task, no source and no path: keys, scores, and reasons unless you say --no-reasons. Judgments of your
    own layer stay in your own store. `xscore cache import` reads it where the key is the same.
    """
    key = key_in_force(flags)

    def work(store: "Store") -> None:
        from xscore.cache.exchange_key import no_key_to_sign
        from xscore.cache.exporting import Wanted
        from xscore.cache.exporting import export as write

        if key is None:
            raise no_key_to_sign()
        if not _may_be_plain(store, flags.terminal, agreed=yes):
            return
        from_ = None if since is None else store.clock() - since
        done = write(store.connection, file, key, Wanted(judges=judge, since=from_, reasons=not no_reasons))
        _tell(done, file, flags.terminal)

    in_store(work, flags, make=False)


def _may_be_plain(store: "Store", terminal: Terminal, *, agreed: bool) -> bool:
    """Ask where the store is encrypted: what is written is not. Raises UsageError where nobody can be asked."""
    from xscore import sealing

    if agreed or sealing.note_of(store.path) is None:
        return True
    if not terminal.can_ask:
        raise UsageError(
            "the store is encrypted and an export is not", hint="Say --yes, and keep the file where only you can read."
        )
    if click.confirm("The store is encrypted and an export is not. Write it?", default=False, err=True):
        return True
    terminal.note("nothing was written")
    return False


def _tell(done: "Exported", file: Path, terminal: Terminal) -> None:
    from xscore.pipeline.receipt import to_json

    if terminal.as_json:
        print_json({**to_json(done), "file": str(file)})
        return
    echo(
        f"exported {counted(done.judgments, 'judgment')} of {counted(done.turns, 'turn')},"
        f" {counted(done.reasons, 'reason')}: {one_line(str(file))}, {size(done.bytes)}, signed with key {done.key}"
    )
    if done.damaged:
        terminal.note(f"left behind, since they are damaged: {counted(done.damaged, 'judgment')}")
    terminal.note("judgments of your own layer are not in it: they stay in your own store")
