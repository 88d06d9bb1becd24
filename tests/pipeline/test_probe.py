"""A host's abilities are probed before the repository's text is sent: whole turns against limited
servers."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.pipeline.conftest import ask as ask_turn
from tests.pipeline.conftest import settings_for
from tests.pipeline.test_decision_turns import settings_for as decisions_at
from tests.servers.decision_server import ANSWER_WIRES, DecisionServer
from tests.servers.faults import Fault
from tests.servers.limited_server import LimitedServer, form_of, texts
from xscore.cache import capabilities
from xscore.pipeline.build import Pipeline
from xscore.pipeline.known_hosts import REMEMBERED_HERE_S, known_capability
from xscore.pipeline.probe import (
    SEPARATE_TRIES,
    adopt_capability,
)
from xscore.platform.errors import (
    AuthenticationFailed,
    NoUsableModel,
    UnknownModel,
    XscoreError,
)
from xscore.providers.openai import OpenAIProvider
from xscore.records.calls import Capability, ReplyForm, Stage
from xscore.records.receipt import Answer
from xscore.records.turn import Turn
from xscore.settings import Settings

TASK = Turn(task="The discount is taken twice; take it once.")
OTHER = Turn(task="Say what the cart is for.")
OF_THE_REPOSITORY = "discount(sum(lines))"


def probing(server: LimitedServer, **judge: Any) -> Settings:
    """Settings that judge at this unprobed server."""
    return settings_for(server, **{"probe": True, **judge})


@asynccontextmanager
async def opened(shop: Path, server: LimitedServer, **judge: Any) -> AsyncIterator[Pipeline]:
    """Open the shop for judging at this server."""
    async with Pipeline.open(shop, probing(server, **judge)) as pipeline:
        yield pipeline


async def ask(shop: Path, server: LimitedServer, turn: Turn = TASK, **judge: Any) -> Answer:
    """Judge a turn as a new process does."""
    async with opened(shop, server, **judge) as pipeline:
        return await pipeline.ask(turn, answer=False)


def known_at(pipeline: Pipeline, now: float) -> Capability | None:
    """Return what is remembered of the judge's host at this moment, Unix seconds."""
    judge = pipeline.parts.judge
    return known_capability(
        judge.store.connection, judge.connected(), judge.asked_model, now=now
    )


def known(pipeline: Pipeline) -> Capability:
    """Return what is remembered of the judge's host."""
    capability = known_at(pipeline, time.time())
    assert capability is not None
    return capability


def without_answers(reply: dict[str, Any], *, all_but: int = 0) -> dict[str, Any]:
    """Return the reply with its first answers only, of either wire."""
    answers = reply["answers"]
    first = list(answers)[:all_but]
    kept = first if isinstance(answers, list) else {name: answers[name] for name in first}
    return {**reply, "answers": kept}


async def test_the_first_turn_probes_and_the_second_remembers(shop: Path) -> None:
    """One small call with our own text precedes the first pack; it is shown separately, and not
    repeated."""
    with LimitedServer() as server:
        first = await ask(shop, server)
        probe = server.counts.bodies[0]
        assert OF_THE_REPOSITORY not in texts([probe]) and "hello {name}" in texts([probe])
        assert "hello {name}" not in texts(server.counts.bodies[1:])
        assert Stage.PROBE in first.usage
        assert first.spent(Stage.PROBE).calls == 1
        assert first.spent(Stage.PROBE).cost_usd == 0
        assert first.spent(Stage.JUDGE).calls == server.counts.requests - 1
        server.reset()
        second = await ask(shop, server, OTHER)
        assert "hello {name}" not in texts(server.counts.bodies)
        assert second.spent(Stage.JUDGE).calls == server.counts.requests > 0
    assert first.coverage.unjudged == second.coverage.unjudged == 0


@pytest.mark.parametrize(
    ("less", "form"),
    [
        ({"refused_fields": ("json_schema",)}, ReplyForm.JSON_OBJECT),
        ({"refused_fields": ("response_format",)}, ReplyForm.TEXT),
        ({"prose_under": ("json_schema",)}, ReplyForm.JSON_OBJECT),
        ({"prose_under": ("json_schema", "json_object")}, ReplyForm.TEXT),
        ({"refused_fields": ("json_schema",), "prose_under": ("json_object",)}, ReplyForm.TEXT),
    ],
    ids=["refuses schema", "refuses any form", "ignores schema", "ignores any form", "both"],
)
async def test_the_strongest_form_that_works_is_used(
    shop: Path, less: dict[str, Any], form: ReplyForm
) -> None:
    """A host that refuses a format, or ignores it and answers prose, gets a weaker one from then
    on."""
    with LimitedServer(**less) as server:
        first = await ask(shop, server)
        server.reset()
        second = await ask(shop, server, OTHER)
        assert {form_of(body) for body in server.counts.bodies} == {
            str(form) if form != "text" else "text"
        }
        assert server.counts.refused_requests == 0
        async with opened(shop, server) as pipeline:
            assert known(pipeline).reply_form is form
    assert first.coverage.unjudged == second.coverage.unjudged == 0
    assert first.spent(Stage.JUDGE).calls == first.spent(Stage.JUDGE).attempts


async def test_a_host_that_never_gives_scores_gets_no_text(shop: Path) -> None:
    """If no format gives a readable reply, tried twice, no repository text is sent and nothing is
    stored."""
    with LimitedServer(prose_under=("json_schema", "json_object", "text")) as server:
        with pytest.raises(NoUsableModel, match="no readable scores") as caught:
            await ask(shop, server, fallback=())
        assert caught.value.exit_code == 3
        assert [form_of(body) for body in server.counts.bodies] == 2 * [
            "json_schema",
            "json_object",
            "text",
        ]
        assert OF_THE_REPOSITORY not in texts(server.counts.bodies)
        server.prose_under = ()
        assert (await ask(shop, server)).coverage.unjudged == 0


