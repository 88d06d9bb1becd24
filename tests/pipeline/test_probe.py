"""What a host can do is found out before the repository's text goes there: whole turns against lesser servers."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.pipeline.conftest import settings_for
from tests.servers.faults import Fault
from tests.servers.lesser_server import LesserServer, form_of, texts
from xscore.cache import capabilities
from xscore.pipeline.build import Pipeline
from xscore.pipeline.parts import JudgeCalls
from xscore.pipeline.probe import REMEMBERED_HERE_S, adopt_capability, known_capability
from xscore.platform.errors import AuthenticationFailed, NoUsableModel, UnknownModel, Unreachable, XscoreError
from xscore.providers.openai import OpenAIDialect
from xscore.providers.wire import WireProvider
from xscore.records import Answer, Capability, ReplyForm, Turn
from xscore.settings import JudgeSettings, OpenAISettings, PrimarySettings, Settings

TASK = Turn(task="The discount is taken twice; take it once.")
OTHER = Turn(task="Say what the cart is for.")
OF_THE_REPOSITORY = "discount(sum(lines))"


def probing(server: LesserServer, **judge: Any) -> Settings:
    """Settings that judge at this server, which nobody knows yet."""
    return settings_for(server, **{"probe": True, **judge})


@asynccontextmanager
async def opened(shop: Path, server: LesserServer, **judge: Any) -> AsyncIterator[Pipeline]:
    """Open the shop for judging at this server."""
    async with Pipeline.open(shop, probing(server, **judge)) as pipeline:
        yield pipeline


async def ask(shop: Path, server: LesserServer, turn: Turn = TASK, **judge: Any) -> Answer:
    """Judge a turn as a process of its own would."""
    async with opened(shop, server, **judge) as pipeline:
        return await pipeline.ask(turn, answer=False)


def known(pipeline: Pipeline) -> Capability:
    """What is remembered of the judge's host."""
    calls = pipeline.parts.judge.calls
    assert calls is not None
    found = known_capability(pipeline.parts.store.connection, calls, now=time.time())
    assert found is not None
    return found


async def test_the_first_turn_probes_and_the_second_remembers(shop: Path) -> None:
    """One small call of our own text goes before the first pack; it is shown apart, and not made again."""
    with LesserServer() as server:
        first = await ask(shop, server)
        probe = server.counts.bodies[0]
        assert OF_THE_REPOSITORY not in texts([probe]) and "hello {name}" in texts([probe])
        assert "hello {name}" not in texts(server.counts.bodies[1:])
        assert first.probe_usage is not None
        assert first.probe_usage.calls == 1
        assert first.probe_usage.cost_usd == 0
        assert first.judge_usage.calls == server.counts.requests - 1
        server.reset()
        second = await ask(shop, server, OTHER)
        assert "hello {name}" not in texts(server.counts.bodies)
        assert second.judge_usage.calls == server.counts.requests > 0
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
async def test_the_strongest_form_that_works_is_used(shop: Path, less: dict[str, Any], form: ReplyForm) -> None:
    """A host that refuses a form, or takes it and answers prose, is asked in a weaker one, and never again in it."""
    with LesserServer(**less) as server:
        first = await ask(shop, server)
        server.reset()
        second = await ask(shop, server, OTHER)
        assert {form_of(body) for body in server.counts.bodies} == {str(form) if form != "text" else "text"}
        assert server.counts.refused_requests == 0
        async with opened(shop, server) as pipeline:
            assert known(pipeline).reply_form is form
    assert first.coverage.unjudged == second.coverage.unjudged == 0
    assert first.judge_usage.calls == first.judge_usage.attempts


async def test_a_host_that_never_gives_scores_gets_no_text(shop: Path) -> None:
    """Where no form is readable the turn ends with 3 before the repository's text was sent; nothing is remembered."""
    with LesserServer(prose_under=("json_schema", "json_object", "text")) as server:
        with pytest.raises(NoUsableModel, match="no readable scores") as caught:
            await ask(shop, server)
        assert caught.value.exit_code == 3
        assert [form_of(body) for body in server.counts.bodies] == ["json_schema", "json_object", "text"]
        assert OF_THE_REPOSITORY not in texts(server.counts.bodies)
        server.prose_under = ()
        assert (await ask(shop, server)).coverage.unjudged == 0


