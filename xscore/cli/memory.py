"""`xscore memory add | update | list | show | stats`: what is remembered beside code, stated and looked at by people.

It turns options into a statement or a filter; what is kept is decided in the store. `--scope user` and `--scope
project` are the layers of that name, as people say it; the other scopes are how far a memory reaches.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xscore.cli.memory_text import (
    failure_json,
    memory_json,
    print_remembered,
    render_failure,
    render_memory,
    render_memory_line,
)
from xscore.cli.opening import in_store
from xscore.cli.options import COUNT, Flags, Option, command, options
from xscore.cli.phrases import format_age
from xscore.cli.terminal import Terminal, render_table
from xscore.pipeline.json_form import record_json
from xscore.platform.errors import NothingMatched, UsageError
from xscore.platform.text import format_bytes
from xscore.records import LAYERS_BY_KIND, Kind, Layer, LayerStats, MemoryScope, MemorySource, MemoryStatus, Statement

if TYPE_CHECKING:
    from xscore.records import Citation, Memory
    from xscore.store.lookup import MemoryFilter
    from xscore.store.store import Store

MEMORIES_SHOWN = 50
_MOST_BYTES = 4_000_000
"""Of a text on standard input."""
_LAYER_OF_SCOPE = {"user": Layer.USER, "project": Layer.PROJECT}
_DEFAULT_KINDS = {Layer.GOVERNANCE: Kind.DECISION, Layer.USER: Kind.PREFERENCE}
_STATED_KINDS = [str(kind) for kind in LAYERS_BY_KIND]
_UNIT_INTERVAL = click.FloatRange(0, 1)

NARROWING: dict[str, Option] = {
    "layer": click.option(
        "--layer", type=click.Choice(list(map(str, Layer))), multiple=True, help="Only this layer. Repeatable."
    ),
    "scope": click.option(
        "--scope",
        type=click.Choice([*map(str, MemoryScope), *_LAYER_OF_SCOPE]),
        multiple=True,
        help="Only this scope. Repeatable.",
    ),
    "kind": click.option(
        "--kind", metavar="KIND", type=click.Choice(list(map(str, Kind))), multiple=True, help="Only this kind."
    ),
}
CHOICE: dict[str, Option] = {
    **NARROWING,
    "everything": click.option("--all", "everything", is_flag=True, help="Superseded and archived ones too."),
}
STATEMENT: dict[str, Option] = {
    "title": click.option("--title", metavar="LINE", help="One line for lists; default: the first line of the text."),
    "key": click.option("--key", metavar="KEY", help="What it is about; replaces the memory with the same key."),
    "because": click.option("--because", metavar="WHY", help="Why it holds; the judge reads it too."),
    "alternative": click.option(
        "--alternative", metavar="TEXT", multiple=True, help="What was considered and not taken. Repeatable."
    ),
    "link": click.option("--link", metavar="REF", multiple=True, help="A path, URL or memory ID. Repeatable."),
    "cite": click.option(
        "--cite", metavar="PATH[:LINES]", multiple=True, help="Code it rests on: stale when that changes."
    ),
    "importance": click.option("--importance", type=_UNIT_INTERVAL, help="0 to 1; below 0.2 it is soon dropped."),
    "fix": click.option("--fix", metavar="HOW", help="Of a failure: how it was fixed."),
}


def choice_of(flags: Flags) -> "MemoryFilter":
    """Return the memories that the options mean; a command that does not offer `--all` means all."""
    from xscore.store.lookup import LIVE_STATUSES, MemoryFilter

    given = flags.given
    words = set(given["scope"])
    of_scope = {_LAYER_OF_SCOPE[word] for word in words if word in _LAYER_OF_SCOPE}
    named = set(map(Layer, given["layer"]))
    if named and of_scope and not named & of_scope:
        raise UsageError("--layer and --scope name different layers", hint="Give one of them.")
    return MemoryFilter(
        layers=tuple(named & of_scope if named and of_scope else named | of_scope),
        scopes=tuple(MemoryScope(word) for word in words if word not in _LAYER_OF_SCOPE),
        kinds=tuple(map(Kind, given["kind"])),
        statuses=tuple(MemoryStatus) if given.get("everything", True) else LIVE_STATUSES,
    )


def is_narrow(flags: Flags) -> bool:
    """Whether the options leave something out: then nothing left is nothing matched, and else an empty store."""
    return any(flags.given[name] for name in NARROWING)


def _read_text(given: str) -> str:
    """Return a text of the command line; `-` is standard input."""
    if given != "-":
        return given.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    data = sys.stdin.buffer.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise UsageError("standard input is too long for a memory", hint="Sum it up in a few sentences.")
    return data.decode("utf-8", "replace")


def _read_citations(store: "Store", spans: Sequence[str]) -> "tuple[Citation, ...]":
    from xscore.store.citations import parse_citation

    return tuple(parse_citation(store.root, span, connection=store.connection, base=Path.cwd()) for span in spans)


@command()
@click.argument("text")
@click.option("--kind", metavar="KIND", type=click.Choice(_STATED_KINDS), help=f"{', '.join(_STATED_KINDS)}.")
@click.option("--layer", type=click.Choice(["project", "user", "governance"]), help="Default: the layer of the kind.")
@click.option("--inferred", is_flag=True, help="It was concluded, not stated: less confidence.")
@click.option("--occurrence", metavar="NAME", default="", help="Of a failure: count this occurrence once.")
@options(STATEMENT)
def add_memory(
    text: str, *, kind: str | None, layer: str | None, inferred: bool, occurrence: str, flags: Flags
) -> None:
    """Remember TEXT (`-`: standard input). The same words twice are one memory, with more evidence.

    Decisions go to the governance layer, preferences to your own, all else to the project's; without --kind it is
    context. Of a failure TEXT is the error as it was shown: errors that differ in numbers, addresses, times and folders
    alone are the same failure, which is counted, and often enough becomes a pattern to avoid.
    """
    where = Layer(layer) if layer else None
    sort = Kind(kind) if kind else _DEFAULT_KINDS.get(where, Kind.CONTEXT) if where else Kind.CONTEXT
    given = flags.given
    if sort is Kind.FAILURE:
        _refuse_for_failures(flags, layer, inferred=inferred)
        in_store(lambda store: _add_failure(store, text, occurrence, flags), flags)
        return
    if given["fix"] or occurrence:
        raise UsageError("--fix and --occurrence are for failures", hint="Add --kind failure.")

    def work(store: "Store") -> None:
        from xscore.store.remembering import remember

        statement = Statement(
            text=_read_text(text),
            kind=sort,
            layer=where,
            title=given["title"] or "",
            key=given["key"] or "",
            because=given["because"] or "",
            alternatives=given["alternative"],
            links=given["link"],
            importance=given["importance"],
            confidence=store.settings.inferred_confidence if inferred else 1.0,
            source=MemorySource.INFERRED if inferred else MemorySource.EXPLICIT,
        )
        remembered = remember(store, statement, citations=_read_citations(store, given["cite"]))
        print_remembered(store, remembered, flags.terminal)

    in_store(work, flags)


def _refuse_for_failures(flags: Flags, layer: str | None, *, inferred: bool) -> None:
    own = ("title", "key", "alternative", "link", "cite", "importance")
    given = [f"--{name}" for name in own if flags.given[name] not in (None, ())]
    given += ["--layer"] * bool(layer) + ["--inferred"] * inferred
    if given:
        raise UsageError(f"a failure takes no {given[0]}", hint="It takes --because, --fix and --occurrence.")


def _add_failure(store: "Store", text: str, occurrence: str, flags: Flags) -> None:
    from xscore.store.failures import record_failure

    given = flags.given
    found = record_failure(
        store,
        text=_read_text(text),
        because=given["because"] or "",
        resolution=given["fix"] or "",
        occurrence=occurrence,
    )
    flags.terminal.print_result(failure_json(found), lambda _: render_failure(found))


@command()
@click.argument("memory_id", metavar="ID")
@click.option("--text", help="New words; `-`: standard input.")
@click.option("--confidence", type=_UNIT_INTERVAL, help="0 to 1.")
@options(STATEMENT)
def update_memory(memory_id: str, *, text: str | None, confidence: float | None, flags: Flags) -> None:
    """Change the memory with this exact ID. It keeps its ID and history; a changed text is judged again.

    What you do not name stays. '' clears a title, a reason, or a list; another key makes another memory, which
    supersedes this one. --fix says how a failure was fixed, also in its pattern.
    """

    def work(store: "Store") -> None:
        from xscore.store.failures import resolve_failure
        from xscore.store.remembering import MemoryChange
        from xscore.store.remembering import update_memory as change_memory

        given = flags.given
        change = MemoryChange(
            text=None if text is None else _read_text(text),
            title=given["title"],
            key=given["key"],
            because=given["because"],
            alternatives=given["alternative"] or None,
            links=given["link"] or None,
            importance=given["importance"],
            confidence=confidence,
        )
        changes = not change.is_empty or bool(given["cite"])
        if given["fix"] is not None:
            if changes:
                raise UsageError("--fix stands alone", hint="Change the rest with another `xscore memory update`.")
            fixed = resolve_failure(store, memory_id, _read_text(given["fix"]))
            flags.terminal.print_result(failure_json(fixed), lambda _: render_failure(fixed))
            return
        if not changes:
            raise UsageError("nothing is to be changed", hint="Name --text, --title, --key, --because, --cite, …")
        spans = _read_citations(store, tuple(filter(None, given["cite"]))) if given["cite"] else None
        print_remembered(store, change_memory(store, memory_id, change, citations=spans), flags.terminal)

    in_store(work, flags)


@command()
@click.option("--limit", metavar="N", type=COUNT, help=f"Only the newest N; {MEMORIES_SHOWN}, or all with --json.")
@options(CHOICE)
def list_memories(limit: int | None, flags: Flags) -> int:
    """List what is remembered beside code. Name `--layer graph` or `vector` for the memories of files.

    Exit code 1 where --layer, --scope or --kind leave nothing; an empty store is no error.
    """
    choice = choice_of(flags)
    any_there = in_store(lambda store: _print_chosen(store, choice, flags.terminal, limit=limit), flags)
    return NothingMatched.exit_code if is_narrow(flags) and not any_there else 0


def _print_chosen(store: "Store", choice: "MemoryFilter", terminal: Terminal, *, limit: int | None) -> bool:
    """Print the chosen memories, of more than `limit` the newest; whether there are any."""
    from xscore.store.evidence import refresh_evidence
    from xscore.store.lookup import filter_memories, newest_memories

    refresh_evidence(store.connection, store.root, now=store.clock())
    found = filter_memories(store, choice)
    shown = newest_memories(found, limit or (len(found) if terminal.as_json else MEMORIES_SHOWN))
    if shown or terminal.as_json:
        now = store.clock()
        terminal.print_result(
            _memories_json(store, shown), lambda _: "\n".join(render_memory_line(memory, now=now) for memory in shown)
        )
    else:
        terminal.note("nothing like that is remembered; `xscore memory stats` counts what is")
    if len(shown) < len(found):
        terminal.note(f"{len(found) - len(shown):,} older ones are not shown: `--limit {len(found)}` shows all")
    return bool(found)


def _memories_json(store: "Store", found: "Sequence[Memory]") -> dict[str, Any]:
    from xscore.store.evidence import citations_of

    cited = citations_of(store.connection, [memory.id for memory in found])
    return {"memories": [memory_json(memory, cited.get(memory.id, ())) for memory in found]}


@command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@options()
def show_memories(ids: tuple[str, ...], flags: Flags) -> None:
    """Show all that is known of the memories with these exact IDs: text, reasons, source, evidence, use."""

    def work(store: "Store") -> None:
        from xscore.store.evidence import citations_of, refresh_evidence
        from xscore.store.lookup import memories_by_id

        now = store.clock()
        refresh_evidence(store.connection, store.root, now=now)
        found = memories_by_id(store, ids)
        cited = citations_of(store.connection, [memory.id for memory in found])
        flags.terminal.print_result(
            _memories_json(store, found),
            lambda _: "\n\n".join(render_memory(memory, cited.get(memory.id, ()), now=now) for memory in found),
        )

    in_store(work, flags)


STATS_HEADS = ("layer", "rows", "of", "bytes", "of ", "uses", "unused", "oldest", "newest")


@command()
@options()
def memory_stats(flags: Flags) -> None:
    """Count rows and bytes of each layer against its caps, with age and use. Memories of files are not counted."""

    def work(store: "Store") -> None:
        from xscore.store.lookup import layer_stats

        found, now = layer_stats(store), store.clock()
        flags.terminal.print_result(
            {"layers": [record_json(one) for one in found]},
            lambda _: render_table(STATS_HEADS, [_stats_cells(one, now) for one in found], right=STATS_HEADS[1:7]),
        )

    in_store(work, flags)


def _stats_cells(one: LayerStats, now: float) -> tuple[str, ...]:
    """One layer; `-` where there is no cap, or nothing to be of an age."""
    most = (f"{one.max_rows:,}" if one.max_rows else "-", format_bytes(one.max_bytes) if one.max_bytes else "-")
    ages = [format_age(at, now) if one.rows else "-" for at in (one.oldest_at, one.newest_at)]
    counts = (f"{one.rows:,}", most[0], format_bytes(one.bytes), most[1], f"{one.uses:,}", f"{one.never_used:,}")
    return (str(one.layer), *counts, *ages)
