"""`xscore memory add`: say something to be remembered. `decision add` is the same for decisions."""

from typing import TYPE_CHECKING

import click

from xscore.cli.memory_choice import SAID_KIND, SHARE, cited, text_of
from xscore.cli.opening import in_store
from xscore.cli.options import OUTPUT, Flags, Option, options
from xscore.records import Kind, Layer, Source, Statement

if TYPE_CHECKING:
    from xscore.memory.store import Store

SAYING: dict[str, Option] = {
    "title": click.option("--title", metavar="LINE", default="", help="One line for lists; else the text's first."),
    "key": click.option(
        "--key", metavar="KEY", default="", help="What it is about: it takes the place of the memory with the same key."
    ),
    "because": click.option("--because", metavar="WHY", default="", help="Why it holds; the judge reads it too."),
    "alternative": click.option(
        "--alternative", metavar="TEXT", multiple=True, help="What was weighed and not taken. Repeatable."
    ),
    "link": click.option("--link", metavar="REF", multiple=True, help="A path, URL or memory id it speaks of."),
    "cite": click.option(
        "--cite", metavar="PATH[:LINES]", multiple=True, help="Code it rests on: it is stale when that changes."
    ),
    "importance": click.option("--importance", type=SHARE, default=None, help="0 to 1; below 0.2 it is soon dropped."),
    "inferred": click.option("--inferred", is_flag=True, help="It was concluded, not said: less confidence."),
}
_DEFAULT_OF = {Layer.GOVERNANCE: Kind.DECISION, Layer.USER: Kind.PREFERENCE}


@click.command()
@click.argument("text")
@click.option("--kind", metavar="KIND", type=SAID_KIND, help=f"{', '.join(SAID_KIND.choices)}; context if not given.")
@click.option("--layer", type=click.Choice(["project", "user", "governance"]), help="Where it stands, if not as usual.")
@options(SAYING, OUTPUT)
def add(text: str, kind: str | None, layer: str | None, flags: Flags) -> None:
    """Remember TEXT (`-`: standard input). The same words twice are one memory, with more evidence.

    Decisions go to the governance layer, preferences to your own, all else to the project's. Failures are counted:
    `xscore failure add`.
    """
    where = Layer(layer) if layer else None
    sort = Kind(kind) if kind else _DEFAULT_OF.get(where, Kind.CONTEXT) if where else Kind.CONTEXT
    say(text, sort, where, flags)


def say(text: str, kind: Kind, layer: Layer | None, flags: Flags) -> None:
    """Keep a statement made of the options, and tell what became of it."""
    given = flags.given

    def work(store: "Store") -> None:
        from xscore.cli.memory_page import told
        from xscore.memory.remembering import remember
        from xscore.memory.said_layers import starting_confidence

        source = Source.INFERRED if given["inferred"] else Source.EXPLICIT
        statement = Statement(
            text=text_of(text),
            kind=kind,
            layer=layer,
            title=given["title"],
            key=given["key"],
            because=given["because"],
            alternatives=given["alternative"],
            links=given["link"],
            importance=given["importance"],
            confidence=starting_confidence(store, source),
            source=source,
        )
        told(store, remember(store, statement, citations=cited(store, given["cite"])), flags.terminal)

    in_store(work, flags)