async def test_a_refusal_that_names_nothing_is_tried_in_a_weaker_form(shop: Path) -> None:
    """A host that answers 400 to the schema without saying why still ends at the form that works."""
    with LesserServer() as server:
        server.misbehave(Fault.ECHO, times=99, when=lambda body: form_of(body) == "json_schema")
        assert (await ask(shop, server)).coverage.unjudged == 0
        async with opened(shop, server) as pipeline:
            assert known(pipeline).reply_form is ReplyForm.JSON_OBJECT


@pytest.mark.parametrize(
    ("fault", "error"), [(Fault.WRONG_KEY, AuthenticationFailed), (Fault.UNKNOWN_MODEL, UnknownModel)]
)
async def test_what_stops_a_run_stops_it_at_the_probe(shop: Path, fault: Fault, error: type[XscoreError]) -> None:
    """A wrong key or an unknown model is said by the probe, after one call and without the repository's text."""
    with LesserServer() as server:
        server.misbehave(fault, times=99)
        with pytest.raises(error):
            await ask(shop, server)
        assert server.counts.requests == 1
        assert OF_THE_REPOSITORY not in texts(server.counts.bodies)


async def test_a_server_that_is_not_there_is_said_by_the_probe(shop: Path) -> None:
    """Nobody listens: an error that ends with 3, not a repository of unjudged memories."""
    settings = Settings(
        judge=JudgeSettings(model="openai:judge-2", attempts=1),
        primary=PrimarySettings(model="openai:strong-1"),
        openai=OpenAISettings(base_url="http://127.0.0.1:9/v1"),
    )
    async with Pipeline.open(shop, settings) as pipeline:
        with pytest.raises(Unreachable) as caught:
            await pipeline.ask(TASK, answer=False)
    assert caught.value.exit_code == 3


async def test_a_host_without_usage_is_known_as_one(shop: Path) -> None:
    """What such a host's calls took is our estimate, said so in the receipt, and the capability says why."""
    with LesserServer(tells_usage=False) as server:
        answer = await ask(shop, server)
        async with opened(shop, server) as pipeline:
            assert not known(pipeline).reports_usage
    assert answer.coverage.unjudged == 0
    assert answer.judge_usage.estimated
    assert answer.probe_usage is not None and answer.probe_usage.estimated


async def test_everything_a_probe_shows_is_remembered(shop: Path) -> None:
    """Limits from headers, refused fields, reasoning a judgment, the context as loaded, and what the usage tells."""
    with LesserServer(
        models=("judge-2",),
        refused_fields=("prompt_cache_key",),
        thinks_tokens=61,
        headers={"x-ratelimit-limit-requests": "500", "x-ratelimit-limit-tokens": "200000"},
        told={"/api/ps": {"models": [{"model": "judge-2", "context_length": 8_192}]}},
    ) as server:
        await ask(shop, server)
        async with opened(shop, server) as pipeline:
            found = known(pipeline)
    assert (found.reply_form, found.without) == (ReplyForm.JSON_SCHEMA, ("prompt_cache_key",))
    assert (found.reasoning_tokens, found.context_tokens) == (31, 8_192)
    assert (found.limits.requests_per_minute, found.limits.tokens_per_minute) == (500, 200_000)
    assert (found.reports_usage, found.reports_cached_tokens) == (True, True)


async def test_thinking_that_is_not_told_is_seen(shop: Path) -> None:
    """Tokens that the answer's characters cannot account for were thought, also where the host tells no such count."""
    with LesserServer(thinks_tokens=600, tells_thinking=False) as server:
        await ask(shop, server)
        async with opened(shop, server) as pipeline:
            assert 250 < known(pipeline).reasoning_tokens <= 300


async def test_what_a_turn_shows_later_is_remembered_too(shop: Path) -> None:
    """A field that the host begins to refuse between turns is refused once, not once a turn."""
    with LesserServer() as server:
        await ask(shop, server)
        server.refused_fields = ("prompt_cache_key",)
        await ask(shop, server, OTHER)
        server.reset()
        await ask(shop, server, Turn(task="Another thing altogether."))
        assert server.counts.refused_requests == 0
        assert server.counts.requests > 0


