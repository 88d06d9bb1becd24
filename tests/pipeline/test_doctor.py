"""What the doctor reports for each model, line by line, for judges and answering models of every
kind."""

import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.pipeline.conftest import settings_for
from tests.servers.faults import Fault
from tests.servers.limited_server import LimitedServer, texts
from tests.servers.openai_server import OpenAIServer
from xscore.pipeline.build import Pipeline
from xscore.providers.decision_hosts import DECISION_HOSTS
from xscore.records.reports import DoctorFinding
from xscore.settings import (
    DecisionSettings,
    HostAccess,
    JudgeSettings,
    OpenAISettings,
    Secret,
    Settings,
)

KEY = "sk-test-abcdefghijklmnop-1234"
OF_THE_REPOSITORY = "discount(sum(lines))"


async def lines(
    shop: Path, settings: Settings, *, probe: bool = False
) -> dict[str, DoctorFinding]:
    """Run the doctor; return its findings by name."""
    async with Pipeline.open(shop, settings) as pipeline:
        findings = (await pipeline.doctor(probe=probe)).findings
    assert len({finding.name for finding in findings}) == len(findings)
    return {finding.name: finding for finding in findings}


def remote(**judge: Any) -> Settings:
    """Settings for the vendor's own host; nothing is sent to it."""
    return Settings(judge=JudgeSettings(**judge), openai=OpenAISettings(api_key=Secret(KEY)))


async def test_every_aspect_of_a_model_has_its_line(shop: Path) -> None:
    """Host, key, price, limits, reasoning and capability of judge and answering model; nothing is
    sent."""
    findings = await lines(shop, remote(rpm=500, wire="chat"))
    for role in ("judge", "answerer"):
        for aspect in ("", " key", " price", " limits", " reasoning", " capability"):
            assert findings[f"{role}{aspect}"].ok, findings
    assert findings["judge"].detail == "openai:gpt-6-luna at api.openai.com"
    assert findings["judge key"].detail == "…1234 from OPENAI_API_KEY, sent to api.openai.com"
    assert (
        findings["judge price"].detail
        == "$0.10 in and $0.50 out, for a million tokens (tariff openai/gpt-6-luna)"
    )
    assert "set here: 500 requests a minute" in findings["judge limits"].detail
    assert "`none`" in findings["judge reasoning"].detail
    assert "the vendor's own host" in findings["judge capability"].detail


async def test_a_decision_model_tells_its_wire_and_tariff(shop: Path) -> None:
    """OpenAI's own host judges by decisions by default, at the price of decisions."""
    findings = await lines(shop, remote())
    assert findings["judge"].detail == "openai-decisions:gpt-6-luna at api.openai.com"
    assert findings["judge wire"].detail.startswith("/decisions: one memory, one question")
    price = "$0.10 in and $0.00 out, for a million tokens (tariff openai-decisions/gpt-6-luna)"
    assert findings["judge price"].detail == price


async def test_limits_declared_for_a_host_stand_until_it_states_its_own(shop: Path) -> None:
    """TypeSafe's limits are known in advance, so the first turn is paced and estimated by them."""
    hosts = {"typesafe": HostAccess("", Secret(KEY), "TYPESAFE_API_KEY")}
    findings = await lines(shop, Settings(decisions=DecisionSettings(hosts=hosts)))
    assert findings["judge"].detail == "typesafe:jev-1.14.0 at api.typesafe.ai"
    declared = DECISION_HOSTS["typesafe"].limits.in_words()
    assert declared
    assert f"stated by the host: {declared} a minute" in findings["judge limits"].detail
    assert "typesafe/jev-1.14.0" in findings["judge price"].detail


async def test_who_takes_over_is_named_with_host_key_and_price(shop: Path) -> None:
    """Each model of `judge.fallback` has its lines; an unusable one needs attention."""
    findings = await lines(
        shop,
        remote(fallback=("openai-chat:gpt-6-luna", "anthropic:claude-haiku-5-5", "lexical")),
    )
    assert findings["fallback 1"].detail == "openai:gpt-6-luna at api.openai.com"
    assert findings["fallback 1 key"].ok
    assert "openai/gpt-6-luna" in findings["fallback 1 price"].detail
    assert not findings["fallback 2"].ok and "ANTHROPIC_API_KEY" in findings["fallback 2"].hint
    assert "final round" not in findings
    settings = remote()
    selection = replace(settings.selection, final="openai-chat:gpt-6-luna")
    with_final = await lines(shop, replace(settings, selection=selection))
    assert with_final["final round"].detail == "openai:gpt-6-luna at api.openai.com"


