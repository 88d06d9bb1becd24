"""Shared packs under faults: right scores, or one question a call; nothing is paid twice."""

import asyncio
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.conftest import MakeRepo
from tests.extensions.batch.shared_packs_host import (
    MANY,
    asked,
    listed,
    misplaced,
    shared_calls,
    true_score,
)
from tests.extensions.batch.test_shared_packs import settings_for
from tests.extensions.evaluation.shop_run import priced
from tests.observers import StageWaiter
from tests.scorer.stdlib_candidates import real_code
from tests.servers.faults import Fault
from tests.servers.openai_server import OpenAIServer
from xscore.extensions.batch.ask_list import ask_list
from xscore.extensions.batch.shared_packs import SharedPackJudge, SharedQuestion
from xscore.extensions.batch.shared_prompts import QUESTIONS_LAYOUT, SharedUnit
from xscore.pipeline.build import Pipeline
from xscore.pipeline.parts import TurnOptions
from xscore.platform.errors import StoreError
from xscore.prompts.judge import JudgeModel
from xscore.providers.provider import Provider
from xscore.providers.scripted import ScriptedProvider
from xscore.records.calls import Request
from xscore.records.judgment import ClaimResult, ClaimState, Judgment
from xscore.records.turn import Turn
from xscore.scorer.claiming import NoClaims
from xscore.scorer.fanout import StopSignal
from xscore.scorer.packs import Pack, PackProfile
from xscore.scorer.prompt_builder import PromptBuilder

IN_THE_REPLY = [
    Fault.TRUNCATION,
    Fault.MISSING_ID,
    Fault.DUPLICATE_ID,
    Fault.FOREIGN_ID,
    Fault.REFUSAL,
]
"""Other reply faults are covered by `test_parse_questions`."""


@pytest.fixture
def steps(make_repo: MakeRepo) -> Path:
    """A repository of several packs."""
    return make_repo(MANY)


def shares(body: dict[str, Any]) -> bool:
    """Whether several questions share this prompt."""
    return '<question id=\\"q2\\">' in json.dumps(body["messages"])


@pytest.mark.parametrize("fault", IN_THE_REPLY)
async def test_a_spoiled_reply_costs_its_own_scores_alone(
    steps: Path, server: OpenAIServer, fault: Fault
) -> None:
    """Whatever a reply lacks is asked one question a call: in the end all is judged, each score at
    its question."""
    server.score, server.reasons_from = true_score, 101
    server.misbehave(fault, when=shares)
    chosen = settings_for(server)
    list_run, answers = await asked(steps, chosen, listed(3))
    assert list_run.exit_code == 0 and {answer.coverage.unjudged for answer in answers} == {0}
    assert not (await misplaced(steps, chosen, listed(3)))[1]
    calls = shared_calls(server)
    assert calls.count(3) == list_run.shared.calls and (1 in calls) == (
        fault is not Fault.FOREIGN_ID
    )
    assert sum(answer.coverage.judged for answer in answers) == sum(
        answer.coverage.candidates for answer in answers
    )


async def test_a_model_that_cannot_share_is_asked_alone(
    steps: Path, server: OpenAIServer
) -> None:
    """After several replies without a score sharing stops, and every memory is still judged."""
    server.score = true_score
    server.misbehave(Fault.MALFORMED_CONTENT, times=1_000, when=shares)
    list_run, answers = await asked(
        steps, settings_for(server, pack_size=4, concurrency=1), listed(2)
    )
    assert {answer.coverage.unjudged for answer in answers} == {0}
    assert shared_calls(server).count(2) <= 8 and any(
        "stopped sharing" in warning for warning in list_run.warnings
    )
    assert list_run.saved.calls < 0, "what was paid in vain is not hidden"


def is_of_questions(body: dict[str, Any]) -> bool:
    """Whether this prompt has the shared form, even for one question."""
    return "<questions>" in json.dumps(body["messages"])


