"""`xscore memory add | update | list | show | stats`: add, change and look at memories that are not
code.

It turns options into a statement or a filter; the store decides what to keep. `--scope user` and
`--scope project` mean the layers user and project; the other scopes say how far a memory reaches.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click
from msgspec.structs import replace

from xscore.cli.flags import Flags, command, read_stdin
from xscore.cli.memory_text import (
    failure_json,
    memory_json,
    print_remembered,
    render_failure,
    render_memory,
    render_memory_line,
)
from xscore.cli.options import COUNT, option
from xscore.cli.phrases import format_age
from xscore.cli.settings_and_store import opened_store
from xscore.cli.text_layout import render_table
from xscore.pipeline.json_form import record_json
from xscore.platform.errors import NothingMatched, UsageError
from xscore.platform.figures import format_bytes
from xscore.platform.text import readable_text
from xscore.records.memory import (
    Kind,
    Layer,
    MemoryDetails,
    MemoryScope,
    MemorySource,
    MemoryStatus,
)
from xscore.records.statement import LAYERS_BY_KIND, LayerStats, Statement
from xscore.store import remembering
from xscore.store.citing import parse_citation
from xscore.store.events import REPORTED_DAYS, consolidation_history
from xscore.store.evidence import citations_of, refresh_evidence
from xscore.store.failures import record_failure, resolve_failure
from xscore.store.lookup import (
    LIVE_STATUSES,
    MemoryFilter,
    RegistryQuery,
    filter_memories,
    layer_stats,
    memories_by_id,
    newest_memories,
    select_by_rules,
)

if TYPE_CHECKING:
    from xscore.records.memory import Citation, Memory
    from xscore.store.store import Store

MEMORIES_SHOWN = 50
_LAYER_OF_SCOPE = {"user": Layer.USER, "project": Layer.PROJECT}
SCOPES = [*map(str, MemoryScope), *_LAYER_OF_SCOPE]
_DEFAULT_KINDS = {Layer.GOVERNANCE: Kind.DECISION, Layer.USER: Kind.PREFERENCE}
_STATED_KINDS = [str(kind) for kind in LAYERS_BY_KIND]
_UNIT_INTERVAL = click.FloatRange(0, 1)

NARROWING = [
    option(
        "--layer",
        type=click.Choice(list(map(str, Layer))),
        multiple=True,
        help="Only this layer. Repeatable.",
    ),
    option(
        "--scope",
        type=click.Choice(SCOPES),
        multiple=True,
        help="Only this scope. Repeatable.",
    ),
    option(
        "--kind",
        "--type",
        "kind",
        metavar="KIND",
        type=click.Choice(list(map(str, Kind))),
        multiple=True,
        help="Only this kind.",
    ),
]
CHOICE = [
    *NARROWING,
    option("--all", "everything", is_flag=True, help="Superseded and archived ones too."),
]
STATEMENT = [
    option(
        "--title",
        metavar="LINE",
        help="One line for lists; default: the first line of the text.",
    ),
    option("--key", metavar="KEY", help="Topic; replaces the memory with the same key."),
    option("--because", metavar="WHY", help="Reason; the judge reads it too."),
    option(
        "--alternative",
        "alternatives",
        metavar="TEXT",
        multiple=True,
        help="An option that was rejected. Repeatable.",
    ),
    option(
        "--alias",
        "aliases",
        metavar="NAME",
        multiple=True,
        help="Another name of its subject, for searches. Repeatable.",
    ),
    option(
        "--link",
        "links",
        metavar="REF",
        multiple=True,
        help="A path, URL or memory ID. Repeatable.",
    ),
    option(
        "--by",
        "author",
        metavar="NAME",
        help="Author. For decisions, defaults to git's user.name.",
    ),
    option(
        "--cite",
        metavar="PATH[:LINES]",
        multiple=True,
        help="Code it depends on: stale when that changes.",
    ),
    option(
        "--importance",
        metavar="N",
        type=_UNIT_INTERVAL,
        help="0 to 1; below 0.2 it is soon dropped.",
    ),
    option("--fix", metavar="HOW", help="For a failure: how it was fixed."),
]
_STATED = (
    "title",
    "key",
    "because",
    "alternatives",
    "aliases",
    "links",
    "author",
    "importance",
)
"""Options that are fields of both a statement and a change."""


def choice_of(flags: Flags) -> MemoryFilter:
    """Return the filter that the options describe; a command without `--all` includes every
    status."""
    options = flags.given
    words = set(flags.given["scope"])
    of_scope = {_LAYER_OF_SCOPE[word] for word in words if word in _LAYER_OF_SCOPE}
    named = set(map(Layer, options["layer"]))
    if named and of_scope and not named & of_scope:
        raise UsageError("--layer and --scope name different layers", hint="Give one of them.")
    return MemoryFilter(
        layers=tuple(named & of_scope if named and of_scope else named | of_scope),
        scopes=tuple(MemoryScope(word) for word in words if word not in _LAYER_OF_SCOPE),
        kinds=tuple(map(Kind, options["kind"])),
        statuses=tuple(MemoryStatus) if options.get("everything", True) else LIVE_STATUSES,
    )


def is_narrow(flags: Flags) -> bool:
    """Whether the options filter anything; if not, no result means an empty store rather than no
    match."""
    return any(flags.given[str(option.name)] for option in NARROWING)


def _read_text(argument: str) -> str:
    if argument != "-":
        return readable_text(argument)
    return read_stdin(4 << 20, hint="Sum it up in a few sentences.")


def _read_citations(store: "Store", spans: Sequence[str]) -> "tuple[Citation, ...]":
    return tuple(
        parse_citation(store.root, span, connection=store.connection, base=Path.cwd())
        for span in spans
    )


def _stated(flags: Flags) -> dict[str, Any]:
    return {name: flags.given[name] for name in _STATED if flags.given[name] not in (None, ())}


@command(STATEMENT)
@click.argument("text")
@click.option(
    "--kind",
    "--type",
    "kind",
    metavar="KIND",
    type=click.Choice(_STATED_KINDS),
    help=f"{', '.join(_STATED_KINDS)}.",
)
@click.option(
    "--layer",
    type=click.Choice(["project", "user", "governance"]),
    help="Default: the layer of the kind.",
)
@click.option(
    "--scope",
    type=click.Choice(SCOPES),
    help=("Where it applies. Default: this repository; for your own memories, everywhere."),
)
@click.option("--inferred", is_flag=True, help="Inferred rather than stated: lower confidence.")
@click.option(
    "--occurrence",
    metavar="NAME",
    default="",
    help="For a failure: a name for this occurrence, so that it counts once.",
)
def add_memory(
    text: str,
    *,
    kind: str | None,
    layer: str | None,
    scope: str | None,
    inferred: bool,
    occurrence: str,
    flags: Flags,
) -> None:
    """Remember TEXT (`-`: standard input). The same text twice is one memory with a higher count.

    Decisions go to the governance layer, preferences to your own, everything else to the
    project's. Without --kind it is context. For a failure, TEXT is the error as shown: errors
    that differ only in numbers, addresses, times and folders count as one failure, and one that
    repeats often becomes a pattern to avoid.
    """
    where = _stated_layer(layer, scope)
    sort = _stated_kind(kind, where)
    is_failure = sort is Kind.FAILURE
    fix = flags.given["fix"]
    if is_failure and (layer or scope or inferred):
        _refuse_for_failure()
    if is_failure and (flags.given["cite"] or _stated(flags).keys() - {"because"}):
        _refuse_for_failure()
    if not is_failure and (fix or occurrence):
        raise UsageError("--fix and --occurrence are for failures", hint="Add --kind failure.")
    with opened_store(flags) as store:
        if is_failure:
            details = MemoryDetails(
                rationale=flags.given["because"] or "", resolution=fix or ""
            )
            failure = record_failure(
                store, text=_read_text(text), details=details, occurrence=occurrence
            )
            flags.terminal.print_result(failure_json(failure), render_failure(failure))
            return
        statement = Statement(
            text=_read_text(text),
            kind=sort,
            layer=where,
            scope=MemoryScope(scope) if scope and scope not in _LAYER_OF_SCOPE else None,
            confidence=store.settings.inferred_confidence if inferred else 1.0,
            source=MemorySource.INFERRED if inferred else MemorySource.EXPLICIT,
            **_stated(flags),
        )
        remembered = remembering.remember(
            store, statement, citations=_read_citations(store, flags.given["cite"])
        )
        print_remembered(store, remembered, flags.terminal)


def _stated_layer(layer: str | None, scope: str | None) -> Layer | None:
    """Return the layer that is named, by itself or as a scope; None: that of the kind."""
    of_scope = _LAYER_OF_SCOPE.get(scope or "")
    if layer is None:
        return of_scope
    if of_scope not in (None, layer):
        raise UsageError("--layer and --scope name different layers", hint="Give one of them.")
    return Layer(layer)


def _stated_kind(kind: str | None, layer: Layer | None) -> Kind:
    if kind:
        return Kind(kind)
    if layer:
        return _DEFAULT_KINDS.get(layer, Kind.CONTEXT)
    return Kind.CONTEXT


def _refuse_for_failure() -> NoReturn:
    raise UsageError(
        "a failure accepts only --because, --fix and --occurrence",
        hint="Leave out the other options.",
    )


@command(STATEMENT)
@click.argument("memory_id", metavar="ID")
@click.option("--text", help="New words; `-`: standard input.")
@click.option("--confidence", metavar="N", type=_UNIT_INTERVAL, help="0 to 1.")
def update_memory(
    memory_id: str, *, text: str | None, confidence: float | None, flags: Flags
) -> None:
    """Change the memory with this exact ID. It keeps its ID and history; a changed text is judged
    again.

    Fields you do not name stay as they are. '' clears a title, a reason, or a list; another key
    makes a new memory that supersedes this one. --fix records how a failure was fixed, in its
    pattern too.
    """
    cite = flags.given["cite"]
    fix = flags.given["fix"]
    words = None if text is None else _read_text(text)
    change = remembering.MemoryChange(text=words, confidence=confidence, **_stated(flags))
    is_changed = bool(cite) or not change.is_empty
    if fix is not None and is_changed:
        raise UsageError(
            "--fix allows no other options",
            hint="Change the rest with another `xscore memory update`.",
        )
    if fix is None and not is_changed:
        raise UsageError(
            "nothing to change", hint="Name --text, --title, --key, --because, --cite, …"
        )
    with opened_store(flags) as store:
        if fix is not None:
            fixed = resolve_failure(store, memory_id, _read_text(fix))
            flags.terminal.print_result(failure_json(fixed), render_failure(fixed))
            return
        spans = None
        if cite:
            spans = _read_citations(store, tuple(filter(None, cite)))
        changed = remembering.update_memory(store, memory_id, change, citations=spans)
        print_remembered(store, changed, flags.terminal)


@command(CHOICE)
@click.option(
    "--limit",
    metavar="N",
    type=COUNT,
    help=f"Only the newest N; {MEMORIES_SHOWN}, or all with --json.",
)
@click.option(
    "--match",
    metavar="TEXT",
    default="",
    help="Rank by exact text instead of by a model.",
)
@click.option(
    "--reference",
    "references",
    metavar="REF",
    multiple=True,
    help="Also rank by this path, URL or ID.",
)
def list_memories(
    limit: int | None, match: str, references: tuple[str, ...], flags: Flags
) -> int:
    """List the memories that do not come from files. Name `--layer graph` or `vector` for the
    memories of files, `--kind document` for what was fetched.

    --match and --reference show what fixed rules select, best first, each with its score from 0 to
    2: 1 for the text, 0.3 for each reference, then scope, kind, importance and use. Exit code 1 if
    --layer, --scope, --kind or these match nothing; an empty store is not an error.
    """
    terminal = flags.terminal
    choice = replace(choice_of(flags), without_documents=True)
    query = None
    if match or references:
        query = RegistryQuery(
            text=match, references=references, scopes=choice.scopes, kinds=choice.kinds
        )
    with opened_store(flags, make=False) as store:
        now = store.clock()
        refresh_evidence(store.connection, store.root, now=now)
        memories = filter_memories(store, choice)
        limit_shown = limit or (len(memories) if terminal.as_json else MEMORIES_SHOWN)
        if query is not None:
            scored = select_by_rules(memories, query, now=now)
            memories = [memory for _, memory in scored]
            scores = [score for score, _ in scored[:limit_shown]]
            shown = memories[:limit_shown]
        else:
            scores = []
            shown = newest_memories(memories, limit_shown)
        body = _memories_json(store, shown)
    lines = [render_memory_line(memory, now=now) for memory in shown]
    for place, score in enumerate(scores):
        body["memories"][place]["score"] = round(score, 6)
        lines[place] = f"{score:.2f}  {lines[place]}"
    is_filtered = bool(query) or is_narrow(flags)
    none = "no memory matches; `xscore memory stats` has the counts"
    if not is_filtered:
        none = "nothing is remembered yet; `xscore memory add` adds the first memory"
    terminal.print_result(body, "\n".join(lines), none=none)
    if len(shown) < len(memories):
        which = "lower" if scores else "older"
        terminal.note(
            f"{len(memories) - len(shown):,} {which} ones are not shown: `--limit {len(memories)}`"
            " shows all"
        )
    if is_filtered and not memories:
        return NothingMatched.exit_code
    return 0


def _memories_json(store: "Store", memories: "Sequence[Memory]") -> dict[str, Any]:
    cited = citations_of(store.connection, [memory.id for memory in memories])
    return {"memories": [memory_json(memory, cited.get(memory.id, ())) for memory in memories]}


@command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
def show_memories(ids: tuple[str, ...], flags: Flags) -> None:
    """Show everything about the memories with these exact IDs: text, reasons, source, evidence,
    use."""
    with opened_store(flags, make=False) as store:
        now = store.clock()
        refresh_evidence(store.connection, store.root, now=now)
        memories = memories_by_id(store, ids)
        cited = citations_of(store.connection, [memory.id for memory in memories])
        body = _memories_json(store, memories)
    pages = [render_memory(memory, cited.get(memory.id, ()), now=now) for memory in memories]
    flags.terminal.print_result(body, "\n\n".join(pages))


ACTION_WORDS = {
    "carry": "carried over",
    "summarise": "summarized",
    "merge": "merged",
    "except": "marked as exceptions",
    "fade": "faded",
    "archive": "archived",
    "drop": "dropped",
    "prune": "pruned",
    "infer": "noted from files",
    "observe": "compared with your other projects",
    "promote": "promoted",
}
"""Kind of action of consolidation -> how it is counted."""
STATS_HEADS = ("layer", "rows", "of", "bytes", "of ", "uses", "unused", "oldest", "newest")


@command()
def memory_stats(flags: Flags) -> None:
    """Count rows and bytes of each layer against its caps, with age and use, and what consolidation
    changed lately.

    Memories of files are not counted.
    """
    with opened_store(flags, make=False) as store:
        stats = layer_stats(store)
        now = store.clock()
        history = consolidation_history(store.connection, now=now)
    cells = [_stats_cells(layer, now) for layer in stats]
    body = {
        "layers": [record_json(layer) for layer in stats],
        "consolidation": record_json(history),
    }
    table = render_table(STATS_HEADS, cells, right=STATS_HEADS[1:7])
    changes = "nothing was changed"
    if history.counts:
        counted_actions: list[str] = []
        for action, count in history.counts.items():
            counted_actions.append(f"{count:,} {ACTION_WORDS.get(action, action)}")
        changes = ", ".join(counted_actions)
    by_itself = "never automatically"
    if history.tidied_at is not None:
        by_itself = f"automatically {format_age(history.tidied_at, now)}"
    footer = f"consolidation: {by_itself}; in {REPORTED_DAYS} days: {changes}"
    flags.terminal.print_result(body, f"{table}\n\n{footer}")


def _stats_cells(layer: LayerStats, now: float) -> tuple[str, ...]:
    most_rows = f"{layer.max_rows:,}" if layer.max_rows else "-"
    most_bytes = format_bytes(layer.max_bytes) if layer.max_bytes else "-"
    oldest = format_age(layer.oldest_at, now) if layer.rows else "-"
    newest = format_age(layer.newest_at, now) if layer.rows else "-"
    counts = (
        f"{layer.rows:,}",
        most_rows,
        format_bytes(layer.bytes),
        most_bytes,
        f"{layer.uses:,}",
        f"{layer.never_used:,}",
    )
    return (str(layer.layer), *counts, oldest, newest)
