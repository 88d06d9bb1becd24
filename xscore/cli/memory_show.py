"""`xscore memory show`: everything about some memories, by exact id."""

from typing import TYPE_CHECKING

import click

from xscore.cli.opening import in_store
from xscore.cli.options import OUTPUT, Flags, options
from xscore.cli.terminal import echo, print_json

if TYPE_CHECKING:
    from xscore.memory.store import Store


@click.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@options(OUTPUT)
def show(ids: tuple[str, ...], flags: Flags) -> None:
    """Show all that is known of the memories with these exact IDs: text, reasons, source, evidence, use."""

    def work(store: "Store") -> None:
        from xscore.cli.memory_page import as_json, page
        from xscore.memory.evidence import citations, refresh
        from xscore.memory.lookup import all_of
        from xscore.pipeline.receipt import SCHEMA

        refresh(store.connection, store.root, now=store.clock())
        found = all_of(store, ids)
        cited = citations(store.connection, [memory.id for memory in found])
        if flags.terminal.as_json:
            told = [as_json(memory, cited.get(memory.id, ())) for memory in found]
            print_json({"schema": SCHEMA, "memories": told})
        else:
            pages = (page(memory, cited.get(memory.id, ()), now=store.clock()) for memory in found)
            echo("\n\n".join(pages))

    in_store(work, flags)