async def test_a_model_that_never_reads_the_shared_form_is_asked_as_ask_does(
    steps: Path, server: OpenAIServer
) -> None:
    """Every memory is judged, in the form of `xscore ask`; a later list does not pay for the lesson
    again."""
    server.score = true_score
    server.misbehave(Fault.MALFORMED_CONTENT, times=10_000, when=is_of_questions)
    list_run, answers = await asked(
        steps, settings_for(server, pack_size=4, concurrency=1), listed(3)
    )
    assert list_run.exit_code == 0 and {answer.coverage.unjudged for answer in answers} == {0}
    assert (
        sum(answer.coverage.judged for answer in answers)
        == 3 * answers[0].coverage.candidates
        > 0
    )
    assert any("shared a prompt" in warning for warning in list_run.warnings)
    in_vain = sum(map(is_of_questions, server.counts.bodies))
    assert 0 < in_vain <= 8 and list_run.took.calls == server.counts.judging_requests
    server.reset()
    server.misbehave(Fault.MALFORMED_CONTENT, times=10_000, when=is_of_questions)
    repeated, answers = await asked(steps, settings_for(server, pack_size=4), listed(3))
    assert repeated.exit_code == 0
    assert server.counts.requests == 0
    assert {answer.coverage.judged for answer in answers} == {0}


@pytest.mark.parametrize(("pack_size", "shared"), [(20, 3), (60, 0)])
async def test_a_form_that_gave_no_score_is_not_used_for_one_question(
    steps: Path, server: OpenAIServer, pack_size: int, shared: int
) -> None:
    """Too few shared prompts to give up after, or packs too large to share: each question is asked
    as by `ask`, and a replay finds it."""
    server.score = true_score
    server.misbehave(Fault.MALFORMED_CONTENT, times=10_000, when=is_of_questions)
    chosen = settings_for(server, pack_size=pack_size)
    _, answers = await asked(steps, chosen, listed(2))
    assert {answer.coverage.unjudged for answer in answers} == {0}
    assert shared_calls(server) == [2] * shared
    server.reset()
    _, answers = await asked(
        steps, replace(chosen, judge=replace(chosen.judge, replay=True)), listed(2)
    )
    assert {answer.coverage.unjudged for answer in answers} == {0}
    assert server.counts.requests == 0


async def test_a_host_that_rejects_shared_prompts_is_asked_alone(
    steps: Path, server: OpenAIServer
) -> None:
    """A context too small for several questions is used for one."""
    server.score = true_score
    server.misbehave(Fault.TOO_LONG, times=1_000, when=shares)
    _, answers = await asked(steps, settings_for(server, pack_size=4, concurrency=1), listed(2))
    assert {answer.coverage.unjudged for answer in answers} == {0}


async def test_the_cap_holds_for_the_whole_run(steps: Path, server: OpenAIServer) -> None:
    """Shared calls and turns together never exceed the cap, and judgments are kept."""
    server.score = true_score
    chosen = settings_for(server, pack_size=4)
    capped = replace(chosen, budget=replace(chosen.budget, max_usd=Decimal("0.05")))
    async with Pipeline.open(steps, capped) as pipeline:
        list_run = await ask_list(
            priced(pipeline.parts, "0.01"),
            listed(4),
            TurnOptions(answer=False),
            like=Turn(task=""),
        )
        (spent,) = pipeline.store.connection.execute("SELECT sum(cost) FROM call").fetchone()
    assert (spent, list_run.exit_code) == (
        50_000_000_000,
        4,
    )
    assert list_run.took.cost_usd == Decimal("0.05")
    before = server.counts.judgments.total()
    repeated, answers = await asked(steps, chosen, listed(4))
    assert repeated.exit_code == 0 and not (await misplaced(steps, chosen, listed(4)))[1]
    assert server.counts.judgments.total() == sum(
        answer.coverage.candidates for answer in answers
    )
    assert sum(answer.coverage.cached for answer in answers) == before, "nothing is paid twice"


async def test_ctrl_c_keeps_what_was_paid(steps: Path, server: OpenAIServer) -> None:
    """Ctrl-C during shared judging: exit 130, no turn starts; the next run pays only for the
    rest."""
    server.score, server.latency_s = true_score, 0.05
    chosen = settings_for(server, pack_size=4, concurrency=1)
    hears = StageWaiter("judge")
    work = asyncio.create_task(asked(steps, chosen, listed(3), observer=hears))
    await hears.heard.wait()
    while server.counts.judgments.total() == 0:  # noqa: ASYNC110  the server counts in a thread of its own
        await asyncio.sleep(0.005)
    work.cancel()
    list_run, answers = await work
    assert (list_run.ended, list_run.exit_code, answers) == ("interrupted", 130, [])
    paid = server.counts.judgments.total()
    assert list_run.judged_together == paid > 0
    server.latency_s = 0.0
    repeated, answers = await asked(steps, chosen, listed(3))
    assert repeated.exit_code == 0
    assert server.counts.judgments.total() == sum(
        answer.coverage.candidates for answer in answers
    )
    assert not (await misplaced(steps, chosen, listed(3)))[1]


