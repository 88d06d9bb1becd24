"""`xscore status`: what the store of this repository holds."""

from typing import TYPE_CHECKING

import click

from xscore.cli.index import by_count
from xscore.cli.opening import in_pipeline, read_settings
from xscore.cli.options import OUTPUT, Flags, options
from xscore.cli.progress import Watch
from xscore.cli.terminal import echo, print_json
from xscore.pipeline.receipt import to_json
from xscore.records import StoreStatus
from xscore.safe_text import one_line
from xscore.wording import dollars, size

if TYPE_CHECKING:
    from xscore.pipeline.build import Pipeline


@click.command()
@options(OUTPUT)
def status(flags: Flags) -> None:
    """Show what the store of this repository holds: files, memories, judgments, turns, dollars spent."""
    terminal = flags.terminal
    watch = Watch(terminal)
    found = in_pipeline(_status, read_settings(flags), watch, make=False)
    if terminal.as_json:
        print_json(to_json(found))
    else:
        echo(page(found))


async def _status(pipeline: "Pipeline") -> StoreStatus:
    return pipeline.status()


def page(found: StoreStatus) -> str:
    """Show counts by layer, kind, language and relation, and what was spent."""
    trusted = " (not there yet)" if not found.bytes else "" if found.trusted else " (not trusted)"
    lines = [
        f"root       {one_line(found.root)}",
        f"store      {one_line(found.store)}  {size(found.bytes)}{trusted}",
        f"files      {found.files:,}",
        f"memories   {found.memories:,}",
        f"layers     {by_count(found.by_layer)}",
        f"kinds      {by_count(found.by_kind)}",
        f"languages  {by_count(found.by_language)}",
        f"edges      {by_count(found.edges)}",
        f"judgments  {found.judgments:,}",
        f"turns      {found.turns:,}" + (f", last {found.last_turn}" if found.last_turn else ""),
        f"spent      {dollars(found.spent_usd, estimated=found.spent_estimated)}",
    ]
    if not found.files:
        lines.append("\nNothing is indexed yet: run `xscore index`.")
    return "\n".join(lines)
