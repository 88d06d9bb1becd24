"""`xscore memory stats`: what each layer holds beside code, against its caps, and how much of it is used."""

from typing import TYPE_CHECKING

import click

from xscore.cli.opening import in_store
from xscore.cli.options import OUTPUT, Flags, options
from xscore.cli.session_words import ago
from xscore.cli.terminal import echo, print_json
from xscore.wording import size

if TYPE_CHECKING:
    from xscore.memory.store import Store
    from xscore.records import LayerStats

_HEAD = f"{'layer':<11}{'rows':>8}{'of':>9}{'bytes':>10}{'of':>9}{'uses':>7}{'unused':>8}  oldest     newest"


@click.command()
@options(OUTPUT)
def stats(flags: Flags) -> None:
    """Count rows and bytes of each layer against its caps, with age and use. Memories of files are not counted."""

    def work(store: "Store") -> None:
        from xscore.memory.stats import layer_stats
        from xscore.pipeline.receipt import SCHEMA, plain

        found = layer_stats(store)
        if flags.terminal.as_json:
            print_json({"schema": SCHEMA, "layers": [plain(one) for one in found]})
        else:
            echo("\n".join([_HEAD, *(line(one, now=store.clock()) for one in found)]))

    in_store(work, flags)


def line(one: "LayerStats", *, now: float) -> str:
    """One layer; `-` where there is no cap, or nothing to be of an age."""
    ages = [ago(at, now) if one.rows else "-" for at in (one.oldest_at, one.newest_at)]
    caps = [f"{one.max_rows:,}" if one.max_rows else "-", size(one.max_bytes) if one.max_bytes else "-"]
    return (
        f"{one.layer:<11}{one.rows:>8,}{caps[0]:>9}{size(one.bytes):>10}{caps[1]:>9}{one.uses:>7,}{one.never_used:>8,}"
        f"  {ages[0]:<10} {ages[1]}"
    )