async def test_two_at_once_pay_once(steps: Path, server: OpenAIServer) -> None:
    """Two concurrent runs of one list: every judgment is paid for once, and both have all of
    them."""
    server.score, server.latency_s = true_score, 0.02
    chosen = settings_for(server, pack_size=4)
    both = await asyncio.gather(*(asked(steps, chosen, listed(4)) for _ in range(2)))
    for list_run, answers in both:
        assert list_run.exit_code == 0 and {answer.coverage.unjudged for answer in answers} == {
            0
        }
    assert set(server.counts.judgments.values()) == {4}, (
        "four questions, each memory once for each"
    )
    assert not (await misplaced(steps, chosen, listed(4)))[1]


async def test_a_memory_in_parts_is_judged_by_each_question(
    make_repo: MakeRepo, server: OpenAIServer
) -> None:
    """An oversized memory is judged apart, its score is the best of its parts, and later runs know
    all of them."""
    long = (
        "def long(row):\n"
        + "".join(f"    row = step_{at}(row, {at})\n" for at in range(900))
        + "    return row\n"
    )
    repo = make_repo({**MANY, "src/long.py": long})
    server.score = lambda memory, turn: (
        93 if "step_700(" in memory.text and "number 1" in turn else 5
    )
    chosen = settings_for(server)
    list_run, answers = await asked(repo, chosen, listed(3))
    assert set(shared_calls(server)) == {1, 3} and list_run.exit_code == 0
    scores = {
        answer.task: [
            (chosen_memory.entity, chosen_memory.raw_score) for chosen_memory in answer.selected
        ]
        for answer in answers
    }
    assert scores[listed(3).all[1].task] == [("long", 0.93)]
    assert scores[listed(3).all[0].task] == []
    server.reset()
    await asked(repo, chosen, listed(3))
    assert server.counts.requests == 0


class _StoredJudgments:
    """The judgments of one question, and who claims its contents."""

    def __init__(self) -> None:
        self.judgments: list[Judgment] = []

    async def write(self, judgments: Any) -> None:
        """Store them."""
        self.judgments.extend(judgments)


class _ForeignClaims(NoClaims):
    """Claims in which another process has the first pack."""

    def __init__(self) -> None:
        self.asked = 0

    async def claim(self, packs: Any, *, at_most: int) -> list[ClaimResult]:
        """Say that the first pack is claimed elsewhere."""
        self.asked += 1
        return [
            ClaimResult(ClaimState.THEIRS if self.asked == 1 else ClaimState.OURS, {})
            for _ in packs
        ]


CODE = {made.id: (made, text) for made, text in real_code()[:24]}
PACKS = [
    Pack(
        f"p{at}",
        tuple(made for made, _ in list(CODE.values())[at * 8 : at * 8 + 8]),
        is_lasting=True,
    )
    for at in range(3)
]


def together(
    provider: Provider, kept: list[_StoredJudgments], claims: Any = NoClaims
) -> SharedPackJudge:
    """Three packs for as many questions as there are to keep for."""
    builder = PromptBuilder(
        JudgeModel(name="m"), PackProfile(), b"secret", layout=QUESTIONS_LAYOUT
    )
    askings = [
        SharedQuestion(
            turn_text=f"<turn>\n<task>\nTask number {at}\n</task>\n</turn>",
            priors={},
            write=stored.write,
            claims=claims() if at == 0 else NoClaims(),
        )
        for at, stored in enumerate(kept)
    ]
    return SharedPackJudge(
        provider=provider,
        builder=builder,
        texts=lambda members: {member.id: CODE[member.id][1] for member in members},
        units=[SharedUnit(pack, tuple(range(len(kept)))) for pack in PACKS],
        askings=askings,
        concurrency=2,
        stop=StopSignal(),
    )


def truth(content: str, number: int) -> float:
    """The score of a content for a question: all scores in one test differ."""
    order = sorted(candidate.content_hash for candidate, _ in CODE.values())
    return (order.index(content) * 4 + number) / 100


