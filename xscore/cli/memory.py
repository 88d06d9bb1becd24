"""`xscore decision`: record a decision with its reason, and list those in force. The words are `memory add`'s.

`xscore failure`: record what went wrong and what mended it. Met often enough, it becomes a pattern to be avoided.

`xscore memory add`: say something to be remembered. `decision add` is the same for decisions.

`xscore memory list`: what is remembered beside code, by layer, newest first.

`xscore memory show`: everything about some memories, by exact id.

`xscore memory update`: change a memory by exact id; what is not named stays as it is.
"""

from typing import TYPE_CHECKING

import click

from xscore.cli.memory_choice import (
    CHOICE,
    STATED_KIND,
    UNIT_INTERVAL,
    choice_of,
    is_narrow,
    read_citations,
    read_text_argument,
)
from xscore.cli.opening import in_store
from xscore.cli.options import OUTPUT, Flags, Option, options
from xscore.cli.terminal import Terminal, print_json, write_stdout
from xscore.platform.errors import UsageError
from xscore.platform.text import counted, one_line
from xscore.records import Kind, Layer, Memory, MemorySource, Statement

if TYPE_CHECKING:
    from xscore.records import Failure, Memory
    from xscore.store.lookup import MemoryFilter
    from xscore.store.store import Store


STATEMENT_OPTIONS: dict[str, Option] = {
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
    "importance": click.option(
        "--importance", type=UNIT_INTERVAL, default=None, help="0 to 1; below 0.2 it is soon dropped."
    ),
    "inferred": click.option("--inferred", is_flag=True, help="It was concluded, not said: less confidence."),
}
_DEFAULT_OF = {Layer.GOVERNANCE: Kind.DECISION, Layer.USER: Kind.PREFERENCE}


@click.command()
@click.argument("text")
@click.option(
    "--kind", metavar="KIND", type=STATED_KIND, help=f"{', '.join(STATED_KIND.choices)}; context if not given."
)
@click.option("--layer", type=click.Choice(["project", "user", "governance"]), help="Where it stands, if not as usual.")
@options(STATEMENT_OPTIONS, OUTPUT)
def add_memory(text: str, kind: str | None, layer: str | None, flags: Flags) -> None:
    """Remember TEXT (`-`: standard input). The same words twice are one memory, with more evidence.

    Decisions go to the governance layer, preferences to your own, all else to the project's. Failures are counted:
    `xscore failure add`.
    """
    where = Layer(layer) if layer else None
    sort = Kind(kind) if kind else _DEFAULT_OF.get(where, Kind.CONTEXT) if where else Kind.CONTEXT
    store_statement(text, sort, where, flags)


def store_statement(text: str, kind: Kind, layer: Layer | None, flags: Flags) -> None:
    """Keep a statement made of the options, and tell what became of it."""
    given = flags.given

    def work(store: "Store") -> None:
        from xscore.cli.memory_text import print_remembered
        from xscore.store.remembering import remember

        source = MemorySource.INFERRED if given["inferred"] else MemorySource.EXPLICIT
        statement = Statement(
            text=read_text_argument(text),
            kind=kind,
            layer=layer,
            title=given["title"],
            key=given["key"],
            because=given["because"],
            alternatives=given["alternative"],
            links=given["link"],
            importance=given["importance"],
            confidence=store.settings.inferred_confidence if given["inferred"] else 1.0,
            source=source,
        )
        print_remembered(
            store, remember(store, statement, citations=read_citations(store, given["cite"])), flags.terminal
        )

    in_store(work, flags)


NOTHING_MATCHED = 1
"""Exit code."""
MEMORIES_SHOWN = 50
"""Lines, where nobody says how many."""


@click.command("list")
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(1),
    help=f"Only the newest N. Without it: {MEMORIES_SHOWN}, and all of them with --json.",
)
@options(CHOICE, OUTPUT)
def list_memories(limit: int | None, flags: Flags) -> int:
    """List what is remembered beside code. Name `--layer graph` or `vector` for the memories of files.

    Ends with 1 where --layer, --scope or --kind leave nothing; an empty store is no error.
    """
    choice = choice_of(flags)
    any_there = in_store(lambda store: _print_chosen(store, choice, flags.terminal, limit=limit), flags)
    return NOTHING_MATCHED if is_narrow(flags) and not any_there else 0


def _print_chosen(store: "Store", choice: "MemoryFilter", terminal: Terminal, *, limit: int | None) -> bool:
    """Print the chosen memories, of more than `limit` the newest; whether there are any."""
    from xscore.store.evidence import refresh_evidence
    from xscore.store.lookup import filter_memories, newest_memories

    refresh_evidence(store.connection, store.root, now=store.clock())
    found = filter_memories(store, choice)
    shown = newest_memories(found, limit or (len(found) if terminal.as_json else MEMORIES_SHOWN))
    print_memories(store, shown, terminal)
    if len(shown) < len(found):
        terminal.note(f"{len(found) - len(shown):,} older ones are not shown: `--limit {len(found)}` shows all")
    return bool(found)


def print_memories(store: "Store", found: "list[Memory]", terminal: Terminal) -> None:
    """Print these memories as lines or as one object; where there are none, say so on stderr."""
    from xscore.cli.memory_text import memory_json, render_memory_line
    from xscore.pipeline.json_form import SCHEMA
    from xscore.store.evidence import citations_of

    if terminal.as_json:
        cited = citations_of(store.connection, [memory.id for memory in found])
        told = [memory_json(memory, cited.get(memory.id, ())) for memory in found]
        print_json({"schema": SCHEMA, "memories": told})
    elif found:
        now = store.clock()
        write_stdout("\n".join(render_memory_line(memory, now=now) for memory in found))
    else:
        terminal.note("nothing of that sort is remembered; `xscore memory stats` counts what is")


