"""How much of the final top 15 is there when a part of the packs has been judged, best lexical
prior first?

    python benchmarks/anytime.py [--every 30]

Questions with a known answer over real source trees: docstrings' first lines (as
`lexical_docstrings.py` asks them, every n-th). The judge is a script with noise, since
no model can be had here: what answers gets 0.90; what calls it or is called by it 0.55; the rest of
its file 0.25; everything else 0.03. To this a normal error of 0.12 is added, and one memory in a
thousand is taken for relevant by mistake (0.75), whatever its words. All is drawn from the question
and the memory, so a run can be repeated.
The packs are the pipeline's own (`ModelJudge`), in the order in which it sends them. A memory of
the final top 15 is in the provisional one as soon as it is judged, so what is counted is how many
of the 15 have been judged. The anchor is the same packs in random order (20 shuffles). Figures;
ends with 1 unless the order gives twice what chance does after 10 % of the packs and more than
chance after 20 and 50 %.
"""

import argparse
import asyncio
import random
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from lexical_docstrings import write_stripped
from lexical_sources import Pool, store_of
from msgspec import Struct, field

from xscore.extensions.evaluation.cases import EvalCase
from xscore.extensions.evaluation.metrics import EntityRef, is_same_entity
from xscore.prompts.judge import JudgeModel
from xscore.providers.scripted import ScriptedProvider, ShownMemory
from xscore.records.candidates import Candidate
from xscore.records.judgment import Judgment
from xscore.records.memory import Kind, Relation
from xscore.records.turn import Turn
from xscore.scorer.lexical import lexical_priors
from xscore.scorer.model_judge import JudgingPlan, ModelJudge
from xscore.scorer.pack_assignment import assign_packs
from xscore.scorer.packs import PackProfile
from xscore.scorer.prompt_builder import PromptBuilder
from xscore.store.store import Store

SHARES = (0.10, 0.20, 0.50)
K, THRESHOLD = 15, 0.7
ANSWER, LINKED, SAME_FILE, UNRELATED = 0.90, 0.55, 0.25, 0.03
NOISE, MISTAKEN, MISTAKE = 0.12, 0.001, 0.75
SHUFFLES = 20


class QuestionScores(Struct, frozen=True):
    """One question's candidates, pack after pack, with their scores."""

    packs: tuple[tuple[tuple[str, float], ...], ...]
    gold: frozenset[str]

    def kept(self) -> frozenset[str]:
        """Of these, what reaches the threshold, and so would be kept."""
        final = self.final()
        return frozenset(
            c for pack in self.packs for c, score in pack if c in final and score >= THRESHOLD
        )

    def final(self) -> frozenset[str]:
        """The content hashes of the best 15 of all."""
        best = sorted(
            (pair for pack in self.packs for pair in pack), key=lambda pair: (-pair[1], pair[0])
        )
        return frozenset(content for content, _ in best[:K])


class Shares(Struct):
    """Shares by how much of the packs was judged, a value a question."""

    top: dict[float, list[float]] = field(
        default_factory=lambda: {share: [] for share in SHARES}
    )
    kept: dict[float, list[float]] = field(
        default_factory=lambda: {share: [] for share in SHARES}
    )
    top_by_chance: dict[float, list[float]] = field(
        default_factory=lambda: {share: [] for share in SHARES}
    )
    gold: dict[float, list[float]] = field(
        default_factory=lambda: {share: [] for share in SHARES}
    )

    def add(self, judged: QuestionScores, seed: str) -> None:
        """Count one question."""
        final = judged.final()
        kept = judged.kept()
        for share in SHARES:
            self.top[share].append(_present(judged.packs, final, share))
            if kept:
                self.kept[share].append(_present(judged.packs, kept, share))
            self.gold[share].append(_present(judged.packs, judged.gold, share))
        drawn = random.Random(seed)
        packs = list(judged.packs)
        by_chance: dict[float, list[float]] = {share: [] for share in SHARES}
        for _ in range(SHUFFLES):
            drawn.shuffle(packs)
            for share in SHARES:
                by_chance[share].append(_present(packs, final, share))
        for share in SHARES:
            self.top_by_chance[share].append(statistics.mean(by_chance[share]))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cache", type=Path, default=Path(".cache/lexical"))
    parser.add_argument(
        "--every", type=int, default=30, help="ask only every n-th docstring question"
    )
    arguments = parser.parse_args()
    return tell("docstrings", docstrings(arguments.cache, arguments.every))


def docstrings(cache: Path, every: int) -> Shares:
    """Ask docstring questions over six packages in one pool."""
    stripped = cache / "docstrings"
    cases = [case for _, case in write_stripped(cache, stripped)][::every]
    shares = Shares()
    with store_of(stripped, cache) as store:
        pool = Pool(store.pool(), store.term_vectors()).of_kinds({Kind.FUNCTION, Kind.METHOD})
        ask_all(store, pool, cases, shares)
    return shares


