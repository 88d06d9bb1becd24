"""`xscore graph`: what a file or a function depends on, and what depends on it.

It reads the store and indexes nothing. Trade-off: after an edit its answer is that of the last
index run.
"""

from typing import Any

import click

from xscore.cli.flags import Flags, command
from xscore.cli.options import COUNT
from xscore.cli.settings_and_store import opened_store, read_settings
from xscore.cli.text_layout import bold, faint
from xscore.pipeline.json_form import record_json
from xscore.platform.errors import ExitCode, UsageError
from xscore.platform.paths import decode_path_argument
from xscore.platform.text import counted, format_place, one_line
from xscore.store.graph import ReachedNode, ends_named, entity_names, follow_links
from xscore.store.naming import find_file, name_forms, unknown_name
from xscore.store.purposes import file_purposes
from xscore.store.slices import Slice, slices_of_repository
from xscore.store.store import Store

SLICES = "slices"
_INCOMING = {"calls": "calls", "imports": "imports", "tests": "tests", "references": "names"}
_OUTGOING = {"calls": "called", "imports": "imported", "tests": "tested", "references": "named"}
_NOTHING = {
    "related": "the index has no links from or to {}",
    "deps": "the index has nothing that {} calls, imports or tests",
    "affected": "the index has nothing that calls, imports or tests {}",
    "callers": "no call to {} is in the index; it may be called through a value or an interface",
    "callees": "no call from {} is in the index; it may call through a value or an interface",
}


@command()
@click.argument(
    "question",
    metavar="related|deps|affected|callers|callees|slices",
    type=click.Choice([*_NOTHING, SLICES]),
)
@click.argument("path", metavar="[NAME]", default="")
@click.option(
    "--depth",
    metavar="N",
    type=COUNT,
    help="Follow at most N links; default 5 for deps and affected, else 1.",
)
def graph(question: str, path: str, depth: int | None, flags: Flags) -> int:
    """Follow the links of NAME: a file, `path:lines`, `path::entity`, `Class.method`, or the ID of
    a memory.

    related: what is linked to it in either direction. deps: what it calls, imports or tests.
    affected: what a change to it may break. callers: the functions and tests that call it. callees:
    the functions that it calls.

    slices: the groups of files that link to each other and change together; where NAME is a file,
    only its group.
    """
    if question == SLICES:
        return _print_slices(path, flags)
    if not path:
        raise UsageError(
            f"`xscore graph {question}` needs a name", hint="Name a file or a function."
        )
    _print_links(question, path, depth, flags)
    return ExitCode.DONE


def _print_links(question: str, path: str, depth: int | None, flags: Flags) -> None:
    with opened_store(flags, make=False) as store:
        indexed_forms = (
            form
            for form in name_forms(path, store.root.path)
            if ends_named(store.connection, form)
        )
        name = next(indexed_forms, decode_path_argument(path).removeprefix("./"))
        reached = follow_links(store.connection, question, name, depth=depth)
        starts = ends_named(store.connection, name, question)
        # With one start the line says "it"; with several, which of them.
        if len(starts) > 1:
            names = entity_names(store.connection, starts)
        else:
            names = {}
        purposes = file_purposes(store.connection, [node.path for node in reached if node.path])
    body = {
        "of": name,
        "found": [record_json(reached_node) for reached_node in reached],
        "purposes": purposes,
    }
    names |= {
        reached_node.id: reached_node.entity or reached_node.path for reached_node in reached
    }
    # Where everything is one step away, saying so on each line tells nothing.
    shows_steps = any(node.distance > 1 for node in reached)
    lines = []
    unshown = dict(purposes)
    for reached_node in reached:
        via = names.get(reached_node.via, "")
        lines.append(_link_line(reached_node, via=via, shows_steps=shows_steps))
        # Once for a file, at what is reached of it first.
        purpose = unshown.pop(reached_node.path, "")
        if purpose:
            lines.append(faint(f"    {one_line(purpose)}"))
    flags.terminal.print_result(
        body, "\n".join(lines), none=_NOTHING[question].format(one_line(name))
    )
    if reached:
        flags.terminal.lines(faint(f"{one_line(name)}: {len(reached):,} found"))


def _print_slices(path: str, flags: Flags) -> int:
    settings = read_settings(flags).settings
    with opened_store(flags, make=False, settings=settings) as store:
        slices = slices_of_repository(
            store.connection, store.root.path, uses_git=settings.index.git
        )
        file = _named_file(store, path) if path else ""
    if file:
        slices = tuple(slice_ for slice_ in slices if file in slice_.files)
    body: dict[str, Any] = {"slices": []}
    # If one slice was asked for, its files are the answer.
    shows_files = bool(file) or flags.terminal.verbose
    lines: list[str] = []
    for slice_ in slices:
        body["slices"].append(record_json(slice_))
        lines.append(_slice_line(slice_, shows_files=shows_files))
    none = "no files are linked: run `xscore index`"
    if file:
        none = f"{one_line(file)} is not in a slice: nothing links to it, or too little"
    flags.terminal.print_result(body, "\n".join(lines), none=none)
    return ExitCode.DONE if slices else ExitCode.PARTLY


def _named_file(store: Store, path: str) -> str:
    """Return the indexed file that the user means. Raises the error of an unknown name."""
    for form in name_forms(path, store.root.path):
        file = find_file(store.connection, form)
        if file:
            return file
    raise unknown_name(store.connection, path)


def _slice_line(slice_: Slice, *, shows_files: bool) -> str:
    folder = one_line(slice_.folder) or "."
    head = f"{bold(folder)}  {counted(len(slice_.files), 'file')}  {faint('around')} "
    lines = [head + one_line(slice_.hub)]
    if slice_.purpose:
        lines.append(faint(f"    {one_line(slice_.purpose)}"))
    if shows_files:
        lines += [f"  {one_line(path)}" for path in slice_.files[1:]]
    return "\n".join(lines)


def _link_line(node: ReachedNode, *, via: str, shows_steps: bool) -> str:
    """Say where a node is and how it is linked.

    via: the one nearer to the start that it is linked to, or empty for the start.
    """
    if node.is_incoming:
        link = f"{_INCOMING.get(node.relation, node.relation)} {via or 'it'}"
    else:
        link = f"{_OUTGOING.get(node.relation, node.relation)} by {via or 'it'}"
    name = node.path or f"{node.kind} “{node.entity}”"
    if node.path and node.entity:
        name = f"{format_place(node.path, node.start_line, node.end_line)}  {node.entity}"
    ties = f" ×{node.ties}" if node.ties > 1 and not via else ""
    identifier = f"  {node.id}" if not node.path else ""
    steps = ""
    if shows_steps:
        steps = counted(node.distance, "step").ljust(len("2 steps")) + "  "
    return f"{steps}{bold(one_line(name))}  {faint(one_line(link) + ties + identifier)}"
