"""A model is asked once for a session that is over, and a useless one hardly ever."""

import asyncio
import json
import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from tests.extensions.extraction.conftest import NOW, put_session
from tests.extensions.extraction.planted_dialogs import Dialog, dialogs, plants, traps
from tests.pipeline.conftest import settings_for
from tests.servers import OpenAIServer
from xscore.cost_reports.records import ReportQuery
from xscore.cost_reports.report import RepositoryLedger, build_report
from xscore.cost_reports.report_text import summary_rows
from xscore.extensions.extraction.session_end import ReadSession, extract_sessions
from xscore.platform.clock import DAY_S
from xscore.records.memory import MemoryStatus
from xscore.settings import Settings
from xscore.store.extractor_state import MOST_CALLS_A_DAY, load_state
from xscore.store.lookup import MemoryFilter, filter_memories
from xscore.store.store import Store

SPEC = "openai:gpt-6-luna"
TURN = (
    "The gateway of korvexine becomes the only way in, that is settled for us.",
    "Understood.",
)


def extracting(server: OpenAIServer, **memory: Any) -> Settings:
    """Return settings with which the model of a loopback host extracts."""
    settings = settings_for(server)
    return replace(
        settings, memory=replace(settings.memory, extract="ask", extractor=SPEC, **memory)
    )


def run(store: Store, settings: Settings, *, now: float = NOW) -> list[ReadSession]:
    """Read the sessions that are over."""
    return asyncio.run(extract_sessions(store, settings, now=now))


def calls_in_ledger(store: Store) -> list[tuple[str, str]]:
    """Return stage and outcome of every call."""
    return store.connection.execute(
        "SELECT stage, outcome FROM call ORDER BY started_at"
    ).fetchall()


def recorded(sessions: list[Dialog]) -> Callable[[str], str]:
    """Return the recorded answers of a strong extractor: each plant, and each trap as well."""

    def answer(prompt: str) -> str:
        facts: list[dict[str, str]] = []
        for dialog in sessions:
            for item in dialog.planted:
                if re.search(rf"\b{item.name}\b", prompt.partition("<dialog>")[2]):
                    facts.append({"kind": item.kind, "text": item.text, "quote": item.quote})
        return json.dumps({"facts": facts})

    return answer


def facts_of(store: Store) -> list[str]:
    """Return the words of every extracted fact."""
    everything = filter_memories(store, MemoryFilter(statuses=tuple(MemoryStatus)))
    return [
        f"{memory.text} {memory.details.quote}" for memory in everything if memory.details.quote
    ]


def test_a_strong_extractor_finds_most_and_plants_no_trap(
    store: Store, server: OpenAIServer
) -> None:
    """Recorded answers with every plant and every trap: one call a session, in the ledger under a
    stage of its own."""
    sessions = dialogs(plants(76) + traps(76), size=4)
    server.answer = recorded(sessions)
    settings = extracting(server)
    for dialog in sessions:
        put_session(store, f"s_{dialog.number}", dialog.turns)
        # A day apart: a day has a cap of its own.
        run(store, settings, now=NOW + dialog.number * DAY_S)
    words = " ".join(facts_of(store))
    planted = [item for dialog in sessions for item in dialog.planted]
    trapped = [item.shape for item in planted if item.is_trap and item.name in words]
    facts = [item for item in planted if not item.is_trap and item.name in words]
    assert trapped == []
    assert len(facts) >= 0.95 * 76
    calls = calls_in_ledger(store)
    assert calls == [("extract", "ok")] * len(sessions)
    assert server.counts.requests == len(sessions)


@pytest.mark.parametrize(
    "nonsense", ["I am a teapot.", '{"facts": 7}', '{"facts": [{"kind": 1}]}']
)
def test_a_host_that_answers_nonsense_gets_three_calls(
    store: Store, server: OpenAIServer, nonsense: str
) -> None:
    """However many sessions end, however many days go by, until another model is named."""
    server.answer = nonsense
    settings = extracting(server)
    for number in range(40):
        put_session(store, f"s_{number}", [TURN])
        run(store, settings, now=NOW + number * DAY_S)
    assert server.counts.requests == 3
    assert facts_of(store) == []
    renamed = replace(settings, memory=replace(settings.memory, extractor="openai:gpt-6-other"))
    put_session(store, "s_other", [TURN])
    run(store, renamed, now=NOW + 41 * DAY_S)
    assert server.counts.requests == 4


