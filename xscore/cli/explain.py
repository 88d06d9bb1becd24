"""`xscore explain`: why one memory was or was not chosen in one turn."""

import click

from xscore.cli.opening import in_pipeline, read_settings
from xscore.cli.options import OUTPUT, Flags, as_listed, options
from xscore.cli.progress import Watch
from xscore.cli.terminal import bold, echo, print_json
from xscore.pipeline.receipt import to_json
from xscore.records import Explanation
from xscore.safe_text import one_line
from xscore.wording import place


@click.command()
@click.argument("memory")
@click.option("--turn", "turn", metavar="T", default="", help="The turn to look into; the latest one if not given.")
@options(OUTPUT)
def explain(memory: str, turn: str, flags: Flags) -> None:
    """Say why MEMORY was or was not chosen, in numbers and words.

    MEMORY is an id (m_…) or `path::entity`, as the listings show them. Nothing is sent anywhere.
    """
    terminal = flags.terminal
    watch = Watch(terminal)
    found = in_pipeline(
        lambda open_: open_.explain(as_listed(memory), turn_id=as_listed(turn)),
        read_settings(flags),
        watch,
        make=False,
    )
    if terminal.as_json:
        print_json(to_json(found))
    else:
        echo(page(found))


def page(found: Explanation) -> str:
    """Show scores, boosts and reason, then the words."""
    name = one_line(f"{found.path}::{found.entity}" if found.entity else found.path or found.id)
    lines = [f"{bold(name)}  {found.id}", f"turn       {found.turn_id}  {one_line(found.task)}"]
    lines.append(
        f"outcome    {found.outcome.replace('_', ' ')}" + (f" ({one_line(found.cause)})" if found.cause else "")
    )
    memory = found.memory
    if memory is not None:
        lines.append(f"place      {place(memory.path, memory.start_line, memory.end_line)}")
        lines.append(f"raw score  {memory.raw_score:.2f}" + (" (cached)" if memory.cached else ""))
        lines.extend(
            f"boost      +{boost.amount:.2f} {boost.name}: {one_line(boost.because)}" for boost in memory.boosts
        )
        lines.append(f"score      {memory.score:.2f}, threshold {found.threshold:g}, at most {found.top_k} kept")
        if memory.reason:
            lines.append(f"reason     {one_line(memory.reason)}")
    if found.rank is not None:
        lines.append(f"rank       {found.rank}")
    return "\n".join([*lines, "", one_line(found.words)])