@pytest.mark.parametrize(
    ("fault", "error"),
    [(Fault.WRONG_KEY, AuthenticationFailed), (Fault.UNKNOWN_MODEL, UnknownModel)],
)
async def test_what_stops_a_run_stops_it_at_the_probe(
    shop: Path, fault: Fault, error: type[XscoreError]
) -> None:
    """A wrong key or an unknown model is reported by the probe, after one call and without
    repository text."""
    with LimitedServer() as server:
        server.misbehave(fault, times=99)
        with pytest.raises(error):
            await ask(shop, server, fallback=())
        assert server.counts.requests == 1
        assert OF_THE_REPOSITORY not in texts(server.counts.bodies)


async def test_everything_a_probe_shows_is_remembered(shop: Path) -> None:
    """Limits from headers, refused fields, reasoning tokens, the loaded context, and reported
    usage."""
    with LimitedServer(
        models=("judge-2",),
        refused_fields=("prompt_cache_key",),
        thinks_tokens=61,
        headers={"x-ratelimit-limit-requests": "500", "x-ratelimit-limit-tokens": "200000"},
        context_fields={"/api/ps": {"models": [{"model": "judge-2", "context_length": 8_192}]}},
    ) as server:
        await ask(shop, server)
        async with opened(shop, server) as pipeline:
            capability = known(pipeline)
    assert capability.reply_form == ReplyForm.JSON_SCHEMA
    assert capability.without == ("prompt_cache_key",)
    assert (capability.reasoning_tokens, capability.context_tokens) == (31, 8_192)
    assert capability.limits.requests_per_minute == 500
    assert capability.limits.tokens_per_minute == 200_000
    assert (capability.reports_usage, capability.reports_cached_tokens) == (True, True)


async def test_what_a_turn_shows_later_is_remembered_too(shop: Path) -> None:
    """A field that the host starts refusing between turns is refused once, not once a turn."""
    with LimitedServer() as server:
        await ask(shop, server)
        server.refused_fields = ("prompt_cache_key",)
        await ask(shop, server, OTHER)
        server.reset()
        await ask(shop, server, Turn(task="Another thing altogether."))
        assert server.counts.refused_requests == 0
        assert server.counts.requests > 0


async def test_memory_fades(shop: Path) -> None:
    """A local server is probed again after a day, since its model may have changed; also if the
    clock went back."""
    with LimitedServer() as server:
        await ask(shop, server)
        async with opened(shop, server) as pipeline:
            at = known(pipeline).probed_at
            assert known_at(pipeline, at + REMEMBERED_HERE_S - 1) is not None
            assert known_at(pipeline, at + REMEMBERED_HERE_S) is None
            assert known_at(pipeline, at - 1) is None
            faded = replace(known(pipeline), probed_at=at - REMEMBERED_HERE_S)
            capabilities.write_capability(pipeline.store.connection, faded, at=at)
        later = await ask(shop, server, OTHER)
    assert later.spent(Stage.PROBE).calls == 1


async def test_the_vendors_own_host_is_not_probed(shop: Path) -> None:
    """OpenAI's own host is documented, so it is not probed."""
    with LimitedServer() as server:
        async with opened(shop, server) as pipeline:
            judge, vendor = (
                pipeline.parts.judge,
                OpenAIProvider("https://api.openai.com/v1", "k"),
            )
            assert await adopt_capability(replace(judge, provider=vendor), vendor) is None
        assert server.counts.requests == 0


async def test_one_unlucky_round_of_replies_does_not_end_the_turn(shop: Path) -> None:
    """A chat model that answers prose to its first three requests is asked again, and judges."""
    with LimitedServer() as server:
        server.misbehave(Fault.MALFORMED_CONTENT, times=3)
        answer = await ask(shop, server)
        probes = [
            form_of(body) for body in server.counts.bodies if "hello {name}" in texts([body])
        ]
    assert probes == ["json_schema", "json_object", "text", "json_schema"]
    assert (answer.coverage.unjudged, answer.exit_code) == (0, 0)


@pytest.mark.parametrize("wire", ANSWER_WIRES)
async def test_a_decision_host_that_leaves_out_answers_is_usable(shop: Path, wire: str) -> None:
    """What the first probe left out is asked alone; one answer of two is enough, since judging asks
    again too."""
    with DecisionServer() as server:
        server.spoil = lambda reply: without_answers(reply) if server.requests <= 3 else reply
        answer = await ask_turn(shop, decisions_at(server, wire, probe=True))
        sizes = [len(body["questions"]) for body in server.bodies]
    assert sizes[:4] == [2, 1, 1, 1]
    assert (answer.coverage.unjudged, answer.exit_code) == (0, 0)
    with DecisionServer() as server:
        server.spoil = lambda reply: (
            without_answers(reply, all_but=1) if server.requests <= 4 else reply
        )
        answer = await ask_turn(shop, decisions_at(server, wire, probe=True), OTHER)
    assert (answer.coverage.unjudged, answer.exit_code) == (0, 0)


@pytest.mark.parametrize("wire", ANSWER_WIRES)
async def test_a_decision_host_without_any_answer_is_no_judge(shop: Path, wire: str) -> None:
    """After a bounded number of questions without one answer, words rank, and no repository text
    was sent."""
    with DecisionServer() as server:
        server.spoil = without_answers
        answer = await ask_turn(shop, decisions_at(server, wire, probe=True))
        assert server.requests == 1 + 2 * SEPARATE_TRIES
        assert OF_THE_REPOSITORY not in texts(server.bodies)
    assert (answer.ranked_by, answer.exit_code) == ("lexical", 3)
