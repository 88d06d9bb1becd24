"""Replay the boosts on recorded judgments: who leaves the top K, and who is lifted over the threshold.

    python benchmarks/boosts_replay.py --judgments judgments.jsonl --cases commits.jsonl --archives FOLDER

`judgments.jsonl`: {id, judged: [{path, name, kind, start, end, score}]}, scores 0..100 of a model on functions and
classes. `commits.jsonl`: {id, gold_entities, anchor: {registry, package, version, artifact, sha256}}. Missing archives
are downloaded into FOLDER (pip and npm registries) and checked. Call edges come from the archive's source, cut by
`xscore.indexer`: a called name counts where it is defined once in the same file, or once in the whole pool.
What the record cannot show: tests are not in these pools, and there is no history, so test links are not replayed and
recency only as its worst case (every candidate was modified today).
"""

import argparse
import hashlib
import json
import subprocess
import sys
import tarfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from xscore.indexer.memories import cut_file, source_file
from xscore.pipeline.boosts import BOOSTERS, boost
from xscore.pipeline.ranking import reaches
from xscore.records import Candidate, Edge, Judgment, Kind, Layer, Origin, Outcome, Ranked, Relation, Turn
from xscore.settings import BoostSettings, SelectionSettings

COUNTED = ("gold kept", "others kept", "gold lifted", "others lifted")
NOW = 1_800_000_000.0


class Case(Struct, frozen=True):
    """One recorded turn with its links."""

    id: str
    outcomes: tuple[Outcome, ...]
    gold: frozenset[str]
    edges: tuple[Edge, ...]
    matched: int


def main() -> None:
    arguments = _arguments()
    known = {case["id"]: case for case in _lines(arguments.cases)}
    cases = [
        _case(recorded, known[recorded["id"]], arguments.archives)
        for recorded in _lines(arguments.judgments)
        if recorded["id"] in known
    ]
    entities = sum(len(case.outcomes) for case in cases)
    matched = sum(case.matched for case in cases)
    print(f"{len(cases)} cases, {entities:,} judgments, {matched / entities:.0%} found in the archives,", end=" ")
    print(f"{sum(len(case.edges) for case in cases):,} call edges\n")
    heads = "".join(f"{head:>15}" for head in ("gold out of K", *COUNTED))
    print(f"{'variant':44}{heads}")
    for name, settings, place, recent in _variants():
        _report(name, cases, settings, place=place, recent=recent)


def _variants() -> Iterator[tuple[str, BoostSettings, str, bool]]:
    off = {"dependency": 0.0, "dependent": 0.0, "test_link": 0.0, "recency": 0.0, "locality": 0.0}
    yield "no boosts", BoostSettings(**off), "", False
    for name, says in (("dependency", "called by what passes"), ("dependent", "calls what passes")):
        for amount in (0.05, 0.10, 0.15):
            yield f"{says}: {amount:.2f}", BoostSettings(**{**off, name: amount}), "", False
    for hub in (2, 5, 10, 1_000):
        settings = BoostSettings(**{**off, "dependency": 0.10, "dependent": 0.05, "hub_degree": hub})
        yield f"both: 0.10 and 0.05, damped from degree {hub}", settings, "", False
    for amount in (0.03, 0.05):
        for place in ("gold", "other"):
            yield f"current file ({place}): {amount:.2f}", BoostSettings(**{**off, "locality": amount}), place, False
    for amount in (0.03, 0.05):
        yield f"all modified today: {amount:.2f}", BoostSettings(**{**off, "recency": amount}), "", True
    for place in ("", "gold", "other"):
        yield f"defaults, current file: {place or 'none'}", BoostSettings(), place, False


def _report(name: str, cases: Sequence[Case], settings: BoostSettings, *, place: str, recent: bool) -> None:
    totals: Counter[str] = Counter()
    selection = SelectionSettings()
    for case in cases:
        file = _current_file(case, place)
        turn = Turn(task=case.id, file=file)
        ranked = boost(
            [_aged(outcome, recent) for outcome in case.outcomes],
            edges=case.edges,
            degrees=_degrees(case.edges),
            turn=turn,
            settings=settings,
            threshold=selection.threshold,
            now=NOW,
            boosters=BOOSTERS,
        )
        _count(totals, case, ranked, selection)
    print(f"{name:44}{totals['gold out']:>15}" + "".join(f"{totals[column]:>15}" for column in COUNTED))


