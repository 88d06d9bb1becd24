"""What a follow-up in a thread saves, and what carrying loses.

    python benchmarks/threads.py [--memories 10000] [--latency-s 0.2] [--in-flight 64]
    python benchmarks/threads.py --bench DIR --repositories DIR

The first form plays whole turns without an answer against a chat judge on loopback: a question that
also indexes the repository, the first turn of a thread, its follow-up. Ends with 1 where the
follow-up takes more than a fifth of the first turn's seconds or dollars. Anchor of the same run:
waves of calls at the limit of calls in flight, x latency.

The second form replays recorded scores of a strong model, `judgments.jsonl` next to
`commits.jsonl`, over the trees they were given for; DIR/OWNER+NAME is a clone. No second
wording of a task was recorded. So a pair is two tasks of the same repository: the second
follows the first on its tree, functions that are the same text in both have both scores, and
this is harder than a follow-up, since most pairs share no file. Which memories are judged again
is worked out by the pipeline over the whole index; tests, documents and what else has no score
stay out of the top 15, and their earlier score is 0. "Drawn" rows give them one drawn from
those recorded, so that they compete as real ones would. A reworded task is simulated: its score
is the recorded one, and the earlier one that with noise. Ends with 1 where the pairs keep less
than 90 % of the full re-judgment's top 15, or judge more than 20 % of what could be carried.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from judging_load import server, settings_for, write_tree
from msgspec import Struct
from msgspec.structs import replace
from trees import checked_out

from xscore.indexer.index import index_repository
from xscore.pipeline.build import Pipeline
from xscore.pipeline.carrying import likely_memories
from xscore.platform.paths import find_root
from xscore.records.calls import Stage
from xscore.records.receipt import Answer
from xscore.records.turn import Turn
from xscore.scorer.lexical import lexical_priors
from xscore.settings import BudgetSettings, ProviderSettings, Settings
from xscore.store.store import Store

MOST_OF_FIRST = 1 / 5
KEPT, JUDGED = 0.90, 0.20
K, PASSES, NEAR, FEWEST_NEAR = 15, 0.7, 0.5, 10
"""The defaults of selection: K, the threshold, and from where a memory comes near it."""
LEAST = (0.0, 0.1, 0.3, 0.7)
"""Scores from which the top 15 is counted: below 0.1 is the rubric's "unrelated"."""
NOISE = (0.0, 0.05, 0.1)
PRICED_AS = "gpt-5-mini"
"""A model with a price; the host is the plain server."""

ANOTHER = Turn(task="why is a part of the buffer retried?", thread="another")
FIRST = Turn(task="why does the upload queue drop its last batch?", thread="bench")
FOLLOW_UP = Turn(
    task="and which reader keeps the state of a retry over its limit?", thread="bench"
)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--latency-s", type=float, default=0.2)
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--bench", type=Path)
    parser.add_argument("--repositories", type=Path)
    options = parser.parse_args()
    if options.bench and options.repositories:
        return kept_by_carrying(options.bench, options.repositories)
    return saved_by_carrying(options)


def saved_by_carrying(options: argparse.Namespace) -> int:
    """Play the turns; print what each took."""
    with tempfile.TemporaryDirectory() as folder, server(options.latency_s) as url:
        home = Path(folder)
        write_tree(home / "tree", options.memories)
        subprocess.run(["git", "init", "-q", str(home / "tree")], check=True)
        settings = settings_for(
            "openai", url, home, model=f"openai:{PRICED_AS}", concurrency=options.in_flight
        )
        settings = replace(
            settings,
            provider=ProviderSettings(price="vendor"),
            budget=BudgetSettings(max_usd=None),
        )
        played(home / "tree", settings, ANOTHER, options)  # imports, the index, packs
        first = played(home / "tree", settings, FIRST, options)
        second = played(home / "tree", settings, FOLLOW_UP, options)
    shares = {
        "seconds": second.wall_s / first.wall_s,
        "dollars": float(second.usd / first.usd),
        "calls": second.calls / first.calls,
    }
    print(
        ", ".join(f"{share:.3f} of the first turn's {name}" for name, share in shares.items())
    )
    return int(max(shares["seconds"], shares["dollars"]) > MOST_OF_FIRST)


class TurnCost(Struct, frozen=True):
    """What one turn took."""

    wall_s: float
    usd: Any
    calls: int


