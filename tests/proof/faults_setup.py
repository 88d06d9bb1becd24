"""The scene of the fault proofs: a real repository, a loopback host of either dialect, and one
check for every turn.

Every memory has one true score, made of its name, which is what the hosts give; so a score that a
fault invented, scaled or moved to a neighbour is seen. True scores keep clear of the values that
faults write (0, 1, 70, 90, 99, 100). It does not say what a fault should end in; `faults_table`
does. Trade-off: twelve memories in packs of three are far below the sizes of daily use, so that a
fault has several packs to strike and the proofs stay fast.
"""

import json
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from msgspec import Struct

from tests.conftest import MakeRepo
from tests.servers import AnthropicServer, Fault, LoopbackServer, OpenAIServer
from tests.servers.prefix_cache import Tally
from tests.waiting import rows
from xscore.pipeline.build import Pipeline
from xscore.platform.errors import XscoreError
from xscore.providers.scripted import ShownMemory
from xscore.records.receipt import Answer
from xscore.records.turn import Turn
from xscore.settings import (
    AnthropicSettings,
    JudgeSettings,
    MemorySettings,
    OpenAISettings,
    PrimarySettings,
    Settings,
    validate_group,
)

TASK = Turn(task="The tide tables are an hour off after the change of clocks; mend them.")
PACK_SIZE = 4
"""A new pack leaves room for a newcomer, so it holds the three functions of a file."""
POISONED = "def dusk_2("
"""Appears in every request about this memory and in no other."""
OF_THE_REPOSITORY = "moon_over"
"""Appears in every memory and in no text of ours."""
JUDGE, ANSWERER = "judge-2", "strong-1"
SERVERS: dict[str, type[LoopbackServer]] = {
    "openai": OpenAIServer,
    "anthropic": AnthropicServer,
}
DIALECTS = tuple(SERVERS)
EACH_DIALECT = pytest.mark.parametrize("dialect", DIALECTS)
ALWAYS = 10_000
"""How often a fault strikes that does not pass."""


def by_turns(cases: Iterable[Any], *, verify: Collection[Fault] = ()) -> list[Any]:
    """Give each case to one dialect, in turn. Provider tests cover every fault in both dialects."""
    params = []
    for number, case in enumerate(cases):
        dialect, values = (
            DIALECTS[number % len(DIALECTS)],
            case if isinstance(case, tuple) else (case,),
        )
        names = [value.name if isinstance(value, Fault) else str(value) for value in values]
        marks = [pytest.mark.verify] if values[0] in verify else []
        params.append(
            pytest.param(dialect, *values, id="-".join((dialect, *names)), marks=marks)
        )
    return params


KEYS = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
URLS = {"openai": "OPENAI_BASE_URL", "anthropic": "ANTHROPIC_BASE_URL"}
When = Callable[[dict[str, Any]], bool]


def environment_at(
    dialect: str, url: str, *, key: str = "", probe: bool = False
) -> dict[str, str]:
    """Return the variables of a user whose models are at this host."""
    keys = {KEYS[dialect]: key} if key else {}
    return {
        **keys,
        URLS[dialect]: url,
        "XSCORE_JUDGE_PROBE": str(int(probe)),
        "XSCORE_MEMORY_OBSERVE": "0",  # what files show of the project would be judged, too
    }


def models_of(dialect: str) -> tuple[str, ...]:
    """Return the flags for judge and answering model."""
    return ("--judge", f"{dialect}:{JUDGE}", "--model", f"{dialect}:{ANSWERER}")


def function(name: str) -> str:
    """Return a function long enough that its own prompt is not short."""
    lines = "\n".join(
        f"    hour += moon_over('{name}', quarter={n}, harbour=harbour) % {n + 7}"
        for n in range(12)
    )
    words = (
        "Say when the water is highest in this harbour, by the moon, the quarter and the hour of"
        " the clock."
    )
    return (
        f'def {name}(harbour: str, hour: int) -> int:\n    """{words}"""\n{lines}\n    return'
        " hour\n"
    )


def harbours(make_repo: MakeRepo, *, files: int = 4, functions: int = 3) -> Path:
    """Commit a repository of several files with several functions each."""
    names = ("dawn", "noon", "dusk", "night")
    return make_repo(
        {
            f"tides/{names[n % 4]}{n // 4 or ''}.py": "\n\n".join(
                function(f"{names[n % 4]}{n // 4 or ''}_{m}") for m in range(functions)
            )
            for n in range(files)
        }
    )


def truth(path: str, entity: str) -> int:
    """The one true score of a memory, 0..100; some are worth keeping."""
    drawn = crc32(f"{path}::{entity}".encode())
    return 72 + drawn % 10 if drawn % 5 == 0 else 3 + drawn % 60


def by_truth(memory: ShownMemory, _turn: str) -> tuple[int, str]:
    """Score as these proofs' host does."""
    return truth(memory.path, memory.entity), f"true of {memory.entity}"


def host_of_dialect(dialect: str, **options: Any) -> LoopbackServer:
    """A host of this dialect that gives true scores, without reasons, unless told to misbehave."""
    return SERVERS[dialect](score=by_truth, **{"reasons_from": 101, **options})


def poisoned(body: dict[str, Any]) -> bool:
    """Whether a request asks about the poisoned memory."""
    return body["model"] == JUDGE and POISONED in json.dumps(body)


def judging(body: dict[str, Any]) -> bool:
    """Whether a request judges."""
    return bool(body["model"] == JUDGE)


def answering(body: dict[str, Any]) -> bool:
    """Whether a request asks for the answer."""
    return bool(body["model"] == ANSWERER)