@click.group()
def decision() -> None:
    """Record what was decided and why, and list it; every turn weighs decisions as prior context."""


@decision.command("add")
@click.argument("text")
@options(STATEMENT_OPTIONS, OUTPUT)
def add_decision(text: str, flags: Flags) -> None:
    """Record the decision TEXT (`-`: standard input), --because of what, and which --alternative was not taken."""
    store_statement(text, Kind.DECISION, None, flags)


@decision.command("list")
@click.option("--all", "everything", is_flag=True, help="Superseded and archived ones too.")
@options(OUTPUT)
def list_decisions(everything: bool, flags: Flags) -> None:
    """List the decisions in force, newest first."""

    def work(store: "Store") -> None:
        from xscore.store.evidence import refresh_evidence

        refresh_evidence(store.connection, store.root, now=store.clock())
        print_memories(store, store.governance.decisions(superseded=everything), flags.terminal)

    in_store(work, flags)


@click.group()
def failure() -> None:
    """Record failures and what mended them, so that nobody has to find it out twice."""


@failure.command("add")
@click.argument("text")
@click.option("--because", metavar="WHY", default="", help="Why it happened.")
@click.option("--fix", metavar="HOW", default="", help="What mended it; also later, with `failure resolve`.")
@click.option("--occurrence", metavar="NAME", default="", help="A name of this very happening: it is counted once.")
@options(OUTPUT)
def add_failure(text: str, because: str, fix: str, occurrence: str, flags: Flags) -> None:
    """Record one occurrence of a failure; TEXT is the error as it was shown (`-`: standard input).

    Errors that differ in numbers, addresses, times and folders alone are the same failure.
    """

    def work(store: "Store") -> None:
        from xscore.store.failures import record_failure

        found = record_failure(
            store, text=read_text_argument(text), because=because, resolution=fix, occurrence=occurrence
        )
        _print_failure(found, flags.terminal)

    in_store(work, flags)


@failure.command()
@click.argument("memory_id", metavar="ID")
@click.argument("fix")
@options(OUTPUT)
def resolve(memory_id: str, fix: str, flags: Flags) -> None:
    """Say that FIX mended the failure with this exact ID; its pattern tells it too."""

    def work(store: "Store") -> None:
        from xscore.store import failures

        _print_failure(failures.resolve_failure(store, memory_id, read_text_argument(fix)), flags.terminal)

    in_store(work, flags)


@failure.command("list")
@options(OUTPUT)
def list_failures(flags: Flags) -> None:
    """List the failures, those met most often first."""

    def work(store: "Store") -> None:
        from xscore.cli.memory_text import memory_json
        from xscore.pipeline.json_form import SCHEMA
        from xscore.store.failures import live_failures

        found = live_failures(store)
        if flags.terminal.as_json:
            print_json({"schema": SCHEMA, "memories": [memory_json(memory) for memory in found]})
        elif found:
            write_stdout("\n".join(map(_failure_line, found)))
        else:
            flags.terminal.note("no failure is recorded here")

    in_store(work, flags)


def _failure_line(memory: Memory) -> str:
    said = memory.particulars
    fix = f"fixed by: {one_line(said.resolution)}" if said.resolution else "not resolved"
    return f"{memory.id}  {said.occurrences:>4}×  {one_line(memory.title)}  ({fix})"


def _print_failure(found: "Failure", terminal: Terminal) -> None:
    from xscore.cli.memory_text import memory_json
    from xscore.pipeline.json_form import SCHEMA

    memory, pattern = found.memory, found.pattern
    if terminal.as_json:
        told = {"signature": found.signature, "is_counted": found.is_counted, "is_new_pattern": found.is_new_pattern}
        print_json(
            {
                "schema": SCHEMA,
                **memory_json(memory),
                **told,
                "pattern": memory_json(pattern) if pattern is not None else None,
            }
        )
        return
    write_stdout(_failure_line(memory))
    if found.is_new_pattern and pattern is not None:
        met = counted(memory.particulars.occurrences, "time")
        terminal.note(f"met {met}: it is a pattern to be avoided now, {pattern.id}")


@click.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@options(OUTPUT)
def show_memories(ids: tuple[str, ...], flags: Flags) -> None:
    """Show all that is known of the memories with these exact IDs: text, reasons, source, evidence, use."""

    def work(store: "Store") -> None:
        from xscore.cli.memory_text import memory_json, render_memory
        from xscore.pipeline.json_form import SCHEMA
        from xscore.store.evidence import citations_of, refresh_evidence
        from xscore.store.lookup import memories_by_id

        refresh_evidence(store.connection, store.root, now=store.clock())
        found = memories_by_id(store, ids)
        cited = citations_of(store.connection, [memory.id for memory in found])
        if flags.terminal.as_json:
            told = [memory_json(memory, cited.get(memory.id, ())) for memory in found]
            print_json({"schema": SCHEMA, "memories": told})
        else:
            pages = (render_memory(memory, cited.get(memory.id, ()), now=store.clock()) for memory in found)
            write_stdout("\n\n".join(pages))

    in_store(work, flags)


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
@click.option("--importance", type=UNIT_INTERVAL, help="0 to 1.")
@click.option("--confidence", type=UNIT_INTERVAL, help="0 to 1.")
@options(OUTPUT)
def update_memory(
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
        from xscore.cli.memory_text import print_remembered
        from xscore.store.remembering import MemoryChange, update_memory

        wanted = MemoryChange(
            text=None if text is None else read_text_argument(text),
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
        spans = read_citations(store, tuple(filter(None, cite))) if cite else None
        print_remembered(store, update_memory(store, memory_id, wanted, citations=spans), flags.terminal)

    in_store(work, flags)
