"""Damaged replies of a decision host, for both APIs and both forms, over whole turns against a real
host.

A reply is damaged as a tree of JSON (entries removed, repeated, renamed, moved, replaced) and then
as bytes. What a turn may make of it is worked out here from the bytes that were sent, apart from
the code under test: a memory may have a score only where the reply states one valid value under
that memory's name, once.
"""

import asyncio
import json
import math
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tests.proof.faults_setup import FinishedTurn, accounted, by_truth
from tests.servers.decision_server import ANSWER_WIRES, DecisionServer
from xscore.pipeline.build import Pipeline
from xscore.prompts.judge import LEVELS
from xscore.providers.scripted import shown_memories
from xscore.records.turn import Turn
from xscore.settings import (
    DecisionSettings,
    HostAccess,
    JudgeSettings,
    MemorySettings,
    Settings,
    validate_group,
)

MEMORIES = 12


class JsonPairs(list[Any]):
    """A JSON object as pairs, so that a name can appear twice."""


WITHOUT_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)
"""An example is two turns, and shrinking takes minutes."""
JUNK: tuple[Any, ...] = (
    *(
        math.nan,
        math.inf,
        1.2,
        -0.1,
        1.0000001,
        0,
        1,
        0.5,
        10**400,
        True,
        False,
        None,
        "0.9",
        "",
        "m1",
    )
    * 2,
    *(
        [0.9],
        [],
        JsonPairs(),
        JsonPairs([("probability", 0.9)]),
        JsonPairs([("type", "refusal")]),
        "refusal",
        "score",
        "noul",
    ),
    *("x" * 70_000, [[[[[[[[[[]]]]]]]]]]),
)
NAMES = (
    "m1",
    "m2",
    "m12",
    "m13",
    "somebody",
    "",
    "M1",
    "m1 ",
    "answers",
    "type",
    "noul",
    "probability",
    "\ud800",
)
PLACES = st.floats(0, 1, exclude_max=True)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["remove", "repeat", "repeat as", "rename", "replace", "move"]),
        PLACES,
        PLACES,
        st.integers(0, len(JUNK) - 1),
        st.sampled_from(NAMES),
    ),
    max_size=12,
)
CUTS = st.tuples(
    st.sampled_from(["", "", "", "", "", "", "end", "put", "nest"]),
    PLACES,
    st.sampled_from([b"", b"0", b"9", b'"', b"}", b",", b"-", b"[", b"\xff", b"{"]),
)
"""Most replies stay JSON: of any other, nothing is believed."""


def tree(value: Any) -> Any:
    """Return a reply as mutable lists and pairs."""
    if isinstance(value, dict):
        return JsonPairs([name, tree(child)] for name, child in value.items())
    return [tree(child) for child in value] if isinstance(value, list) else value


def written(value: Any) -> str:
    """Return it as JSON."""
    if isinstance(value, JsonPairs):
        return (
            "{"
            + ", ".join(f"{json.dumps(name)}: {written(child)}" for name, child in value)
            + "}"
        )
    return (
        "[" + ", ".join(map(written, value)) + "]"
        if isinstance(value, list)
        else json.dumps(value)
    )


def entries(value: Any) -> list[tuple[list[Any], int]]:
    """Return the place of every entry of every list and object, except the model's name."""
    places = []
    for at, child in enumerate(value if isinstance(value, list) else ()):
        inner = child[1] if isinstance(value, JsonPairs) else child
        if not (isinstance(value, JsonPairs) and child[0] == "model"):
            places += [(value, at), *entries(inner)]
    return places