def settings_at(
    dialect: str, url: str, *, key: str = "", answer_s: float = 20.0, **judge: Any
) -> Settings:
    """Settings that judge and answer at one host of this dialect, already probed."""
    where = {"base_url": url, "api_key": key}
    judge_fields = {
        "model": f"{dialect}:{JUDGE}",
        "probe": False,
        "pack_size": PACK_SIZE,
        "attempts": 1,
        "timeout_s": 4.0,
        **judge,
    }
    return Settings(
        memory=MemorySettings(observe=False),
        judge=validate_group(JudgeSettings, judge_fields),
        primary=PrimarySettings(model=f"{dialect}:{ANSWERER}", timeout_s=answer_s),
        openai=validate_group(OpenAISettings, where if dialect == "openai" else {}),
        anthropic=validate_group(AnthropicSettings, where if dialect == "anthropic" else {}),
    )


class FinishedTurn(Struct, frozen=True):
    """The end of a turn, with a line for every candidate."""

    answer: Answer
    lines: tuple[dict[str, Any], ...]

    @property
    def lost(self) -> set[str]:
        """`path::entity` of the unjudged."""
        return {
            f"{line['path']}::{line['entity']}"
            for line in self.lines
            if line["raw_score"] is None
        }

    @property
    def causes(self) -> set[str]:
        """Their causes."""
        return {line["cause"] for line in self.lines if line["raw_score"] is None}

    @property
    def said(self) -> str:
        """Return all messages to the user."""
        details = [sample.detail for sample in self.answer.unjudged.sample]
        return "\n".join([*self.answer.warnings, *details])


async def ask(
    root: Path, settings: Settings, *, answer: bool = False, turn: Turn = TASK
) -> FinishedTurn:
    """Take one turn as a new process does, and account for every candidate.

    Raises what the turn raises.
    """
    scores = root.parent / "scores.jsonl"
    async with Pipeline.open(root, settings) as pipeline:
        answered = await pipeline.ask(turn, answer=answer, all_scores=scores)
    lines = tuple(json.loads(line) for line in scores.read_text().splitlines())
    scores.unlink()
    return accounted(FinishedTurn(answered, lines))


def true_score(line: dict[str, Any]) -> set[float]:
    """Return the only score that a candidate's line may have."""
    return {truth(line["path"], line["entity"]) / 100}


def accounted(
    ended: FinishedTurn, allowed: Callable[[dict[str, Any]], set[float]] = true_score
) -> FinishedTurn:
    """Assert what holds after any fault: the sum, a cause for each unjudged memory, and only
    allowed scores."""
    coverage = ended.answer.coverage
    assert coverage.candidates == len(ended.lines) > 0
    assert (
        coverage.candidates
        == coverage.judged + coverage.cached + coverage.carried + coverage.unjudged
    )
    for line in ended.lines:
        if line["outcome"] == "unjudged":
            assert line["raw_score"] is None and line["score"] is None and line["cause"]
        else:
            assert any(abs(line["raw_score"] - score) < 1e-4 for score in allowed(line)), line
            assert line["cause"] == ""
    assert len(ended.lost) == coverage.unjudged == sum(ended.answer.unjudged.by_cause.values())
    assert set(ended.answer.unjudged.by_cause) == ended.causes
    latency = ended.answer.latency
    assert (
        min(latency.index, latency.judge, latency.select, latency.primary, latency.total) >= 0
    )
    return ended


async def failure(root: Path, settings: Settings) -> XscoreError:
    """Ask when nothing can succeed, and return the raised error."""
    try:
        ended = await ask(root, settings)
    except XscoreError as error:
        return error
    raise AssertionError(f"the turn ended: {ended.answer.coverage} {ended.said}")


async def pays_only_for(
    lost: set[str], root: Path, host: LoopbackServer, settings: Settings
) -> FinishedTurn:
    """Ask again without the fault: all have their true score, and the host judged only the lost
    ones, once."""
    host.reset()
    repeated = await ask(root, settings)
    assert repeated.answer.exit_code == 0 and not repeated.lost
    assert repeated.answer.coverage.judged == len(lost)
    assert dict(host.counts.judged_places) == dict.fromkeys(lost, 1)
    return repeated


def attempts(root: Path) -> list[tuple[str, float, str]]:
    """Return stage, seconds and outcome of every attempt in the ledger."""
    return rows(root, "SELECT stage, duration_s, outcome FROM call ORDER BY started_at")


class ThinkingOpenAI(OpenAIServer):
    """A host whose model thinks until its output cap is used up, and then returns nothing."""

    def envelope(
        self, body: dict[str, Any], content: str, tally: Tally, fault: Any
    ) -> dict[str, Any]:
        """Return thinking and an empty reply."""
        reply = super().envelope(body, "", tally, fault)
        cap = body.get("max_completion_tokens", body.get("max_tokens"))
        reply["choices"][0]["finish_reason"] = "length"
        reply["usage"]["completion_tokens"] = cap
        reply["usage"]["completion_tokens_details"]["reasoning_tokens"] = cap
        return reply


class ThinkingAnthropic(AnthropicServer):
    """A host whose model thinks until its output cap is used up, and then returns nothing."""

    def envelope(
        self, body: dict[str, Any], content: str, tally: Tally, fault: Any
    ) -> dict[str, Any]:
        """Return thinking and an empty reply."""
        reply = super().envelope(body, "", tally, fault)
        reply["stop_reason"] = "max_tokens"
        reply["usage"]["output_tokens"] = body["max_tokens"]
        reply["usage"]["output_tokens_details"]["thinking_tokens"] = body["max_tokens"]
        return reply


THINKING: dict[str, type[LoopbackServer]] = {
    "openai": ThinkingOpenAI,
    "anthropic": ThinkingAnthropic,
}