def ask_all(store: Store, pool: Pool, cases: Sequence[EvalCase], shares: Shares) -> None:
    """Judge a pool for each case, and count."""
    links = linked(store, pool.candidates)
    texts = store.texts(pool.candidates)
    slots = assign_packs(pool.candidates, {}, PackProfile()).slots
    packs = len({slot.pack for slot in slots.values()})
    print(
        f"{len(cases):3} questions over {len(pool.candidates):,} memories in {packs} packs",
        flush=True,
    )
    for case in cases:
        gold = frozenset(
            c.id
            for c in pool.candidates
            if any(is_same_entity(place_of(c), place) for place in case.gold)
        )
        if not gold:
            continue
        judge = ModelJudge(
            ScriptedProvider(score=NoisyJudge(case, gold, pool.candidates, links).score),
            PromptBuilder(JudgeModel(name="scripted"), PackProfile(), b"a secret"),
            JudgingPlan(
                texts=lambda members: {member.id: texts[member.id] for member in members},
                write=_nowhere,
                slots=slots,
                priors=lexical_priors(
                    Turn(task=case.task), pool.candidates, lambda: pool.vectors
                ),
                concurrency=1,
            ),
        )
        contents = {c.content_hash for c in pool.candidates if c.id in gold}
        judged = asyncio.run(judged_packs(judge, Turn(task=case.task), pool.candidates))
        shares.add(QuestionScores(judged, frozenset(contents)), case.id)


def place_of(candidate: Candidate) -> EntityRef:
    return EntityRef(candidate.path, candidate.entity, candidate.start_line, candidate.end_line)


async def judged_packs(
    judge: ModelJudge, turn: Turn, candidates: Sequence[Candidate]
) -> tuple[tuple[tuple[str, float], ...], ...]:
    """Judge with one call in flight; give (content hash, score) pack by pack, in the order of the
    replies."""
    packs: dict[str, list[tuple[str, float]]] = {}
    async for result in judge.judge(turn, candidates):
        assert isinstance(result, Judgment), result
        packs.setdefault(result.pack or result.content_hash, []).append(
            (result.content_hash, result.score)
        )
    return tuple(map(tuple, packs.values()))


async def _nowhere(judgments: Sequence[Judgment]) -> None:
    """Keep nothing: each question is judged once."""


def linked(store: Store, candidates: Sequence[Candidate]) -> Mapping[str, set[str]]:
    """Return the callers and callees of each memory."""
    links: dict[str, set[str]] = {}
    for edge in store.edges_touching(candidate.id for candidate in candidates):
        if edge.relation is Relation.CALLS:
            links.setdefault(edge.source, set()).add(edge.target)
            links.setdefault(edge.target, set()).add(edge.source)
    return links


class NoisyJudge:
    """Scores memories for one question as the head of this file says."""

    def __init__(
        self,
        case: EvalCase,
        gold: frozenset[str],
        candidates: Sequence[Candidate],
        links: Mapping[str, set[str]],
    ) -> None:
        near = {neighbour for id_ in gold for neighbour in links.get(id_, ())}
        self._question = case.id
        self._files = {c.path for c in candidates if c.id in gold}
        self._known: dict[tuple[str, str], float] = {}
        for candidate in candidates:
            score = LINKED if candidate.id in near else 0.0
            if candidate.id in gold:
                score = ANSWER
            place = (candidate.path, candidate.entity)
            self._known[place] = max(score, self._known.get(place, 0.0))

    def score(self, memory: ShownMemory, turn: str) -> float:
        """Return the true relevance with this question's and memory's own error."""
        drawn = random.Random(
            f"{self._question}|{memory.path}|{memory.entity}|{len(memory.text)}"
        )
        true = self._known.get((memory.path, memory.entity), 0.0)
        true = true or (SAME_FILE if memory.path in self._files else UNRELATED)
        if drawn.random() < MISTAKEN:
            true = max(true, MISTAKE)
        return min(1.0, max(0.0, true + drawn.gauss(0, NOISE)))


def _present(
    packs: Sequence[Sequence[tuple[str, float]]], relevant: frozenset[str], share: float
) -> float:
    first = packs[: max(1, round(share * len(packs)))]
    seen = {content for pack in first for content, _ in pack}
    return len(relevant & seen) / len(relevant)


def tell(name: str, shares: Shares) -> int:
    """Print the shares; 1 where the order is not clearly better than chance."""
    mean = statistics.mean
    print(f"{name}: {len(shares.top[SHARES[0]])} questions")
    for share in SHARES:
        print(
            f"  after {share:4.0%} of the packs: {mean(shares.top[share]):.2f} of the final top {K}"
            f" judged (random order {mean(shares.top_by_chance[share]):.2f}); of those kept"
            f" {mean(shares.kept[share]):.2f}; the answer itself {mean(shares.gold[share]):.2f}"
        )
    better = all(
        mean(shares.top[share]) > mean(shares.top_by_chance[share]) for share in SHARES
    )
    return 0 if better and mean(shares.top[0.10]) >= 2 * mean(shares.top_by_chance[0.10]) else 1


if __name__ == "__main__":
    raise SystemExit(main())