def change(
    places: list[tuple[list[Any], int]], step: tuple[str, float, float, int, str]
) -> None:
    """Apply one step of damage at one of these places."""
    kind, place, second_place, number, name = step
    # A later step may change it.
    (holder, at), junk = places[int(place * len(places))], deepcopy(JUNK[number])
    named, elsewhere = isinstance(holder, JsonPairs), int(second_place * len(holder))
    match kind:
        case "remove":
            del holder[at]
        case "repeat":
            holder.insert(elsewhere, deepcopy(holder[at]))
        case "repeat as":
            holder.insert(elsewhere, [holder[at][0], junk] if named else junk)
        case "rename" if named:
            holder[at] = [name, holder[at][1]]
        case "replace":
            holder[at] = [holder[at][0], junk] if named else junk
        case "move":
            holder.insert(elsewhere, holder.pop(at))


def damaged(reply: dict[str, Any], steps: list[Any], cut: tuple[str, float, bytes]) -> bytes:
    """Return the bytes of a reply after these steps, truncated or with inserted bytes."""
    reply_tree = tree(reply)
    for step in steps:
        places = entries(reply_tree)
        inner = [entry for entry in places if entry[0] is not reply_tree]
        if places:
            # Seldom the whole reply.
            change(inner if inner and step[2] < 0.95 else places, step)
    data = written(reply_tree).encode()
    kind, place, put = cut
    start = data.find(b'"answers"') % len(data)  # the model's name, before it, stays
    at = start + int(place * (len(data) - start))
    tails = {"end": b"", "put": put + data[at + 1 :], "nest": b"[" * 5_000}
    return data[:at] + tails[kind] if kind in tails else data


def single(pairs: Any, name: str) -> Any:
    """Return the single value under a name; None if there is none or more than one."""
    matching = (
        [value for key, value in pairs if key == name] if isinstance(pairs, JsonPairs) else []
    )
    return matching[0] if len(matching) == 1 else None


