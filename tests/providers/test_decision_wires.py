"""A wire of another shape is one record: how it asks, reads, counts and is given its key."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from aiohttp import web

from tests.providers.contracts import MEMBERS
from tests.providers.test_decisions import request_of
from tests.servers.decision_server import DecisionServer, Handler, Reply
from xscore.platform.errors import AuthenticationFailed, UnreadableResponse, UsageError
from xscore.providers.decision_hosts import DECISION_HOSTS, DecisionHost
from xscore.providers.decision_wires import WIRES, Wire, is_probability
from xscore.providers.decisions import DecisionProvider
from xscore.providers.host_facts import header_count
from xscore.records.calls import DecisionForm, DecisionWire, Request, Usage
from xscore.scorer.prompt_builder import parse_answers
from xscore.settings import (
    DecisionSettings,
    HostAccess,
    JudgeSettings,
    Secret,
    Settings,
    validate_group,
)

KEY = "rk-key-that-is-long-enough"
TOP_RANK = 100


def rank_fields(request: Request) -> dict[str, Any]:
    """A query and its texts; no model, no names."""
    state, *texts = request.content
    return {"query": f"{request.system}\n\n{state}", "texts": texts}


def rank_answers(reply: Mapping[str, Any], request: Request) -> dict[str, object] | None:
    """Scores of 0..100 in the order of the texts."""
    ranks = reply.get("scores")
    if not isinstance(ranks, list) or len(ranks) != len(request.reply_ids):
        return None
    values: dict[str, object] = {}
    for name, rank in zip(request.reply_ids, ranks, strict=True):
        share = rank / TOP_RANK if type(rank) in (int, float) else None
        values[name] = share if is_probability(share) else None
    return values


def rank_usage(reply: Mapping[str, Any], headers: Mapping[str, str]) -> Usage | None:
    """The tokens are in a header."""
    tokens = header_count(headers.get("x-tokens"))
    return None if tokens is None else Usage(input_tokens=tokens)


RANK = Wire(
    title="rank",
    fields=rank_fields,
    answers=rank_answers,
    usage=rank_usage,
    key_header="X-Api-Key",
    takes_levels=False,
)


class RankServer(DecisionServer):
    """A host that speaks it, at its root."""

    def routes(self) -> Mapping[str, Handler]:
        """The one path of the wire."""
        return {"/rank": self._rank}

    def key_of(self, request: web.Request) -> str:
        """The header of the wire."""
        return request.headers.get("X-Api-Key", "")

    async def _rank(self, request: web.Request) -> web.Response:
        body = json.loads(await request.read())
        texts: list[tuple[str, str, Reply]] = [("", text, {}) for text in body["texts"]]
        tokens_read = 0

        def answer(_name: str, score: float, _question: Reply) -> Reply:
            return {"score": score * TOP_RANK}

        def complete_reply(answers: list[Reply], tokens: int) -> Reply:
            nonlocal tokens_read
            tokens_read = tokens
            return {"scores": [scored["score"] for scored in answers]}

        response = await self.answer_questions(
            request, body, body["query"], texts, answer, complete_reply
        )
        response.headers["X-Tokens"] = str(tokens_read)
        return response


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[RankServer]:
    """A ranker that knows one key; its wire takes the place of one of ours."""
    monkeypatch.setitem(WIRES, DecisionWire.SYSTEM_ONE, RANK)
    declared = DecisionHost(wire=DecisionWire.SYSTEM_ONE, path="/rank", base_path="")
    monkeypatch.setitem(DECISION_HOSTS, "rank", declared)
    with RankServer(api_key=KEY) as running:
        yield running


def provider_of(server: RankServer, *, key: str = KEY, **judge: object) -> DecisionProvider:
    """Connect to it by a base URL without a path."""
    hosts = {"rank": HostAccess(f"http://{server.host}", Secret(key))}
    settings = Settings(
        judge=validate_group(JudgeSettings, judge), decisions=DecisionSettings(hosts=hosts)
    )
    return DecisionProvider("rank", "r-1", settings)


async def test_its_key_scores_and_tokens_are_where_the_wire_has_them(
    server: RankServer,
) -> None:
    """The key goes into its header and no other, each text gets its score, and the tokens are those
    of the reply's header."""
    request = request_of(DecisionForm.PREDICATE)
    provider = provider_of(server)
    assert provider.headers() == {"X-Api-Key": KEY}
    completion = await provider.complete(request)
    await provider.aclose()
    assert len(parse_answers(completion.text, request.reply_ids).scores) == len(MEMBERS)
    assert completion.usage_reported and completion.usage == Usage(input_tokens=server.tokens)
    assert server.bodies[-1].keys() == {"query", "texts"}
    refused = provider_of(server, key="rk-another-key-of-that-length")
    with pytest.raises(AuthenticationFailed):
        await refused.complete(request)
    await refused.aclose()


def test_a_value_that_is_none_is_void_and_a_reply_in_another_form_is_named(
    server: RankServer,
) -> None:
    """Neighbours keep their scores; tokens that no header states are not reported; answers of
    another wire are told from none at all, and the hint says where the route begins."""
    provider, request = provider_of(server), request_of(DecisionForm.PREDICATE)
    odd: list[Any] = [101, -1, True, "92", None, 1e999]
    ranks = [*odd, *[92.5] * (len(MEMBERS) - len(odd))]
    completion = provider.read(json.dumps({"scores": ranks}).encode(), {}, request)
    scores = parse_answers(completion.text, request.reply_ids).scores
    assert scores == dict.fromkeys(request.reply_ids[len(odd) :], 92.5)
    assert not completion.usage_reported
    with pytest.raises(UnreadableResponse, match="the rank wire") as caught:
        provider.read(json.dumps({"scores": ranks[1:]}).encode(), {}, request)
    assert "without /rank" in caught.value.hint
    with pytest.raises(UnreadableResponse, match=r"another wire .*\(decisions\)"):
        provider.read(json.dumps({"answers": []}).encode(), {}, request)


def test_a_wire_without_levels_refuses_them(server: RankServer) -> None:
    """Before anything is sent; what the user set names the cure."""
    with pytest.raises(UsageError) as caught:
        provider_of(server, wire="decisions-score")
    assert "judge.wire" in caught.value.hint
    assert server.requests == 0


def test_every_wire_has_a_record_and_a_row_for_any_server() -> None:
    """A member of `DecisionWire` without them would fail at the first turn only."""
    assert WIRES.keys() == set(DecisionWire)
    for wire in DecisionWire:
        assert DECISION_HOSTS[wire].wire is wire and not DECISION_HOSTS[wire].base_url
