"""Past answers are not evidence: which are candidates, where they are shown, and which become
memories."""

from pathlib import Path

from tests.pipeline.conftest import settings_for
from tests.servers.openai_server import OpenAIServer
from tests.servers.scoring import table
from xscore.pipeline.build import Pipeline
from xscore.pipeline.parts import TurnOptions
from xscore.pipeline.turn import run_turn
from xscore.records.memory import Kind
from xscore.records.turn import Scope, Turn
from xscore.scorer.lexical import lexical_priors
from xscore.store.fetched_pool import WithoutExchanges

ASKED = "Where is the discount taken?"


def exchanges(pipeline: Pipeline) -> list[str]:
    """Return the titles of all exchanges stored as memories."""
    pool = pipeline.store.memories(
        [candidate.id for candidate in pipeline.store.pool() if candidate.kind is Kind.EXCHANGE]
    )
    return [memory.title for memory in pool.values()]


async def test_an_answer_to_the_same_question_is_no_candidate(
    shop: Path, server: OpenAIServer
) -> None:
    """Asked again in a new session, with another file or not, the earlier answer is left out;
    another's may be used."""
    server.score = table({"shop/prices.py::total": 95, "Answer:": 99})
    async with Pipeline.open(shop, settings_for(server)) as pipeline:
        await pipeline.ask(Turn(task=ASKED))
        assert exchanges(pipeline) == [ASKED]
        for turn in (
            Turn(task=ASKED, fresh=True),
            Turn(task=ASKED, fresh=True, errors="Traceback"),
        ):
            repeated = await pipeline.ask(turn, answer=False)
            assert {memory.kind for memory in repeated.selected} == {"function"}
        other_question = await pipeline.context(
            Turn(task="And where is it rounded?", fresh=True)
        )
        explained = await pipeline.explain(
            next(m.id for m in other_question.selected if m.kind == "exchange"),
            turn_id=repeated.turn_id,
        )
        evaluated = await run_turn(
            pipeline.parts,
            Turn(task="And where is it rounded?"),
            TurnOptions(answer=False, isolated=True),
        )
        session_turn = Turn(task="And where is it rounded?", scope=Scope(layers=("session",)))
        with_them = await run_turn(
            pipeline.parts, session_turn, TurnOptions(answer=False, isolated=True)
        )
    assert [memory.kind for memory in other_question.selected] == ["exchange", "function"]
    evidence, _, past = (other_question.bundle or "").partition("<past_answers>")
    assert "def total" in evidence and f"Task: {ASKED}" in past and "Task:" not in evidence
    assert explained.outcome == "not_a_candidate"
    assert {memory.kind for memory in evaluated.selected} == {"function"}, (
        "an evaluation has none by default"
    )
    assert {memory.kind for memory in with_them.selected} == {"exchange"}


async def test_an_answer_without_evidence_becomes_no_memory(
    shop: Path, server: OpenAIServer
) -> None:
    """With nothing kept, or only past answers, the answer is in the receipt and nowhere else."""
    async with Pipeline.open(shop, settings_for(server)) as pipeline:
        server.score = table({}, default=2)
        empty = await pipeline.ask(Turn(task="Why is the moon round?"), answer_anyway=True)
        assert empty.answer and exchanges(pipeline) == []
        server.score = table({"shop/prices.py::total": 95})
        await pipeline.ask(Turn(task=ASKED))
        server.score = table({"Answer:": 99}, default=2)
        repeated = await pipeline.ask(Turn(task="And where is it rounded?", fresh=True))
        assert repeated.answer and [memory.kind for memory in repeated.selected] == ["exchange"]
        assert exchanges(pipeline) == [ASKED]


async def test_a_turn_without_memory_reads_code_and_documents_only(
    shop: Path, server: OpenAIServer
) -> None:
    """A11: a scope of index layers has no exchange among its candidates or in the answering
    prompt."""
    server.score = table({"shop/prices.py::total": 95})
    prompts: list[str] = []
    server.answer = lambda prompt: prompts.append(prompt) or "Done."  # type: ignore[func-returns-value]  # `append` returns None
    async with Pipeline.open(shop, settings_for(server)) as pipeline:
        await pipeline.ask(Turn(task=ASKED))
        await pipeline.ask(Turn(task="Now the cart."))
        answer = await pipeline.ask(
            Turn(task="And the README?", scope=Scope(layers=("graph", "vector")))
        )
    assert ["<session>" in prompt for prompt in prompts] == [False, True, False]
    assert answer.coverage.unjudged == 0 and answer.answer == "Done."


async def test_an_exchange_is_judged_by_its_answer(shop: Path, server: OpenAIServer) -> None:
    """Its task, asked again in other words, gives a junk answer no score; the model judge is not
    shown the task."""
    server.score, server.answer = table({"shop/prices.py::total": 95}), "I could not tell."
    same_question = Turn(task="Where is the discount of a cart taken off?", fresh=True)
    async with Pipeline.open(shop, settings_for(server)) as pipeline:
        await pipeline.ask(Turn(task=ASKED))
        (exchange,) = [
            memory for memory in pipeline.store.pool() if memory.kind is Kind.EXCHANGE
        ]
        texts = pipeline.store.texts([exchange])
        words = lexical_priors(
            same_question, pipeline.store.pool(), pipeline.store.term_vectors
        )
        candidates = pipeline.store.fetch(tests="full", without=WithoutExchanges()).candidates
    assert "could not tell" in texts[exchange.id] and ASKED not in texts[exchange.id]
    assert words[exchange.id] == 0 < max(words.values())
    assert exchange.content_hash in {memory.content_hash for memory in candidates}
