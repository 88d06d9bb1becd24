"""Which memories a command means: `--layer`, `--scope`, `--kind`, `--all`, and how a text is given.

It turns options into a `Choice` and prints nothing. `--scope user` and `--scope project` are the layers of that name,
as people say it; the other scopes are how far a memory reaches.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from xscore.cli.options import Flags, Option
from xscore.platform.errors import UsageError
from xscore.records import LAYERS_BY_KIND, Kind, Layer, MemoryScope, MemoryStatus

if TYPE_CHECKING:
    from xscore.records import Citation
    from xscore.store.lookup import MemoryFilter
    from xscore.store.store import Store


SCOPES = tuple(map(str, (*MemoryScope, "user", "project")))
_LAYER_OF_SCOPE = {"user": Layer.USER, "project": Layer.PROJECT}
_MOST_BYTES = 4_000_000
"""Of a text on standard input; more is no statement, and is refused before it is read to its end."""

NARROWING: dict[str, Option] = {
    "layer": click.option(
        "--layer", type=click.Choice(list(map(str, Layer))), multiple=True, help="Only this layer. Repeatable."
    ),
    "scope": click.option("--scope", type=click.Choice(SCOPES), multiple=True, help="Only this scope. Repeatable."),
    "kind": click.option(
        "--kind", metavar="KIND", type=click.Choice(list(map(str, Kind))), multiple=True, help="Only this kind."
    ),
}
CHOICE: dict[str, Option] = {
    **NARROWING,
    "everything": click.option("--all", "everything", is_flag=True, help="Superseded and archived ones too."),
}
STATED_KIND = click.Choice([str(kind) for kind in LAYERS_BY_KIND if kind is not Kind.FAILURE])
"""Failures are counted rather than said: `xscore failure add`."""
UNIT_INTERVAL = click.FloatRange(0, 1)


def choice_of(flags: Flags) -> "MemoryFilter":
    """Return what the options mean; several sorts narrow it down. A command that does not offer `--all` means all."""
    from xscore.store.lookup import LIVE_STATUSES, MemoryFilter

    given = flags.given
    words = set(given["scope"])
    rooms = {_LAYER_OF_SCOPE[word] for word in words if word in _LAYER_OF_SCOPE}
    named = set(map(Layer, given["layer"]))
    if named and rooms and not named & rooms:
        raise UsageError("--layer and --scope name different layers", hint="Give one of them.")
    return MemoryFilter(
        layers=tuple(named & rooms if named and rooms else named | rooms),
        scopes=tuple(MemoryScope(word) for word in words if word not in _LAYER_OF_SCOPE),
        kinds=tuple(map(Kind, given["kind"])),
        statuses=tuple(MemoryStatus) if given.get("everything", True) else LIVE_STATUSES,
    )


def is_narrow(flags: Flags) -> bool:
    """Whether the options leave something out: then nothing left is nothing matched, and else an empty store."""
    return any(flags.given[name] for name in NARROWING)


def read_text_argument(given: str) -> str:
    """Return a text of the command line; `-` is standard input."""
    if given != "-":
        return given.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    data = sys.stdin.buffer.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise UsageError("standard input holds too much for a memory", hint="Say what it comes to, in a few sentences.")
    return data.decode("utf-8", "replace")


def read_citations(store: "Store", spans: tuple[str, ...]) -> "tuple[Citation, ...]":
    """Read what `--cite` names, as it stands now."""
    from xscore.store.citations import parse_citation

    return tuple(parse_citation(store.root, span, connection=store.connection, base=Path.cwd()) for span in spans)