def _count(totals: Counter[str], case: Case, ranked: Sequence[Ranked], selection: SelectionSettings) -> None:
    order = sorted(ranked, key=lambda each: (-each.score, -each.judgment.score, each.candidate.id))
    for place, each in enumerate(order):
        who = "gold" if each.candidate.id in case.gold else "others"
        kept = reaches(each.score, selection.threshold) and place < selection.top_k
        totals[f"{who} kept"] += kept
        totals[f"{who} lifted"] += kept and not reaches(each.judgment.score, selection.threshold)
        totals[f"{who} out"] += place >= selection.top_k


def _current_file(case: Case, place: str) -> str:
    """A file the user may be in: that of a gold entity, or the largest that holds none."""
    gold = sorted({o.candidate.path for o in case.outcomes if o.candidate.id in case.gold})
    if place == "gold":
        return gold[0] if gold else ""
    others = Counter(o.candidate.path for o in case.outcomes if o.candidate.path not in gold)
    return others.most_common(1)[0][0] if place == "other" and others else ""


def _aged(outcome: Outcome, recent: bool) -> Outcome:
    if not recent:
        return outcome
    c = outcome.candidate
    young = Candidate(c.id, c.content_hash, c.layer, c.kind, c.path, c.entity, 0, 0, c.language, c.tokens, NOW)
    return Outcome(young, outcome.result, outcome.origin)


def _degrees(edges: Sequence[Edge]) -> Mapping[str, int]:
    degrees: Counter[str] = Counter()
    for edge in edges:
        degrees.update((edge.source, edge.target))
    return degrees


def _case(recorded: Mapping[str, Any], case: Mapping[str, Any], archives: Path) -> Case:
    outcomes = []
    for each in recorded["judged"]:
        id_ = f"{each['path']}::{each['name']}"
        candidate = Candidate(id_, id_, Layer.GRAPH, Kind.FUNCTION, each["path"], each["name"], 0, 0, "", 1, 0.0)
        outcomes.append(Outcome(candidate, Judgment(id_, each["score"] / 100), Origin.JUDGED))
    ids = {outcome.candidate.id for outcome in outcomes}
    calls = _calls(_archive(case["anchor"], archives))
    return Case(
        id=recorded["id"],
        outcomes=tuple(outcomes),
        gold=frozenset(f"{gold['path']}::{gold['name']}" for gold in case["gold_entities"]) & ids,
        edges=tuple(_edges(calls, ids)),
        matched=len(ids & set(calls)),
    )


def _calls(archive: Path) -> dict[str, tuple[str, ...]]:
    """Entity -> names it calls, for each source file of an archive."""
    calls: dict[str, tuple[str, ...]] = {}
    with tarfile.open(archive) as tar:
        for member in tar:
            path = member.name.partition("/")[2]
            if not (member.isfile() and path.endswith((".py", ".js", ".ts", ".mjs", ".cjs"))):
                continue
            opened = tar.extractfile(member)
            text = opened.read().decode("utf-8", "replace").replace("\r\n", "\n") if opened else ""
            for piece in cut_file(source_file(path, text, window_lines=60))[0]:
                calls[f"{path}::{piece.entity}"] = piece.facts.dependencies
    return calls


def _edges(calls: Mapping[str, Sequence[str]], ids: set[str]) -> Iterator[Edge]:
    by_name: dict[str, list[str]] = defaultdict(list)
    for id_ in ids:
        by_name[id_.partition("::")[2].rpartition(".")[2]].append(id_)
    for source in sorted(ids & set(calls)):
        for name in dict.fromkeys(name.rpartition(".")[2] for name in calls[source]):
            found = by_name.get(name, [])
            same_file = [id_ for id_ in found if id_.partition("::")[0] == source.partition("::")[0]]
            for target in same_file if len(same_file) == 1 else found if len(found) == 1 else []:
                if target != source:
                    yield Edge(source, target, Relation.CALLS)


def _archive(anchor: Mapping[str, str], folder: Path) -> Path:
    path = folder / anchor["artifact"].replace("/", "-")
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        wanted = f"{anchor['package']}=={anchor['version']}"
        if anchor["registry"] == "pypi":
            command = [sys.executable, "-m", "unearth", "--no-binary", "-d", str(folder), wanted]
        else:
            command = ["npm", "pack", wanted.replace("==", "@"), "--pack-destination", str(folder)]
        subprocess.run(command, check=True, capture_output=True)
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != anchor["sha256"]:
        raise SystemExit(f"{path} is not what was recorded: {found}")
    return path


def _lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--judgments", type=Path, required=True)
    parser.add_argument("--cases", type=Path, required=True)
    parser.add_argument("--archives", type=Path, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    main()
