"""What must hold of the state machine's store and receipts, whatever happened: the invariants of DESIGN.md.

The store is read here with plain SQL, beside the code that is on trial, and left as it is: no checkpoint, no recovery.
"""

import sqlite3
from collections import Counter
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from tests.proof.machine_judge import Paid, TrueJudge
from tests.proof.machine_turns import PRICE_USD, Ask, Taken
from tests.proof.machine_world import World, true_score
from xscore.cache.keys import judge_key, turn_key
from xscore.platform.money import dollars_of_picodollars
from xscore.prompts.judge import PROMPT_VERSION, turn_block
from xscore.records import JudgeIdentity, Turn

TASKS = ("Mend the loader.", "Why does save fail twice?")
MODELS = ("packed-1", "plain-1")
ORIGINS = ("judged", "cached", "carried", "unjudged")


class Books(Struct):
    """What is known of the payments beside what the store says."""

    lost: Counter[Paid] = field(default_factory=Counter)
    """How often a delivered judgment was rightly lost: in flight at a kill or deadline, or damaged."""
    bills: dict[str, Decimal] = field(default_factory=dict)
    """Turn -> what its receipt says."""
    committed: frozenset[Paid] = frozenset()
    salvaged: frozenset[Paid] = frozenset()
    """Committed in a store before this one, whose calls may be lost."""

    def begin_anew(self, paid: Counter[Paid], salvaged: frozenset[Paid]) -> None:
        """Take over a store that was built anew."""
        self.bills.clear()
        self.close(paid, salvaged)
        self.salvaged = salvaged

    def close(self, paid: Counter[Paid], committed: frozenset[Paid]) -> int:
        """Enter as lost what was delivered and is not committed; return how many contents that concerns."""
        owed = {key: count - self.lost[key] - (key in committed) for key, count in paid.items()}
        new = {key: count for key, count in owed.items() if count > 0}
        self.lost.update(new)
        self.committed = committed
        return len(new)


def identity(host: str, model: str) -> JudgeIdentity:
    """Name the judge as the pipeline must."""
    return JudgeIdentity("openai", host, model, "", PROMPT_VERSION, "memory_first", model == "packed-1")


def committed(database: Path, judge: TrueJudge) -> dict[Paid, float]:
    """Return every judgment in the store with its score."""
    names = {
        (turn_key(turn_block(Turn(task=task))), judge_key(identity(judge.host, model))): (model, task)
        for task in {task for task, _ in judge.said}
        for model in MODELS
    }
    rows = _rows(
        database,
        "SELECT turn_key, judge, hash, score FROM judgment"
        " JOIN query ON query.id = query_id JOIN content ON content.id = content_id",
    )
    return {(*names[key, by], hash_): score for key, by, hash_, score in rows}


def check_store(database: Path, judge: TrueJudge, books: Books) -> None:
    """Hold the store against the books: nothing lost, nothing untrue, nothing paid twice, every dollar entered."""
    assert _rows(database, "PRAGMA integrity_check") == [("ok",)]
    kept = committed(database, judge)
    gone = books.committed - kept.keys()
    assert not gone, f"committed judgments are gone: {gone}"
    books.committed = frozenset(kept)
    untrue = {key: score for key, score in kept.items() if judge.said.get(key[1:]) not in (None, round(score * 100))}
    assert not untrue, f"scores that the judge never gave: {untrue}"
    twice = {key: count for key, count in judge.delivered.items() if count - books.lost[key] > (key in kept)}
    assert not twice, f"paid without being kept, or paid again: {twice}"
    check_ledger(database, books, (kept.keys() & judge.delivered.keys()) - books.salvaged)


def check_ledger(database: Path, books: Books, delivered: set[Paid]) -> None:
    """Receipts and ledger tell the same sums, and no judgment is kept without its call."""
    spent: dict[str, Decimal] = {}
    entered = 0
    for turn, stage, outcome, candidates, cost in _rows(
        database, "SELECT turn_id, stage, outcome, candidates, cost FROM call"
    ):
        spent[turn] = spent.get(turn, Decimal(0)) + dollars_of_picodollars(cost)
        entered += candidates if (stage, outcome) == ("judge", "ok") else 0
    wrong = {turn: (bill, spent.get(turn)) for turn, bill in books.bills.items() if spent.get(turn, Decimal(0)) != bill}
    assert not wrong, f"receipt and ledger differ: {wrong}"
    assert entered >= len(delivered), "judgments are kept whose calls are not in the ledger"