def is_probability(value: object) -> bool:
    """Whether it is a number in 0..1."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def stated_values(answer: Any) -> set[float]:
    """Return the scores that an answer may be read as."""
    if not isinstance(answer, JsonPairs) or len({name for name, _ in answer}) < len(answer):
        return set()
    values = {
        float(single(answer, name))
        for name in ("noul", "probability")
        if is_probability(single(answer, name))
    }
    shares_given = single(answer, "probabilities")
    if isinstance(shares_given, JsonPairs):
        shares = [single(shares_given, str(number)) for number in range(len(LEVELS))]
    else:
        shares_given = shares_given if isinstance(shares_given, list) else []
        labelled = [
            (single(labelled_share, "label"), single(labelled_share, "probability"))
            for labelled_share in shares_given
        ]
        shares = [
            next((p for label, p in labelled if label == name), None) for name, _ in LEVELS
        ]
    if (
        shares_given
        and len(shares_given) == len(LEVELS)
        and all(map(is_probability, shares))
        and abs(sum(shares) - 1) <= 0.0201
    ):
        values.add(
            sum(share * middle for share, (_, middle) in zip(shares, LEVELS, strict=True))
            / sum(shares)
        )
    return values


def stated(data: bytes, names: list[str]) -> dict[str, set[float]]:
    """Return what a reply states for each question that it answers once."""
    try:
        reply_tree = json.loads(data.decode(), object_pairs_hook=JsonPairs)
    except (ValueError, RecursionError):
        return {}
    answers = single(reply_tree, "answers")
    if isinstance(answers, JsonPairs):
        return {name: stated_values(single(answers, name)) for name in names}
    if not isinstance(answers, list):
        return {}
    if len(answers) == len(names) and all(single(answer, "name") is None for answer in answers):
        return {
            name: stated_values(answer) for name, answer in zip(names, answers, strict=True)
        }
    named_answers = [(single(answer, "name"), answer) for answer in answers]
    return {name: stated_values(single(JsonPairs(named_answers), name)) for name in names}


class Host:
    """A loopback host that damages replies on request and records what it stated of each memory."""

    def __init__(self, server: DecisionServer) -> None:
        self.server = server
        self.damage: Callable[[dict[str, Any]], bytes] | None = None
        self.spoiled = 0
        self.stated: dict[str, set[float]] = {}
        server.spoil = self._spoil

    def begin(self, damage: Callable[[dict[str, Any]], bytes], times: int) -> None:
        """Damage N replies, and forget earlier statements."""
        self.stated, self.spoiled, self.times, self.damage = {}, 0, times, damage

    def means(self, place: str) -> set[float]:
        """Return the scores that a memory may have: a stated value, or the mean of two answers near
        the threshold."""
        values = self.stated.get(place, set())
        return {(first + second) / 2 for first in values for second in values}

    def _spoil(self, reply: dict[str, Any]) -> bytes:
        is_spoiled = self.damage is not None and self.spoiled < self.times
        self.spoiled += is_spoiled
        data = self.damage(reply) if is_spoiled and self.damage else json.dumps(reply).encode()
        questions = self.server.bodies.pop()["questions"]
        named = (
            questions.items()
            if isinstance(questions, dict)
            else [(question["name"], question) for question in questions]
        )
        places = {name: shown_memories(question["instructions"])[0] for name, question in named}
        for name, values in stated(data, list(places)).items():
            self.stated.setdefault(f"{places[name].path}::{places[name].entity}", set()).update(
                values
            )
        return data


async def ask(pipeline: Pipeline, host: Host, task: str, scores: Path) -> FinishedTurn:
    """Take one turn and account for every candidate: only scores stated for that very memory."""
    answer = await pipeline.ask(Turn(task=task), answer=False, all_scores=scores)
    ended = FinishedTurn(
        answer, tuple(json.loads(line) for line in scores.read_text().splitlines())
    )
    return accounted(ended, lambda line: host.means(f"{line['path']}::{line['entity']}"))


def search(root: Path, wire: str, form: str, examples: int) -> None:
    """Take a turn at a host that damages its first replies, and repeat it at an honest one."""
    judge = {"model": f"{wire}:jev-1.14.0", "probe": False, "wire": form, "attempts": 1}
    scores, tasks = root.parent / "scores.jsonl", 0
    with DecisionServer(score=by_truth) as server, asyncio.Runner() as runner:
        host = Host(server)
        access = DecisionSettings(hosts={wire: HostAccess(server.url)})
        opened = Pipeline.open(
            root,
            Settings(
                judge=validate_group(JudgeSettings, judge),
                decisions=access,
                memory=MemorySettings(observe=False),
            ),
        )
        pipeline = runner.run(opened.__aenter__())

        @hypothesis_settings(max_examples=examples, deadline=None, phases=WITHOUT_SHRINKING)
        @given(STEPS, CUTS, st.integers(1, 4))
        def survives(steps: list[Any], cut: Any, times: int) -> None:
            nonlocal tasks
            tasks += 1
            task = f"mend the tides after the change of clocks, case {tasks}"
            host.begin(lambda reply: damaged(reply, steps, cut), times)
            first = runner.run(ask(pipeline, host, task, scores))
            assert first.answer.coverage.candidates == MEMORIES
            if not first.lost:
                return
            questions_before, host.damage = server.questions, None
            repeated = runner.run(ask(pipeline, host, task, scores))
            assert repeated.lost == set()
            drawn_twice = repeated.answer.second_draws.drawn
            assert server.questions - questions_before == len(first.lost) + drawn_twice, (
                "what was judged is not paid again"
            )

        try:
            survives()
        finally:
            runner.run(opened.__aexit__(None, None, None))


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "examples",
    [
        10,
        pytest.param(50, marks=pytest.mark.verify),
        pytest.param(2_500, marks=pytest.mark.nightly),
    ],
)
@pytest.mark.parametrize("form", ["auto", "decisions-score"])
@pytest.mark.parametrize("wire", ANSWER_WIRES)
def test_no_damage_makes_a_score(root: Path, wire: str, form: str, examples: int) -> None:
    """Every candidate is counted, none becomes zero or gets another's score, and the next turn asks
    only the rest."""
    search(root, wire, form, examples)