async def test_the_host_of_the_reasons_call_is_named(shop: Path) -> None:
    """A decision judge's reasons come from a chat model: its host, key and price; or that the model
    or key is missing.
    """
    findings = await lines(shop, remote())
    assert findings["reasons"].detail == "openai:gpt-6-luna at api.openai.com"
    assert (
        findings["reasons key"].ok and "openai/gpt-6-luna" in findings["reasons price"].detail
    )
    off = (await lines(shop, remote(reason_model="none")))["reasons"]
    assert off.ok and off.detail.startswith("none: ")
    without_key = (await lines(shop, remote(reason_model="anthropic:claude-haiku-5-5")))[
        "reasons"
    ]
    assert not without_key.ok and "ANTHROPIC_API_KEY" in without_key.hint
    assert "reasons" not in await lines(shop, remote(wire="chat"))


async def test_no_key_is_ever_shown_whole(shop: Path) -> None:
    """Only the last four characters of a key are shown."""
    findings = await lines(shop, remote())
    printed = " ".join(f"{finding.detail} {finding.hint}" for finding in findings.values())
    assert KEY[-4:] in printed
    assert KEY[-5:] not in printed


@pytest.mark.parametrize(
    ("key", "is_likely"), [("k3y!", False), ("k3y!-23", False), ("k3y!-234567", True)]
)
async def test_of_a_short_key_nothing_is_shown(shop: Path, key: str, is_likely: bool) -> None:
    """The last four characters of a key of eleven are a third of it; one of fewer than eight is
    something to check."""
    settings = Settings(openai=OpenAISettings(api_key=Secret(key)))
    findings = await lines(shop, settings)
    assert findings["judge key"].ok is is_likely
    assert "OPENAI_API_KEY" in findings["judge key"].detail
    assert not any(
        key[-4:] in f"{finding.detail} {finding.hint}" for finding in findings.values()
    )


async def test_the_probe_shows_scores_time_usage_and_capability(shop: Path) -> None:
    """One pack of two memories of our own is sent, and the result is remembered for the next
    run."""
    with LimitedServer(
        models=("judge-2", "strong-1"),
        refused_fields=("json_schema", "prompt_cache_key"),
        headers={"x-ratelimit-limit-requests": "500"},
        entry={"max_model_len": 8_192},
    ) as server:
        settings = settings_for(server, probe=True)
        assert "not known yet" in (await lines(shop, settings))["judge capability"].detail
        assert server.counts.requests == 0
        findings = await lines(shop, settings, probe=True)
        assert OF_THE_REPOSITORY not in texts(server.counts.bodies)
        later = await lines(shop, settings)
    assert all(finding.ok for finding in findings.values())
    assert re.fullmatch(
        r"two memories judged, \d+ and \d+ of 100, in \d+\.\d s", findings["probe"].detail
    )
    assert re.fullmatch(r"\d+ tokens in, \d+ out", findings["probe usage"].detail)
    assert findings["answerer model"].detail == "listed by its host, among 2"
    for looked in (findings, later):
        assert (
            looked["judge capability"].detail
            == "gives JSON, without a schema; reports token usage, and which came from its cache;"
            " holds 8,192 tokens; refuses prompt_cache_key (found within the hour)"
        )
        assert "stated by the host: 500 requests a minute" in looked["judge limits"].detail
        assert "measured: 0 tokens a judgment" in looked["judge reasoning"].detail


async def test_a_judge_that_thinks_is_something_to_mend(shop: Path) -> None:
    """More than two reasoning tokens a judgment dominate a turn's price; two do not."""
    with LimitedServer(thinks_tokens=4) as server:
        assert (await lines(shop, settings_for(server), probe=True))["judge reasoning"].ok
        server.thinks_tokens = 5
        findings = await lines(shop, settings_for(server), probe=True)
    assert not findings["judge reasoning"].ok
    assert "measured: 3 tokens a judgment" in findings["judge reasoning"].detail
    assert findings["judge reasoning"].hint


async def test_models_that_the_host_lacks_are_named_with_those_it_has(shop: Path) -> None:
    """An unknown judge or answering model is reported with the names that the host lists."""
    with LimitedServer(models=("qwen3:4b", "gpt-oss:20b")) as server:
        findings = await lines(shop, settings_for(server), probe=True)
    assert findings["probe"].detail.startswith("unknown_model")
    assert not findings["answerer model"].ok
    for name in ("probe", "answerer model"):
        assert findings[name].hint == "It lists qwen3:4b, gpt-oss:20b."


async def test_a_host_that_cannot_be_asked_is_a_finding(
    shop: Path, server: OpenAIServer
) -> None:
    """A wrong key is reported in the lines of the probe and the answering model; the doctor itself
    does not fail."""
    server.api_key = "another"
    server.misbehave(Fault.WRONG_KEY, times=9)
    findings = await lines(shop, settings_for(server), probe=True)
    assert findings["probe"].detail.startswith("authentication:")
    assert findings["answerer model"].detail.startswith("authentication:")
    assert not findings["probe"].ok and not findings["answerer model"].ok