def check_receipt(taken: Taken, world: World, ask: Ask) -> None:
    """Hold a receipt and its lines against the working tree and the true scores."""
    answer, lines = taken.answer, taken.lines
    coverage = answer.coverage
    counted = Counter(line["outcome"] for line in lines)
    assert coverage.candidates == len(lines) == sum(getattr(coverage, origin) for origin in ORIGINS)
    assert {origin: counted[origin] for origin in ORIGINS} == {name: getattr(coverage, name) for name in ORIGINS}
    assert answer.partial is (coverage.unjudged > 0) and (answer.exit_code != 0 or coverage.unjudged == 0)
    assert sum(answer.unjudged.by_cause.values()) == coverage.unjudged
    candidates = {line["id"] for line in lines if line["kind"] != "exchange"}
    assert candidates == taken.pool, "a memory of the scope is no candidate, or a stranger is one"
    for line in (line for line in lines if line["id"] in taken.texts):
        true = true_score(line["path"], line["entity"], taken.texts[line["id"]], answer.task)
        _check_line(line, {true})
    check_nobody_is_lost(taken, world)
    check_selection(taken, ask)


def check_scores(taken: Taken, world: World) -> None:
    """Hold scores against the working tree alone, not against what a damaged store says that it holds."""
    known = world.functions()
    for line in taken.lines:
        sources = known.get((line["path"], _plain(line["entity"])))
        if sources is not None and line["raw_score"] is not None:
            _check_line(
                line, {true_score(line["path"], line["entity"], source, taken.answer.task) for source in sources}
            )


def _check_line(line: dict[str, Any], true: set[int]) -> None:
    if line["outcome"] == "unjudged":
        assert line["raw_score"] is None and line["score"] is None and line["cause"], f"unjudged, yet scored: {line}"
    else:
        assert round(line["raw_score"] * 100) in true, f"an untrue score, {true} is right: {line}"
        assert line["raw_score"] <= line["score"] <= 1.0, f"boosts only add: {line}"


def check_nobody_is_lost(taken: Taken, world: World) -> None:
    """Every function of the working tree is a candidate, unless the scope leaves it out; and none that is gone."""
    scope = taken.answer.scope
    there = Counter(
        {
            key: len(sources)
            for key, sources in world.functions().items()
            if not scope.paths or any(key[0].startswith(path) for path in scope.paths)
        }
    )
    functions = Counter((line["path"], _plain(line["entity"])) for line in taken.lines if line["kind"] == "function")
    assert functions == there, f"lost: {there - functions}; strangers: {functions - there}"
    if not (scope.paths or scope.kinds):
        assert any(line["path"] == "README.md" for line in taken.lines)


def check_selection(taken: Taken, ask: Ask) -> None:
    """What is kept reaches the threshold and is the best there is, at most K."""
    answer = taken.answer
    scores = {line["id"]: line["score"] for line in taken.lines if line["score"] is not None}
    kept = {entry.id: entry.score for entry in answer.selected}
    assert all(abs(scores[id_] - score) < 1e-6 for id_, score in kept.items())
    passing = {id_: score for id_, score in scores.items() if score >= answer.threshold - 1e-9}
    assert kept.keys() <= passing.keys() and len(kept) == min(len(passing), ask.top_k)
    left = [score for id_, score in passing.items() if id_ not in kept]
    assert not left or max(left) <= min(kept.values()) + 1e-6


def check_money(taken: Taken, ask: Ask, *, served: int) -> Decimal:
    """Return what the receipt says that the turn cost: not above the cap, not below what the host served."""
    answer = taken.answer
    stages = [answer.judge_usage, answer.primary_usage, answer.probe_usage]
    costs = [stage.cost_usd for stage in stages if stage is not None]
    bill = sum((cost for cost in costs if cost is not None), Decimal(0))
    assert None not in costs, "every call had a price"
    assert served * PRICE_USD <= bill <= Decimal(ask.cap), f"{served} calls served, {bill} billed of {ask.cap}"
    return bill


def _plain(entity: str) -> str:
    return entity.partition("#")[0]


def _rows(database: Path, sql: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection:
        return connection.execute(sql).fetchall()
