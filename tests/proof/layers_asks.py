"""Turns of the layers' state machine: a scripted or lexical judge, and an answer that quotes what
was kept.

The receipt is held against a count of the pool that was made with plain SQL between the index run
and the judging.
"""

import asyncio
import json
from collections.abc import Collection, Sequence
from contextlib import closing

from msgspec import Struct

from tests.proof.layers_model import Model, words_in
from tests.proof.layers_world import World, reader, rows_of
from tests.proof.layers_writes import RULES
from xscore.pipeline.build import Pipeline
from xscore.records.memory import Kind, MemoryStatus
from xscore.records.receipt import Answer
from xscore.records.turn import Turn
from xscore.settings import (
    IndexSettings,
    JudgeSettings,
    PrimarySettings,
    Settings,
    StoreSettings,
)

HIGH = 0.95
_CANDIDATES = """
    SELECT id, content_hash FROM memory WHERE status IN ('active', 'stale') AND NOT (
        kind = 'exchange' AND (
            thread = :thread OR key IN (SELECT turn_key FROM turn WHERE task = :task)))
"""


class Ask(Struct, frozen=True):
    """A question."""

    task: str
    about: str = ""
    """A distinctive word: memories with it are kept, and the answer quotes them; empty: none."""
    is_lexical: bool = False
    answers: bool = True
    fresh: bool = False


class AskedTurns(Struct):
    """What was asked and judged so far."""

    judged: dict[tuple[str, str], set[str]]
    """Task and script -> the contents that the scripted judge has judged."""
    erased: set[str]
    """Partly erased contents, which may be judged or not."""

    def erase(self, contents: Sequence[str]) -> None:
        """Record erased contents."""
        self.erased.update(contents)


def take(world: World, model: Model, asked_turns: AskedTurns, ask: Ask) -> Answer:
    """Take the turn and record its result."""
    quoted = [
        memory.words
        for memory in model.live()
        if ask.about and ask.about in words_in(memory.words)
    ]
    quoted = [words for words in quoted if "\n" not in words]
    scripted_answer = f"It was said: {quoted[0]}" if quoted else "Nobody said anything of it."
    rules = [
        {"text": form, "score": HIGH, "reason": f"it speaks of {ask.about}"}
        for form in _forms(ask.about)
    ]
    (world.folder / "judge.json").write_text(json.dumps({"rules": rules}))
    (world.folder / "primary.json").write_text(json.dumps({"answer": scripted_answer}))
    with world.closed():
        answer, candidates, before = asyncio.run(_turn(world, ask, model))
    _check_receipt(answer, set(candidates.values()), asked_turns, ask)
    _enter(world, model, answer, ask, before)
    _check_kept(model, answer, ask, candidates.keys())
    return answer


def _forms(word: str) -> list[str]:
    return [word, word.capitalize()] if word else []


async def _turn(
    world: World, ask: Ask, model: Model
) -> tuple[Answer, dict[str, str], set[str]]:
    judge, primary = (f"scripted:{world.folder / name}.json" for name in ("judge", "primary"))
    settings = Settings(
        judge=JudgeSettings(model="lexical" if ask.is_lexical else judge),
        primary=PrimarySettings(model=primary),
        index=IndexSettings(git=False),
        memory=RULES,
        store=StoreSettings(user_data_dir=world.user_dir),
    )
    async with Pipeline.open(world.project, settings, clock=lambda: world.now) as pipeline:
        await pipeline.index()
        model.looked(world.versions)
        (thread,) = pipeline.store.connection.execute(
            "SELECT coalesce((SELECT thread FROM session WHERE branch = '' AND closed_at IS NULL"
            " AND current_at > 0 ORDER BY current_at DESC, thread LIMIT 1), '')"
        ).fetchone()
        candidates = _candidates(world, "" if ask.fresh else thread, ask.task)
        before = set(rows_of(pipeline.store))
        answer = await pipeline.ask(Turn(task=ask.task, fresh=ask.fresh), answer=ask.answers)
    return answer, candidates, before


def _candidates(world: World, thread: str, task: str) -> dict[str, str]:
    """Return the content of each memory that may be judged, by id.

    An exchange of the same session may not, since the answering model is shown it anyway, nor may
    an earlier answer to the same task.
    """
    candidates = dict[str, str]()
    parameters = {"thread": thread or "\0", "task": task}
    for path in world.databases:
        if path.exists():
            with closing(reader(path)) as connection:
                candidates |= connection.execute(_CANDIDATES, parameters).fetchall()
    return candidates


def _has_passing(answer: Answer) -> bool:
    return any(not memory.below_threshold for memory in answer.selected)


def _check_receipt(
    answer: Answer, contents: set[str], asked_turns: AskedTurns, ask: Ask
) -> None:
    """Assert that all took part, the sum adds up, and nothing is judged twice."""
    got = answer.coverage
    is_without_result = (ask.is_lexical or ask.answers) and not _has_passing(answer)
    assert answer.exit_code == int(is_without_result), (answer.exit_code, answer.warnings)
    assert got.candidates == got.judged + got.cached + got.carried + got.unjudged
    assert got.candidates == len(contents), (
        f"{got.candidates} candidates, {len(contents)} contents are live"
    )
    assert got.unjudged == 0
    if ask.is_lexical:
        return
    judged_before = asked_turns.judged.setdefault((ask.task, ask.about), set())
    at_most, at_least = (
        len(contents & judged_before),
        len((contents & judged_before) - asked_turns.erased),
    )
    assert at_least <= got.cached <= at_most, (
        f"{got.cached} cached, {at_least}..{at_most} were judged before"
    )
    judged_before |= contents


def _enter(world: World, model: Model, answer: Answer, ask: Ask, before: set[str]) -> None:
    """Record the exchange made from the answer, and the memories kept for it."""
    rows = rows_of(world.store)
    key, thread = world.store.connection.execute(
        "SELECT turn_key, thread FROM turn WHERE id = ?", (answer.turn_id,)
    ).fetchone()
    exchange = next(
        (id_ for id_, row in rows.items() if row["kind"] == "exchange" and row["key"] == key),
        "",
    )
    # From nothing, no model is asked to answer.
    assert bool(answer.answer) is (ask.answers and _has_passing(answer))
    is_kept = bool(answer.answer) and any(
        memory.kind != Kind.EXCHANGE for memory in answer.selected
    )
    if is_kept:
        assert exchange, "an answer that rests on memories left no exchange"
        row = rows[exchange]
        assert (row["thread"], row["status"]) == (thread, MemoryStatus.ACTIVE)
        assert row["text"] == f"Task: {ask.task}\n\nAnswer: {answer.answer}"
        was = model.held.pop(exchange, None)
        assert was is None or was.kind is Kind.EXCHANGE
        model.came(exchange, rows)
    assert set(rows) - before <= {exchange}, "a turn left more than its exchange"
    kept = {memory.id for memory in answer.selected}
    model.kept_by[answer.turn_id] = (exchange if is_kept else "", kept)
    model.touched.update(kept)


def _check_kept(model: Model, answer: Answer, ask: Ask, candidates: Collection[str]) -> None:
    """Assert that something is kept where the scripted judge finds the word in a candidate."""
    if ask.about and not ask.is_lexical:
        about_it = {memory.id for memory in model.live() if ask.about in words_in(memory.words)}
        expected_ids = about_it.intersection(candidates)
        assert answer.selected or not expected_ids, f"no memory about {ask.about} was kept"
