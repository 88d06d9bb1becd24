"""`xscore decision`: record a decision with its reason, and list those in force. The words are `memory add`'s."""

from typing import TYPE_CHECKING

import click

from xscore.cli.memory_add import SAYING, say
from xscore.cli.memory_list import print_memories
from xscore.cli.opening import in_store
from xscore.cli.options import OUTPUT, Flags, options
from xscore.records import Kind

if TYPE_CHECKING:
    from xscore.memory.store import Store


@click.group()
def decision() -> None:
    """Record what was decided and why, and list it; every turn weighs decisions as prior context."""


@decision.command()
@click.argument("text")
@options(SAYING, OUTPUT)
def add(text: str, flags: Flags) -> None:
    """Record the decision TEXT (`-`: standard input), --because of what, and which --alternative was not taken."""
    say(text, Kind.DECISION, None, flags)


@decision.command("list")
@click.option("--all", "everything", is_flag=True, help="Superseded and archived ones too.")
@options(OUTPUT)
def list_decisions(everything: bool, flags: Flags) -> None:
    """List the decisions in force, newest first."""

    def work(store: "Store") -> None:
        from xscore.memory.evidence import refresh

        refresh(store.connection, store.root, now=store.clock())
        print_memories(store, store.governance.decisions(superseded=everything), flags.terminal)

    in_store(work, flags)
