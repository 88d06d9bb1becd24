"""Fusion over a real store: what the kept memories say together, from all layers."""

import re
from collections.abc import Iterable
from pathlib import Path
from zlib import crc32

from msgspec.structs import replace

from tests.pipeline.conftest import settings_for
from tests.servers.openai_server import OpenAIServer
from xscore.pipeline.build import Pipeline
from xscore.pipeline.bundle_building import comparable_texts, without_conflicts
from xscore.platform import database
from xscore.platform.git import run_git
from xscore.prompts.bundle_parts import BundleEntry
from xscore.records.memory import (
    TEAM_ORIGIN,
    Edge,
    Kind,
    Layer,
    Memory,
    MemoryDetails,
    MemoryScope,
    MemorySource,
    Relation,
)
from xscore.records.receipt import Answer
from xscore.records.turn import Turn
from xscore.settings import BundleSettings
from xscore.store import memory_writer
from xscore.store.link_rows import state_edges

TASK = Turn(task="Take the discount once.")
NOW = 1_800_000_000.0
AUTHORITY = {str(layer): share for layer, share in BundleSettings().authority.items()}
WANTED = "quokka"
"""The judge finds every memory with this word relevant."""
GOV = Layer.GOVERNANCE


def said(
    text: str, *, kind: Kind = Kind.CONVENTION, layer: Layer = Layer.PROJECT, **fields: object
) -> Memory:
    """A memory of yesterday."""
    values: dict[str, object] = {
        "source": MemorySource.EXPLICIT,
        "updated_at": NOW - 86_400,
        "title": text[:40],
        "ordinal": crc32(text.encode()),
    } | fields
    return memory_writer.make_memory(layer=layer, kind=kind, text=text, **values)[0]  # type: ignore[arg-type]  # any part of it


def entries(*memories: Memory) -> list[BundleEntry]:
    """Entries of memories with arbitrary scores."""
    return [BundleEntry(memory, None) for memory in memories]


async def context(
    shop: Path,
    server: OpenAIServer,
    memories: Iterable[Memory],
    *,
    edges: Iterable[Edge] = (),
    form: str = "xml",
    turn: Turn = TASK,
    max_tokens: int | None = None,
) -> Answer:
    """Store memories, let the judge keep those with the word, and render the bundle."""
    server.score = lambda memory, _: (90, "said so") if WANTED in memory.text else (2, "no")
    async with Pipeline.open(shop, settings_for(server), clock=lambda: NOW) as pipeline:
        with database.transaction(pipeline.store.connection):
            memory_writer.put_memories(pipeline.store.connection, list(memories))
            stated = [(edge.source, edge.target, edge.relation, edge.weight) for edge in edges]
            state_edges(pipeline.store.connection, stated)
        return await pipeline.context(turn, form=form, max_tokens=max_tokens)


def ids(text: str) -> list[str]:
    """Return the ids of the shown memories, in order."""
    return re.findall(r'<memory id="(m_[0-9a-f]+)"', text)


async def test_near_duplicates_are_shown_once(shop: Path, server: OpenAIServer) -> None:
    """H18: of two equal statements the more authoritative is shown, and names the other."""
    project = said(f"Always use the {WANTED} client for requests.")
    session = said(
        f"always use the {WANTED} client for requests", layer=Layer.SESSION, kind=Kind.CONTEXT
    )
    answer = await context(shop, server, [project, session])
    assert answer.bundle is not None
    assert ids(answer.bundle) == [session.id]
    assert f"also stated by [{project.id}]" in answer.bundle
    assert {memory.id for memory in answer.selected} == {
        project.id,
        session.id,
    }, "the receipt tells of both"


def test_places_are_never_merged() -> None:
    """H18: similar code, configuration and text windows are all shown, since each may need the
    edit."""
    places = [
        said(
            "def f(): return 1",
            kind=kind,
            layer=Layer.GRAPH,
            path=f"{name}.py",
            source=MemorySource.INDEX,
        )
        for kind in (
            Kind.FUNCTION,
            Kind.METHOD,
            Kind.CLASS,
            Kind.TEST,
            Kind.BLOCK,
            Kind.CONFIG,
            Kind.TEXT,
        )
        for name in "ab"
    ]
    note, doc = said("def f(): return 1"), said("def f(): return 1", kind=Kind.DOC, path="a.md")
    assert set(comparable_texts(entries(*places, note, doc))) == {note.id, doc.id}


