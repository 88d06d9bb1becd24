"""`xscore graph`: what a file or entity depends on, what depends on it, what is tied to it.

It asks the store as it is and indexes nothing. Trade-off: after an edit the answer is that of the last index run.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from xscore.cli.opening import in_store
from xscore.cli.options import OUTPUT, Flags, as_listed, options
from xscore.cli.terminal import bold, echo, faint, print_json, tell_people
from xscore.safe_text import one_line
from xscore.wording import counted

if TYPE_CHECKING:
    from xscore.memory.links.graph import Graph, Reached
    from xscore.memory.store import Store

Ask = Callable[["Graph", str, int | None], "tuple[Reached, ...]"]

_INCOMING = {"calls": "calls it", "imports": "imports it", "tests": "tests it", "references": "names it"}
_OUTGOING = {"calls": "called", "imports": "imported", "tests": "tested", "references": "named"}
DEPTH = {"depth": click.option("--depth", metavar="N", type=click.IntRange(min=1), help="Steps at most.")}
PLACE = click.argument("path", metavar="PATH")


@click.group()
def graph() -> None:
    """Ask the links between files, entities and what is remembered of them.

    PATH is a file, `path::entity`, or the id of a memory. The answer is that of the last index run.
    """


@graph.command()
@PLACE
@options(DEPTH, OUTPUT)
def related(path: str, flags: Flags) -> None:
    """List what is tied to PATH in either direction, one step unless --depth says more."""
    _answer(path, flags, lambda links, name, depth: links.related_files(name, **_steps(depth)))


@graph.command()
@PLACE
@options(DEPTH, OUTPUT)
def deps(path: str, flags: Flags) -> None:
    """List what PATH calls, imports or tests, and what that does in turn, in five steps at most."""
    _answer(path, flags, lambda links, name, depth: links.dependency_chain(name, **_steps(depth)))


@graph.command()
@PLACE
@options(DEPTH, OUTPUT)
def affected(path: str, flags: Flags) -> None:
    """List what a change of PATH may break: what calls, imports or tests it, in five steps at most."""
    _answer(path, flags, lambda links, name, depth: links.affected_files(name, **_steps(depth)))


def _steps(depth: int | None) -> dict[str, int]:
    return {} if depth is None else {"depth": depth}


def _answer(path: str, flags: Flags, ask: Ask) -> None:
    in_store(lambda store: _ask(store, path, flags, ask), flags)


def _ask(store: "Store", path: str, flags: Flags, ask: Ask) -> None:
    from xscore.pipeline.receipt import SCHEMA, plain

    links, terminal = store.graph, flags.terminal
    known = (form for form in _forms(path, store.root.path) if links.names.start(form))
    name = next(known, as_listed(path).removeprefix("./"))
    found = ask(links, name, flags.given["depth"])
    if terminal.as_json:
        print_json({"schema": SCHEMA, "of": name, "found": [plain(one) for one in found]})
    elif found:
        echo("\n".join(_line(one) for one in found))
    if not terminal.as_json and not terminal.quiet:
        tell_people(faint(f"{one_line(name)}: {counted(len(found), 'tie')}"))


def _forms(path: str, root: Path) -> list[str]:
    """What PATH may mean: from the working folder, from the root, as it stands."""
    place, colons, entity = path.partition("::")
    if place.startswith("m_") and not colons:
        return [path]
    real = Path(os.path.normpath(Path.cwd() / place))
    from_here = [os.path.relpath(real, root)] if place else []
    forms = [*from_here, os.path.normpath(place), place]
    return [as_listed(form) + colons + entity for form in dict.fromkeys(forms)]


def _line(one: "Reached") -> str:
    """One end: how far, what, by which tie."""
    words = _INCOMING if one.is_incoming else _OUTGOING
    name = f"{one.path}::{one.entity}" if one.path and one.entity else one.path or f"{one.kind} “{one.entity}”"
    ties = f" ×{one.ties}" if one.ties > 1 else ""
    known = f"  {one.id}" if not one.path else ""
    return f"{one.distance}  {bold(one_line(name))}  {faint(words.get(one.relation, one.relation) + ties + known)}"
