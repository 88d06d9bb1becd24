"""`xscore memory import`: read exported memories, or a snapshot, back in; whole or not at all."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from xscore.cli.left_out import left_out
from xscore.cli.opening import in_store
from xscore.cli.options import OUTPUT, Flags, options
from xscore.cli.terminal import Terminal, echo, print_json
from xscore.errors import UsageError
from xscore.records import Layer, Snapshot
from xscore.safe_text import one_line
from xscore.wording import counted

if TYPE_CHECKING:
    from xscore.memory.store import Store


@click.command("import")
@click.argument("file", metavar="FILE|-", type=click.Path(allow_dash=True))
@click.option("--snapshot", is_flag=True, help="FILE is a snapshot: put it back; as it was, if this store wrote it.")
@click.option("--layer", type=click.Choice([str(Layer.USER)]), help="Also lines of your own layer, else refused.")
@options(OUTPUT)
def import_memories(file: str, snapshot: bool, layer: str | None, flags: Flags) -> None:
    """Take over the memories of FILE (`-`: standard input), as quoted data of the source `import`.

    What is of your own layer would hold in all your repositories, so it is left out unless you say `--layer user`.
    What is here stays as it is. A line that is no memory is named, and then nothing is imported.
    """

    if snapshot and layer:
        raise UsageError("a snapshot holds nothing of your own layer", hint="Leave out --layer, or --snapshot.")

    def work(store: "Store") -> None:
        from xscore.memory.copies.importing import MAX_BYTES, import_lines
        from xscore.memory.copies.snapshot_form import MAX_BYTES as SNAPSHOT_BYTES
        from xscore.pipeline.receipt import to_json

        if snapshot:
            restored = store.restore(_snapshot(store, _read(file, SNAPSHOT_BYTES)))
            if flags.terminal.as_json:
                print_json(to_json(restored))
            else:
                echo(
                    f"put back {counted(restored.added + restored.changed, 'memory', 'memories')},"
                    f" {restored.unchanged:,} were as they are; {counted(restored.edges, 'edge')},"
                    f" {counted(restored.retrievals, 'look')}, {counted(restored.repository_maps, 'map')}"
                )
                _note_forgotten(restored.forgotten, flags.terminal)
            return
        imported = import_lines(store, _read(file, MAX_BYTES), users=layer is not None)
        if flags.terminal.as_json:
            print_json(to_json(imported))
            return
        echo(f"imported {counted(len(imported.added), 'memory', 'memories')}, {imported.known:,} known already")
        if imported.kept:
            flags.terminal.note(f"yours stay as they are, the file has them otherwise: {', '.join(imported.kept)}")
        if imported.refused:
            refused = counted(imported.refused, "line")
            flags.terminal.note(f"{refused} of your own layer refused: they would hold everywhere; say `--layer user`")
        _note_forgotten(imported.forgotten, flags.terminal)
        if imported.redacted:
            flags.terminal.note(f"{left_out(imported.redacted)}: a memory keeps none")

    in_store(work, flags)


def _snapshot(store: "Store", data: bytes) -> Snapshot:
    from xscore.memory.copies.snapshot_form import snapshot_from_json

    return snapshot_from_json(data, secret=store.secret, now=store.clock())


def _note_forgotten(count: int, terminal: Terminal) -> None:
    if count:
        terminal.note(f"{count:,} were erased here to be forgotten, and stay so")


def _read(file: str, most: int) -> bytes:
    """Read at most one byte more than may be, so that what is too large is refused and not swallowed."""
    try:
        if file == "-":
            return sys.stdin.buffer.read(most + 1)
        with Path(file).open("rb") as opened:
            return opened.read(most + 1)
    except OSError as error:
        raise UsageError(
            f"{one_line(file)} cannot be read: {error.strerror}", hint="Name a readable file, or - for standard input."
        ) from error
