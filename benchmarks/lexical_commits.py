"""Does the lexical judge find what a commit changed, from its message alone?

    python benchmarks/lexical_commits.py --cases commits.jsonl --ids quick_ids.txt

`--cases`: JSON lines with `id`, `query`, `repo`, `language` and `anchor` (registry, package, version, artifact, sha256,
gold_entities); `--ids`: one id a line, else all. The pool is the functions, methods and classes of the released source
without bundles and type stubs, which no commit edits (`--pool all`: every memory, documents and tests too).
Placeholders such as `<symbol>`, which stand where names were taken out of the message, are dropped. Cases in languages
whose entities the indexer does not cut are counted and left out. Ends with 1 below the targets.
"""

import argparse
import asyncio
import json
import re
from collections import defaultdict
from pathlib import Path

from lexical_sources import ENTITIES, Artifact, pool_of, tree_of
from raw_figures import CaseResult, EvaluationReport, evaluate, report

from xscore.extensions.evaluation.metrics import EntityRef
from xscore.extensions.evaluation.questions import QrelCase
from xscore.scorer.lexical import LexicalJudge
from xscore.settings import SelectionSettings

PLACEHOLDER = re.compile(r"<(?:symbol|file)>")
BUILT = re.compile(r"^dist/|\.d\.[cm]?ts$|\.pyi$")
LANGUAGES = frozenset({"python", "javascript", "typescript"})
RECALL, MRR = 0.77, 0.52
"""Targets, over all cases: where plain BM25 with paths stands."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=Path, required=True)
    parser.add_argument("--ids", type=Path)
    parser.add_argument("--cache", type=Path, default=Path(".cache/lexical"))
    parser.add_argument("--pool", choices=["entities", "all"], default="entities")
    parser.add_argument("--query", choices=["query", "query_raw"], default="query")
    parser.add_argument("--threshold", type=float, default=SelectionSettings().lexical_threshold)
    arguments = parser.parse_args()
    lines = [json.loads(line) for line in arguments.cases.read_text("utf-8").splitlines()]
    if arguments.ids:
        wanted = set(arguments.ids.read_text("utf-8").split())
        lines = [line for line in lines if line["id"] in wanted]
    known = [line for line in lines if line["language"] in LANGUAGES]
    results = asyncio.run(run(known, arguments))
    for name, rows in sorted(results.items()):
        show(name, report(rows, threshold=arguments.threshold, k=15))
    whole = report([row for rows in results.values() for row in rows], threshold=arguments.threshold, k=15)
    show("all", whole)
    if len(known) < len(lines):
        print(f"left out: {len(lines) - len(known)} cases in other languages")
    return verdict(whole, recall=RECALL, mrr=MRR)


async def run(lines: list[dict[str, object]], arguments: argparse.Namespace) -> dict[str, list[CaseResult]]:
    """Evaluate case by case, artifact by artifact; by repository."""
    results: dict[str, list[CaseResult]] = defaultdict(list)
    by_artifact = defaultdict(list)
    for line in lines:
        by_artifact[artifact_of(line)].append(line)
    for artifact, together in sorted(by_artifact.items(), key=lambda item: item[0].file):
        pool = pool_of(tree_of(artifact, arguments.cache), arguments.cache)
        if arguments.pool == "entities":
            pool = pool.of_kinds(ENTITIES).without(BUILT)
        judge = LexicalJudge(lambda vectors=pool.vectors: vectors)
        for line in together:
            case = case_of(line, arguments.query)
            measured = await evaluate(judge, pool.candidates, [case], threshold=arguments.threshold)
            results[str(line["repo"])].extend(measured.cases)
    return results


def artifact_of(line: dict[str, object]) -> Artifact:
    anchor = line["anchor"]
    assert isinstance(anchor, dict)
    return Artifact(*(anchor[name] for name in ("registry", "package", "version", "artifact", "sha256")))


def case_of(line: dict[str, object], query: str) -> QrelCase:
    anchor = line["anchor"]
    assert isinstance(anchor, dict)
    gold = tuple(EntityRef(g["path"], g["name"], g["start"], g["end"]) for g in anchor["gold_entities"])
    return QrelCase(str(line["id"]), PLACEHOLDER.sub(" ", str(line[query])), gold)


def show(name: str, measured: EvaluationReport) -> None:
    print(
        f"{name:24} n {len(measured.cases):4}  recall@15 {measured.recall:.3f}  MRR {measured.mrr:.3f}"
        f"  nDCG@15 {measured.ndcg:.3f}  kept {measured.kept:4.1f}  none kept {measured.empty:.2f}"
        f"  gold kept {measured.gold_kept:.3f}  precision of kept {measured.kept_precision:.3f}"
    )


def verdict(measured: EvaluationReport, *, recall: float, mrr: float) -> int:
    print(f"targets: recall@15 at least {recall:.2f}, MRR at least {mrr:.2f}")
    return 0 if measured.recall >= recall and measured.mrr >= mrr else 1


if __name__ == "__main__":
    raise SystemExit(main())
