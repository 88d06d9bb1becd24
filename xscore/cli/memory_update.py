"""`xscore memory update`: change a memory by exact id; what is not named stays as it is."""

from typing import TYPE_CHECKING

import click

from xscore.cli.memory_choice import SHARE, cited, text_of
from xscore.cli.opening import in_store
from xscore.cli.options import OUTPUT, Flags, options
from xscore.errors import UsageError

if TYPE_CHECKING:
    from xscore.memory.store import Store


@click.command()
@click.argument("memory_id", metavar="ID")
@click.option("--text", help="Its words, anew; `-`: standard input.")
@click.option("--title", metavar="LINE", help="One line for lists; '' takes the text's first.")
@click.option(
    "--key", metavar="KEY", help="What it is about. Another key is another memory, which supersedes this one."
)
@click.option("--because", metavar="WHY", help="Why it holds; '' takes it away.")
@click.option(
    "--alternative", metavar="TEXT", multiple=True, help="What was not taken, in place of all before; '': nothing."
)
@click.option("--link", metavar="REF", multiple=True, help="What it speaks of, in place of all before; '': nothing.")
@click.option(
    "--cite", metavar="PATH[:LINES]", multiple=True, help="Code it rests on, in place of all before; '': none."
)
@click.option("--importance", type=SHARE, help="0 to 1.")
@click.option("--confidence", type=SHARE, help="0 to 1.")
@options(OUTPUT)
def update(
    memory_id: str,
    *,
    text: str | None,
    title: str | None,
    key: str | None,
    because: str | None,
    alternative: tuple[str, ...],
    link: tuple[str, ...],
    cite: tuple[str, ...],
    importance: float | None,
    confidence: float | None,
    flags: Flags,
) -> None:
    """Change the memory with this exact ID. It keeps its id and history; a changed text is judged anew."""

    def work(store: "Store") -> None:
        from xscore.cli.memory_page import told
        from xscore.memory.remembering import Change, change

        wanted = Change(
            text=None if text is None else text_of(text),
            title=title,
            key=key,
            because=because,
            alternatives=alternative or None,
            links=link or None,
            importance=importance,
            confidence=confidence,
        )
        if wanted.is_empty and not cite:
            raise UsageError("nothing is to be changed", hint="Name --text, --title, --key, --because, --cite, …")
        spans = cited(store, tuple(filter(None, cite))) if cite else None
        told(store, change(store, memory_id, wanted, citations=spans), flags.terminal)

    in_store(work, flags)