async def test_a_conflict_comes_to_one_sentence(shop: Path, server: OpenAIServer) -> None:
    """L07: the exception is noted, both ids can be cited, and neither text is shown with the
    sentence."""
    usual = said(
        f"Prisma ({WANTED})",
        kind=Kind.PREFERENCE,
        layer=Layer.SESSION,
        key="orm",
        scope=MemoryScope.GLOBAL,
        source=MemorySource.INFERRED,
        confidence=0.6,
    )
    in_project = said(f"Drizzle ({WANTED})", kind=Kind.TECH_STACK, key="orm")
    answer = await context(shop, server, [usual, in_project])
    assert answer.bundle is not None
    assert ids(answer.bundle) == [in_project.id]
    assert "explicitly chose" in answer.bundle and "exception" in answer.bundle
    assert f"resolved with [{usual.id}]" in answer.bundle
    once = without_conflicts(entries(usual, in_project), authority=AUTHORITY, now=NOW)
    assert comparable_texts(once) == {}, "what is settled is not merged with a third"


async def test_a_decision_that_another_settles_is_not_among_the_latest(
    shop: Path, server: OpenAIServer
) -> None:
    """It would be listed as if it held, too; one that is said twice is listed once."""
    ours = said(f"Use Prisma for the ORM ({WANTED})", kind=Kind.DECISION, key="orm", layer=GOV)
    theirs = replace(
        said(
            f"Use Drizzle for the ORM ({WANTED})",
            kind=Kind.DECISION,
            key="orm@3fa2b81c",
            layer=GOV,
        ),
        source=MemorySource.IMPORT,
        details=MemoryDetails(imported_from=TEAM_ORIGIN, author="Ada"),
    )
    said_twice = [
        said(f"Invoices are signed ({WANTED})", kind=Kind.DECISION, layer=GOV, ordinal=number)
        for number in range(2)
    ]
    answer = await context(shop, server, [ours, theirs, *said_twice])
    assert answer.bundle is not None
    _, _, latest = answer.bundle.partition("Latest decisions:")
    assert latest.count("ORM") == latest.count("Invoices") == 1


async def test_a_summary_brings_its_details(shop: Path, server: OpenAIServer) -> None:
    """H19: details with low scores follow their kept summary only while there is room."""
    summary = said(
        f"The {WANTED} writer was made faster.", kind=Kind.SUMMARY, layer=Layer.SESSION
    )
    details = [
        said(
            f"Task {n}\n\nAnswer: batch the rows " + "word " * 60,
            kind=Kind.EXCHANGE,
            layer=Layer.SESSION,
        )
        for n in range(3)
    ]
    gone = replace(
        said("Task 9\n\nAnswer: gone", kind=Kind.EXCHANGE, layer=Layer.SESSION),
        status="archived",
    )
    edges = [Edge(detail.id, summary.id, Relation.BELONGS_TO) for detail in (*details, gone)]
    answer = await context(shop, server, [summary, *details, gone], edges=edges)
    assert answer.bundle is not None
    assert ids(answer.bundle)[0] == summary.id
    assert {*ids(answer.bundle)} == {summary.id, *(detail.id for detail in details)}
    assert answer.bundle.count(f"a detail of [{summary.id}]") == 3
    assert [memory.id for memory in answer.selected] == [summary.id]
    small = await context(shop, server, [], max_tokens=150)
    assert small.bundle is not None and ids(small.bundle) == [summary.id]
    assert "without room" not in small.bundle


async def test_details_keep_to_the_scope(shop: Path, server: OpenAIServer) -> None:
    """H19: a summary does not bring back what the user filtered out."""
    summary = said(f"The {WANTED} writer.", kind=Kind.SUMMARY, layer=Layer.SESSION)
    detail = said("Task\n\nAnswer: rows", kind=Kind.EXCHANGE, layer=Layer.SESSION)
    edge = Edge(detail.id, summary.id, Relation.BELONGS_TO)
    narrowed = replace(TASK, scope=replace(TASK.scope, kinds=("summary",)))
    answer = await context(shop, server, [summary, detail], edges=[edge], turn=narrowed)
    assert answer.bundle is not None and ids(answer.bundle) == [summary.id]


async def test_the_memory_form_tells_of_the_repository(
    shop: Path, server: OpenAIServer
) -> None:
    """A09: numbered memories, branch and commit, files, decisions, and the results of earlier
    tasks."""
    decision = said(
        f"We use the {WANTED} client.",
        kind=Kind.DECISION,
        layer=Layer.GOVERNANCE,
        details=MemoryDetails(rationale="it retries"),
    )
    await context(shop, server, [decision])
    answer = await context(shop, server, [], form="memory")
    commit = (run_git(shop, "rev-parse", "--short", "HEAD") or "").strip()
    text = answer.bundle or ""
    assert text.startswith("## Semantic Memory Context\n\n[1] (decision, 0.")
    assert "Because: it retries" in text
    assert re.search(rf"## Repository Context\n\nBranch: \S+ \({commit}\)", text)
    assert f"- 1 day ago: We use the {WANTED} client. [{decision.id}]" in text
    assert re.search(r"- within the hour: context of t_\w+: 1 accepted, \d+ rejected", text)