def scored(memory: Any, question: str) -> float:
    """Judge with the true scores."""
    candidate = next(
        known_candidate
        for known_candidate, text in CODE.values()
        if known_candidate.entity == memory.entity and known_candidate.path == memory.path
    )
    return truth(candidate.content_hash, int(question.split("number ")[1][0]))


@settings(max_examples=30, deadline=None)
@given(st.randoms(use_true_random=False))
def test_no_damage_to_replies_misplaces_a_score(random: Any) -> None:
    """Replies are cut, lose, swap and repeat questions and ids: what is kept is right for its own
    question."""

    def tamper(_: Request, text: str) -> str:
        reply = json.loads(text)
        scores = list(reply["scores"].items())
        random.shuffle(scores)
        for at, (code, by_id) in enumerate(scores):
            entries = [pair for pair in by_id.items() if random.random() > 0.2]
            random.shuffle(entries)
            scores[at] = (random.choice([code, code, code, "q9"]), dict(entries))
        spoiled = json.dumps({"scores": dict(scores), "reasons": reply["reasons"]})
        if random.random() < 0.3:
            spoiled = f"Sure: {spoiled[: random.randrange(len(spoiled))]}"
        return spoiled.replace("3", random.choice(["3", "3", "NaN"]), 1)

    kept = [_StoredJudgments() for _ in range(4)]
    pass_ = together(ScriptedProvider(score=scored, tamper=tamper), kept)
    asyncio.run(pass_.run())
    for number, stored in enumerate(kept):
        for judgment in stored.judgments:
            digits = {
                f"{truth(judgment.content_hash, number) * 100:.0f}",
                f"{judgment.score * 100:.0f}",
            }
            assert len(digits) == 1, f"question {number} was given {judgment}"
        assert {judgment.content_hash for judgment in stored.judgments} == pass_.judged[number]


async def test_a_pack_that_another_pays_for_is_left_to_the_question() -> None:
    """The others share the pack without that question; it joins them for the remaining packs."""
    kept = [_StoredJudgments() for _ in range(3)]
    provider = ScriptedProvider(score=scored)
    pass_ = together(provider, kept, _ForeignClaims)
    await pass_.run()
    assert sorted(len(request.reply_questions) for request in provider.requests) == [2, 3, 3]
    assert [len(judged) for judged in pass_.judged] == [16, 24, 24]


async def test_nothing_is_written_after_the_run_closed() -> None:
    """If one question's judgments cannot be stored, the others' are stored before the error is
    raised."""

    class Failing(_StoredJudgments):
        async def write(self, judgments: Any) -> None:
            raise StoreError("disk full", hint="make room")

    class Slow(_StoredJudgments):
        async def write(self, judgments: Any) -> None:
            await asyncio.sleep(0.05)
            await super().write(judgments)

    kept = [Failing(), Slow()]
    with pytest.raises(StoreError, match="disk full"):
        await together(ScriptedProvider(score=scored), kept).run()
    closed_with = len(kept[1].judgments)
    await asyncio.sleep(0.2)
    assert len(kept[1].judgments) == closed_with > 0


@pytest.mark.parametrize("questions", [1, 2])
async def test_a_new_host_that_does_not_know_the_shared_form_is_asked_alone(
    steps: Path, server: OpenAIServer, questions: int
) -> None:
    """The first contact is a list, and fails in the form that questions share: each question is
    judged by itself."""
    server.misbehave(Fault.MALFORMED_CONTENT, times=1_000, when=is_of_questions)
    list_run, answers = await asked(steps, settings_for(server, probe=True), listed(questions))
    assert (list_run.exit_code, {answer.coverage.unjudged for answer in answers}) == (0, {0})
    assert not any(answer.ranked_by for answer in answers)


async def test_a_host_that_refuses_the_key_leaves_a_list_to_words(
    steps: Path, server: OpenAIServer
) -> None:
    """Each question of a list gets the ranking that it would get alone: exit 3."""
    server.misbehave(Fault.WRONG_KEY, times=1_000)
    list_run, answers = await asked(steps, settings_for(server, probe=True), listed(2))
    assert list_run.exit_code == 3
    assert [answer.ranked_by for answer in answers] == ["lexical", "lexical"]