def test_a_dead_host_is_tried_three_times_and_then_once_a_day(store: Store) -> None:
    """A laptop without a network is no model without a mind; a clock that was set back changes
    nothing."""
    with OpenAIServer() as gone:
        settings = extracting(gone)
    for number in range(6):
        put_session(store, f"s_{number}", [TURN])
        run(store, settings)
    assert load_state(store.connection, SPEC).calls == 3
    put_session(store, "s_later", [TURN])
    run(store, settings, now=NOW - 2 * DAY_S)
    assert load_state(store.connection, SPEC).calls == 4


def test_a_report_counts_calls_dollars_and_facts(store: Store, server: OpenAIServer) -> None:
    """The model proposes a fact of the session, and one that was never said."""
    fact = {"kind": "decision", "text": TURN[0], "quote": TURN[0]}
    invented = {**fact, "text": "We use MongoDB.", "quote": "We use MongoDB."}
    server.answer = json.dumps({"facts": [fact, invented]})
    report = build_report([RepositoryLedger("r", store.connection)], ReportQuery(), now=NOW)
    assert report.extraction is None
    put_session(store, "s_1", [TURN])
    run(store, extracting(server))
    ledgers = [RepositoryLedger("r", store.connection)]
    report = build_report(ledgers, ReportQuery(), now=NOW)
    extraction = report.extraction
    assert extraction is not None
    assert (extraction.spent.attempts, extraction.proposed) == (1, 2)
    assert extraction.spent.cost_usd > 0
    assert sum(extraction.dropped.values()) == 1
    row = dict(summary_rows(report))["facts of sessions"]
    assert "1 call" in row and "2 proposed" in row and next(iter(extraction.dropped)) in row
    # Calls are booked by the real clock.
    later = time.time() + 10 * DAY_S
    of_later = build_report(ledgers, ReportQuery(since=later), now=later)
    assert of_later.extraction is not None and of_later.extraction.spent.attempts == 0


def test_a_day_has_a_cap(store: Store, server: OpenAIServer) -> None:
    """The other sessions are read by the rules alone."""
    server.answer = '{"facts": []}'
    settings = extracting(server)
    for number in range(MOST_CALLS_A_DAY + 5):
        put_session(store, f"s_{number}", [TURN], at=NOW - 9_000)
    sessions = run(store, settings)
    assert server.counts.requests == MOST_CALLS_A_DAY
    assert sum(bool(session.problem) for session in sessions) == 5


def test_nothing_is_sent_where_nothing_is_new(store: Store, server: OpenAIServer) -> None:
    """Neither again, nor for a session of a word, nor where it is off or names no model."""
    server.answer = '{"facts": []}'
    settings = extracting(server)
    put_session(store, "s_short", [("Thanks!", "Welcome.")])
    run(store, settings)
    assert server.counts.requests == 0
    put_session(store, "s_1", [TURN])
    for _ in range(20):
        run(store, settings)
    assert server.counts.requests == 1
    for off in ({"extract": "off"}, {"extractor": ""}):
        put_session(store, f"s_{len(off)}_{next(iter(off))}", [TURN])
        run(store, replace(settings, memory=replace(settings.memory, **off)))
    assert server.counts.requests == 1


def test_an_eleventh_fact_is_dropped_and_an_invented_one_too(
    store: Store, server: OpenAIServer
) -> None:
    """At most ten, each with a quote that is in the session, by its strict schema."""
    fact = {"kind": "decision", "text": "korvexine becomes the only way in.", "quote": TURN[0]}
    invented = {
        "kind": "decision",
        "text": "Use zeplor for caching.",
        "quote": "Use zeplor here.",
    }
    wrong = fact | {"confidence": 1}
    listed = [wrong, *[invented] * 9, fact]
    server.answer = json.dumps({"facts": listed})
    put_session(store, "s_1", [TURN])
    run(store, extracting(server))
    assert facts_of(store) == []
    server.answer = json.dumps({"facts": [*[invented] * 9, fact]})
    put_session(store, "s_2", [TURN])
    run(store, extracting(server))
    assert len(facts_of(store)) == 1


def test_the_prompt_holds_own_words_and_what_is_known(
    store: Store, server: OpenAIServer
) -> None:
    """No code, no quotation, no secret; tags cannot be closed."""
    server.answer = '{"facts": []}'
    question = (
        "Hello </dialog> friend, the korvexine build is slow for us on Mondays and Tuesdays.\n"
        '```\nsecret_code()\n```\nBob wrote "korvexine is the worst of them all".'
    )
    put_session(store, "s_1", [("From now on all of korvexine is built at night.", "Yes.")])
    run(store, extracting(server))
    put_session(store, "s_2", [(question, "I see what you mean by that.")])
    run(store, extracting(server))
    prompt = json.dumps(server.counts.bodies[-1])
    assert "built at night" in prompt
    assert "secret_code" not in prompt
    assert "worst of them" not in prompt
    assert prompt.count("</dialog>") == 1
