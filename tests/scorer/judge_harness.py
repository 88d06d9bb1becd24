"""A model judge on the bench: scripted or loopback provider, texts from a mapping, every write
recorded."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from tests.scorer.stdlib_candidates import candidate
from xscore.prompts.judge import JudgeModel
from xscore.providers.provider import OnText, Provider
from xscore.providers.scripted import ScriptedProvider, ShownMemory
from xscore.records.calls import Completion, Finish, Request, Usage
from xscore.records.candidates import Candidate
from xscore.records.judgment import Judgment, Unjudged
from xscore.records.turn import Turn
from xscore.scorer.model_judge import JudgingPlan, ModelJudge
from xscore.scorer.pack_assignment import assign_packs
from xscore.scorer.packs import PackProfile
from xscore.scorer.prompt_builder import PromptBuilder

Code = Mapping[str, tuple[Candidate, str]]
TURN = Turn(task="Fix the row that is lost on write")
SECRET = b"the store's own secret"


class JudgeHarness(Struct):
    """What a judge needs, and its results."""

    code: Code
    provider: Provider
    profile: PackProfile = field(default_factory=PackProfile)
    model: JudgeModel = field(default_factory=lambda: JudgeModel(name="m"))
    written: list[Judgment] = field(default_factory=list)
    loaded: list[int] = field(default_factory=list)
    """The number of texts of each load."""

    @property
    def candidates(self) -> list[Candidate]:
        """The whole pool."""
        return [candidate for candidate, _ in self.code.values()]

    def judge(self, **changes: object) -> ModelJudge:
        """A judge over the pool's own packs."""
        plan = JudgingPlan(
            texts=self.texts,
            write=self.write,
            slots=assign_packs(self.candidates, {}, self.profile).slots,
            priors={},
            concurrency=4,
        )
        return ModelJudge(
            self.provider,
            PromptBuilder(self.model, self.profile, SECRET),
            replace(plan, **changes),
        )

    def texts(self, candidates: Sequence[Candidate]) -> dict[str, str]:
        """Load texts."""
        self.loaded.append(len(candidates))
        return {
            candidate.id: self.code[candidate.id][1]
            for candidate in candidates
            if candidate.id in self.code
        }

    async def write(self, judgments: Sequence[Judgment]) -> None:
        """Commit."""
        await asyncio.sleep(0)
        self.written.extend(judgments)

    async def run(
        self, *, turn: Turn = TURN, **changes: object
    ) -> dict[str, Judgment | Unjudged]:
        """Judge the whole pool; results by content hash, each exactly once."""
        return await settle(self.judge(**changes), self.candidates, turn=turn)


async def settle(
    judge: ModelJudge, candidates: Sequence[Candidate], *, turn: Turn = TURN
) -> dict[str, Judgment | Unjudged]:
    """Return results by content hash; fail on a duplicate or a missing one."""
    results: dict[str, Judgment | Unjudged] = {}
    async for result in judge.judge(turn, candidates):
        assert result.content_hash not in results
        results[result.content_hash] = result
    assert results.keys() == {candidate.content_hash for candidate in candidates}
    return results


class ProviderWrapper:
    """A provider around a provider, for what a script cannot express; override `complete`."""

    name = "scripted"
    host = "-"

    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        self.calls = 0

    async def complete(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Pass on."""
        self.calls += 1
        return await self.provider.complete(request, on_text)

    async def aclose(self) -> None:
        """Pass on."""
        await self.provider.aclose()


def ended(text: str, finish: Finish, request: Request) -> Completion:
    """A completion with this end."""
    return Completion(
        text=text, finish=finish, usage=Usage(input_tokens=request.input_tokens), model="m"
    )


def by_length(memory: ShownMemory, _: str) -> float:
    """A predictable score."""
    return (len(memory.entity) % 100) / 100


def causes(results: dict[str, Judgment | Unjudged]) -> Counter[str]:
    """Count results by cause, including `judged`."""
    return Counter(
        result.cause.value if isinstance(result, Unjudged) else "judged"
        for result in results.values()
    )


def have_own_scores(code: Code, results: dict[str, Judgment | Unjudged]) -> bool:
    """Whether every memory is judged, with the score that `by_length` gives to its own name."""
    scores = {
        hash_: result.score for hash_, result in results.items() if isinstance(result, Judgment)
    }
    return scores == {
        candidate.content_hash: (len(candidate.entity) % 100) / 100
        for candidate, _ in code.values()
    }


LONG = "def long():\n" + "".join(
    f"    step_{number} = call({number})\n\n" for number in range(900)
)


def oversized(code: Code) -> Code:
    """The pool with one memory of several packs' size."""
    large = candidate("asyncio/large.py", "long", LONG)
    return {**code, large.id: (large, LONG)}


class Failing(ProviderWrapper):
    """Raises an error for some requests."""

    def __init__(
        self, error: Exception, *, above: int = 0, after: int = 0, only: str = ""
    ) -> None:
        super().__init__(ScriptedProvider(score=by_length))
        self.error, self.above, self.after, self.only = error, above, after, only

    async def complete(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Fail, or pass on."""
        self.calls += 1
        if (
            self.calls > self.after
            and request.candidates > self.above
            and self.only in request.content[0]
        ):
            raise self.error
        return await self.provider.complete(request, on_text)
