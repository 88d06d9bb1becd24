"""`xscore memory feedback`: say of a memory that it is right, wrong, or that you did otherwise."""

import click

from xscore.cli.opening import in_store
from xscore.cli.options import OUTPUT, Flags, options
from xscore.cli.terminal import echo, print_json
from xscore.learning.feedback import Signal, give_feedback
from xscore.pipeline.receipt import to_json
from xscore.safe_text import one_line

GIVEN = (Signal.ACCEPT, Signal.REJECT, Signal.OVERRIDE)
"""Signals that a person gives; adoption is seen."""


@click.command()
@click.argument("memory_id", metavar="ID")
@click.argument("signal", metavar="SIGNAL", type=click.Choice([str(signal) for signal in GIVEN]))
@options(OUTPUT)
def feedback(memory_id: str, signal: str, flags: Flags) -> None:
    """Move the confidence of the memory ID: it was right, wrong, or known and overridden.

    The amounts are `memory.feedback`; confidence stays between 0 and 1.
    """
    terminal = flags.terminal
    found = in_store(lambda store: give_feedback(store, memory_id, Signal(signal), now=store.clock()), flags)
    if terminal.as_json:
        print_json(to_json(found))
    else:
        echo(
            f"{found.id}  {one_line(found.title)}\nconfidence {found.before:.2f} -> {found.after:.2f} ({found.signal})"
        )