async def test_memory_fades(shop: Path) -> None:
    """A server on this machine is probed again after a day, because it is loaded anew; a clock set back also asks."""
    with LesserServer() as server:
        await ask(shop, server)
        async with opened(shop, server) as pipeline:
            calls, connection = pipeline.parts.judge.calls, pipeline.parts.store.connection
            assert calls is not None
            at = known(pipeline).probed_at
            assert known_capability(connection, calls, now=at + REMEMBERED_HERE_S - 1) is not None
            assert known_capability(connection, calls, now=at + REMEMBERED_HERE_S) is None
            assert known_capability(connection, calls, now=at - 1) is None
            faded = replace(known(pipeline), probed_at=at - REMEMBERED_HERE_S)
            capabilities.write_capability(connection, faded, at=at)
        again = await ask(shop, server, OTHER)
    assert again.probe_usage is not None and again.probe_usage.calls == 1


async def test_what_is_remembered_goes_by_the_clock_of_the_pipeline(shop: Path) -> None:
    """A pipeline opened with a clock of its own stamps the probe by it, and lets the memory fade by it."""
    now = 1_000_000_000.0
    with LesserServer() as server:

        async def ask_by_the_clock() -> Answer:
            async with Pipeline.open(shop, probing(server), clock=lambda: now) as pipeline:
                answer = await pipeline.ask(replace(OTHER, task=f"At {now:.0f}."), answer=False)
                calls = pipeline.parts.judge.calls
                assert calls is not None
                found = known_capability(pipeline.parts.store.connection, calls, now=now)
                assert found is not None and now - REMEMBERED_HERE_S < found.probed_at <= now
                said = await pipeline.doctor()
                assert "(found just now)" in next(f.detail for f in said.findings if f.name == "judge capability")
                return answer

        assert (await ask_by_the_clock()).probe_usage is not None
        assert (await ask_by_the_clock()).probe_usage is None
        now += REMEMBERED_HERE_S
        assert (await ask_by_the_clock()).probe_usage is not None


async def test_no_probe_where_it_is_not_wanted(shop: Path) -> None:
    """judge.probe off: the first call is a pack, and a lesser host is met as it shows itself."""
    with LesserServer(refused_fields=("json_schema",)) as server:
        answer = await ask(shop, server, probe=False)
        assert "hello {name}" not in texts(server.counts.bodies)
    assert answer.coverage.unjudged == 0


async def test_the_vendors_own_host_is_not_probed(shop: Path) -> None:
    """What OpenAI's own host takes is documented: nothing is sent to find it out."""
    with LesserServer() as server:
        async with opened(shop, server) as pipeline:
            calls = pipeline.parts.judge.calls
            assert calls is not None
            url = "https://api.openai.com/v1"
            own = WireProvider(OpenAIDialect(url), base_url=url, api_key="k")
            at_the_vendor = JudgeCalls(provider=own, model=calls.model, packs=calls.packs, concurrency=1)
            connection = pipeline.parts.store.connection
            assert await adopt_capability(connection, at_the_vendor, own, wanted=True, clock=time.time) is None
        assert server.counts.requests == 0


async def test_a_server_that_cuts_prompts_never_has_its_scores_kept(shop: Path) -> None:
    """Packs that such a server cut are halved until they fit; no score comes from a prompt that was not read whole."""
    with LesserServer(num_ctx=720) as server:
        answer = await ask(shop, server)
        whole = [body for body in server.counts.bodies if server.account(body).given < 720]
        judged_whole = sum(texts([body]).count("<memory id=") for body in whole) - texts(whole).count("hello {name}")
    assert answer.coverage.unjudged == 0
    assert answer.judge_usage.attempts > answer.judge_usage.calls
    assert judged_whole >= answer.coverage.judged


async def test_packs_fit_the_context_that_is_loaded(shop: Path) -> None:
    """Where the server tells how little it holds, no pack is made that it would cut."""
    told = {"/api/ps": {"models": [{"model": "judge-2", "context_length": 1_500}]}}
    with LesserServer(models=("judge-2",), num_ctx=1_500, told=told) as server:
        answer = await ask(shop, server)
        assert max(server.account(body).given for body in server.counts.bodies) < 1_500
    assert answer.coverage.unjudged == 0
    assert answer.judge_usage.attempts == answer.judge_usage.calls