def played(root: Path, settings: Settings, turn: Turn, options: argparse.Namespace) -> TurnCost:
    """Play one turn."""

    async def ask() -> Answer:
        async with Pipeline.open(root, settings) as pipeline:
            return await pipeline.ask(turn, answer=False)

    began, cpu = time.perf_counter(), time.process_time()
    answer = asyncio.run(ask())
    took, cpu = time.perf_counter() - began, time.process_time() - cpu
    of, spent = answer.coverage, answer.spent(Stage.JUDGE)
    ideal = -(-spent.calls // options.in_flight) * options.latency_s
    print(
        f"{turn.thread:8} {took:6.2f} s ({cpu:.2f} CPU, judging {answer.latency.judge:.2f}, calls"
        f" alone {ideal:.2f})  {of.judged:,} judged, {of.carried:,} carried, {spent.calls:,} calls,"
        f" ${spent.cost_usd}"
    )
    return TurnCost(took, spent.cost_usd, spent.calls)


class Case(Struct, frozen=True):
    """One recorded task on its tree."""

    repo: str
    files: frozenset[str]
    """Files that its change touched."""
    task: str
    named: Mapping[tuple[str, str], str]
    """Path and name -> memory id."""
    texts: Mapping[str, str]
    scores: Mapping[str, float]
    priors: Mapping[str, float]
    """Priors of the whole index."""
    links: Mapping[str, Sequence[str]]
    """Memory id -> what is linked to it, once for each edge."""


def kept_by_carrying(bench: Path, repositories: Path) -> int:
    """Replay the pairs; print what is kept of the top 15 at which share of the judgments."""
    commit_by_id = {
        case["id"]: case for case in map(json.loads, (bench / "commits.jsonl").open())
    }
    judged = list(map(json.loads, (bench / "judgments.jsonl").open()))
    with tempfile.TemporaryDirectory() as folder:
        cases = [
            read_case(commit_by_id[case["id"]], case["judged"], repositories, Path(folder))
            for case in judged
        ]
    pairs = list(pairs_of(cases))
    near = [pair for pair in pairs if pair[0].files & pair[1].files]
    large = [pair for pair in pairs if len(pair[1].priors) >= 1_000]
    halves = [[pair for pair in pairs if cases.index(pair[1]) % 2 == half] for half in (0, 1)]
    report("two tasks, all pairs", pairs)
    for half, name in zip(halves, ("first", "other"), strict=True):
        report(f"… the {name} half", half)
    report("… drawn", [with_drawn_scores(pair) for pair in pairs])
    report("… that changed the same file", near)
    report("… of 1,000 memories or more", large)
    for spread in NOISE:
        draw = random.Random(7)
        noisy = [
            (
                case,
                case,
                {id_: score + draw.gauss(0, spread) for id_, score in case.scores.items()},
            )
            for case in cases
        ]
        report(f"reworded, noise {spread}", noisy)
        report("… drawn", [with_drawn_scores(pair) for pair in noisy])
    kept, share = summary(pairs)[0][0], summary(pairs)[1]
    return int(kept < KEPT or share > JUDGED)


def read_case(
    commit: Mapping[str, Any], judged: Sequence[Mapping[str, Any]], clones: Path, folder: Path
) -> Case:
    """Index the tree of a case, and find the memory of each recorded score."""
    root = checked_out(clones, commit["repo"], commit["base_commit"], folder / commit["id"])
    with contextlib.closing(
        Store.open(find_root(root), user_data_dir=folder / "user")
    ) as store:
        index_repository(store.connection, store.root, Settings().index, now=time.time())
        pool = store.fetch().candidates
        priors = lexical_priors(Turn(task=commit["query"]), pool, store.term_vectors)
        links: dict[str, list[str]] = {}
        for edge in store.edges_touching(priors):
            links.setdefault(edge.source, []).append(edge.target)
            links.setdefault(edge.target, []).append(edge.source)
    by_path: dict[str, list[Any]] = {}
    for judged_memory in pool:
        by_path.setdefault(judged_memory.path, []).append(judged_memory)
    named, texts, scores = dict[tuple[str, str], str](), dict[str, str](), dict[str, float]()
    for judged_memory in judged:
        lines = range(judged_memory["start"], judged_memory["end"] + 1)
        memory_there = max(
            by_path.get(judged_memory["path"], ()),
            key=lambda memory: overlap(memory, lines),
            default=None,
        )
        if memory_there is not None and overlap(memory_there, lines) > 0.5:
            named[judged_memory["path"], judged_memory["name"]] = memory_there.id
            text = (root / judged_memory["path"]).read_text("utf-8", "replace").split("\n")
            texts[memory_there.id] = "\n".join(text[lines.start - 1 : lines.stop - 1])
            scores[memory_there.id] = judged_memory["score"] / 100
    return Case(
        commit["repo"],
        frozenset(commit["gold_files"]),
        commit["query"],
        named,
        texts,
        scores,
        priors,
        links,
    )


def overlap(memory: Any, lines: range) -> float:
    """Return the share of lines that a memory and a recorded entity have in common."""
    common = min(memory.end_line + 1, lines.stop) - max(memory.start_line, lines.start)
    return max(0, common) / (
        max(memory.end_line + 1, lines.stop) - min(memory.start_line, lines.start)
    )


Pair = tuple[Case, Case, Mapping[str, float]]
"""The earlier task, the one that follows, and the earlier scores by memory id of the second
tree."""


def pairs_of(cases: Sequence[Case]) -> Iterator[Pair]:
    """Yield ordered pairs of tasks where at least half of the second's functions were in the
    first's tree."""
    for first, second in itertools.permutations(cases, 2):
        if first.repo == second.repo:
            earlier = {
                id_: first.scores[before]
                for name, id_ in second.named.items()
                if (before := first.named.get(name))
                and first.texts[before] == second.texts[id_]
            }
            if len(earlier) >= len(second.scores) / 2:
                yield first, second, earlier


def with_drawn_scores(pair: Pair) -> Pair:
    """Give each memory without an earlier score one of those recorded in the pair."""
    first, second, earlier = pair
    draw, recorded = random.Random(first.task + second.task), sorted(earlier.values())
    return (
        first,
        second,
        {id_: earlier.get(id_, draw.choice(recorded)) for id_ in second.priors} | dict(earlier),
    )


def replay(pair: Pair) -> tuple[list[tuple[int, int]], float]:
    """Return what is kept of how many, from each of `LEAST` up, and the share of the pool that is
    judged again."""
    _, case, earlier = pair
    order = sorted(earlier, key=lambda id_: -earlier[id_])
    kept = [id_ for id_ in order if earlier[id_] >= PASSES][:K]
    rest = [id_ for id_ in order if id_ not in kept]
    shown = [
        *kept,
        *(id_ for place, id_ in enumerate(rest) if place < FEWEST_NEAR or earlier[id_] >= NEAR),
    ]
    ties = Counter(end for id_ in shown for end in case.links.get(id_, ()))
    judged_again = likely_memories(shown, ties, case.priors, earlier)
    carried = {
        id_: score if id_ in judged_again else earlier.get(id_, score)
        for id_, score in case.scores.items()
    }
    full, carried_top = top(case.scores, case.priors), set(top(carried, case.priors))
    relevant = [[id_ for id_ in full if case.scores[id_] >= least] for least in LEAST]
    return [
        (len(carried_top & set(relevant_ids)), len(relevant_ids)) for relevant_ids in relevant
    ], len(judged_again) / len(case.priors)


def top(scores: Mapping[str, float], priors: Mapping[str, float]) -> list[str]:
    """Return the best 15, with the selection's tie-breaks."""
    return sorted(scores, key=lambda id_: (-scores[id_], -priors[id_], id_))[:K]


def summary(pairs: Sequence[Pair]) -> tuple[list[float], float]:
    """Return the shares kept over all pairs, and the mean share judged again."""
    replayed = [replay(pair) for pair in pairs]
    sums = []
    for at in range(len(LEAST)):
        pairs = [figures[0][at] for figures in replayed]
        sums.append([sum(column) for column in zip(*pairs, strict=True)])
    return [kept / max(1, total) for kept, total in sums], sum(
        figures[1] for figures in replayed
    ) / len(replayed)


def report(name: str, pairs: Sequence[Pair]) -> None:
    kept, share = summary(pairs)
    shares = ", ".join(
        f"{kept_share:.3f} from {least:g}"
        for kept_share, least in zip(kept, LEAST, strict=True)
    )
    print(
        f"{name:32} {len(pairs):3} replayed, {share:.3f} judged again; kept of the top 15: {shares}"
    )


if __name__ == "__main__":
    sys.exit(main())
