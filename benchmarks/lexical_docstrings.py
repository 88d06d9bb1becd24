"""Does the lexical judge find a function from the first line of its docstring, when all docstrings
are taken out?

    python benchmarks/lexical_docstrings.py

Six packages at fixed versions are in one pool of functions and methods, tests left out; every
function or method with a docstring gives one question. Docstrings are cut from the source
before it is indexed. Equal questions from several functions stay, and count as missed where
another twin comes first. Ends with 1 below the targets.
"""

import argparse
import ast
import asyncio
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean

from lexical_sources import Artifact, pool_of, tree_of
from msgspec import Struct

from xscore.extensions.evaluation import metrics
from xscore.extensions.evaluation.cases import EvalCase
from xscore.extensions.evaluation.metrics import EntityRef, entity_ref
from xscore.records.candidates import Candidate
from xscore.records.judgment import Judgment
from xscore.records.memory import Kind
from xscore.records.turn import Turn
from xscore.scorer.lexical import LexicalJudge
from xscore.settings import SelectionSettings

PACKAGES = {
    "requests": ("2.34.2", "f288924cae4e29463698d6d60bc6a4da69c89185ad1e0bcc4104f584e960b9ed"),
    "flask": ("3.1.3", "0ef0e52b8a9cd932855379197dd8f94047b359ca0a78695144304cb45f87c9eb"),
    "rich": ("15.0.0", "edd07a4824c6b40189fb7ac9bc4c52536e9780fbbfbddf6f1e2502c31b068c36"),
    "click": ("8.5.1", "9bbfada76703fd1d784b83eea012e3e8c6a001a876543ef104fa56aaaeb072b4"),
    "werkzeug": ("3.1.9", "55ca7c70a75689be937aa27f8ff4b018f06ff4838fc73045560bf0f5a1291060"),
    "networkx": ("3.6.1", "26b7c357accc0c8cde558ad486283728b65b6a95d85ee1cd66bafab4c8168509"),
}
RECALL, MRR = 0.80, 0.50
"""Targets, over all packages."""
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Documented(Struct, frozen=True):
    """A function or method with its docstring's first line."""

    name: str
    question: str


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cache", type=Path, default=Path(".cache/lexical"))
    parser.add_argument("--every", type=int, default=1, help="ask only every n-th question")
    arguments = parser.parse_args()
    threshold = SelectionSettings().lexical_threshold
    stripped = arguments.cache / "docstrings"
    cases = write_stripped(arguments.cache, stripped)
    pool = pool_of(stripped, arguments.cache).of_kinds({Kind.FUNCTION, Kind.METHOD})
    judge = LexicalJudge(lambda: pool.vectors)
    results = defaultdict(list)
    for package, case in cases[:: arguments.every]:
        results[package].append(
            asyncio.run(asked(judge, pool.candidates, case, threshold=threshold))
        )
    print(f"pool: {len(pool.candidates)} functions and methods")
    for package, rows in results.items():
        show(package, rows)
    recall, mrr = show("all", [row for rows in results.values() for row in rows])
    print(f"targets: recall@15 at least {RECALL:.2f}, MRR at least {MRR:.2f}")
    return 0 if recall >= RECALL and mrr >= MRR else 1


class QuestionFigures(Struct, frozen=True):
    """One question's figures, by raw scores: boosts and selection stay outside."""

    recall: float
    reciprocal_rank: float
    ndcg: float
    kept: int
    """Candidates at or above the threshold, at most 15."""
    gold_kept: int
    gold: int


async def asked(
    judge: LexicalJudge,
    candidates: Sequence[Candidate],
    case: EvalCase,
    *,
    threshold: float,
    k: int = 15,
) -> QuestionFigures:
    """Judge the whole pool against a question and compare with its gold."""
    by_content = {candidate.content_hash: candidate for candidate in candidates}
    judged = [
        result
        async for result in judge.judge(Turn(task=case.task), candidates)
        if isinstance(result, Judgment)
    ]
    judged.sort(key=lambda judgment: -judgment.score)
    hits = metrics.match_gold(
        [entity_ref(by_content[judgment.content_hash]) for judgment in judged], case.gold
    )
    kept = sum(judgment.score >= threshold for judgment in judged[:k])
    figures = metrics.ranking_metrics(hits, len(case.gold), k=k)
    return QuestionFigures(
        recall=figures.recall,
        reciprocal_rank=figures.reciprocal_rank,
        ndcg=figures.ndcg,
        kept=kept,
        gold_kept=sum(hit is not None for hit in hits[:kept]),
        gold=len(case.gold),
    )


def show(name: str, rows: Sequence[QuestionFigures]) -> tuple[float, float]:
    """Print the means over these questions; return recall and MRR."""
    recall, mrr = fmean(row.recall for row in rows), fmean(row.reciprocal_rank for row in rows)
    kept = sum(row.kept for row in rows)
    print(
        f"{name:24} n {len(rows):4}  recall@15 {recall:.3f}  MRR {mrr:.3f}"
        f"  nDCG@15 {fmean(row.ndcg for row in rows):.3f}  kept {kept / len(rows):4.1f}"
        f"  none kept {fmean(row.kept == 0 for row in rows):.2f}"
        f"  gold kept {fmean(row.gold_kept / row.gold for row in rows):.3f}"
        f"  precision of kept {sum(row.gold_kept for row in rows) / kept if kept else 0.0:.3f}"
    )
    return recall, mrr


def write_stripped(cache: Path, target: Path) -> list[tuple[str, EvalCase]]:
    """Write all packages without docstrings below `target`; return the questions by package."""
    cases = []
    for package, (version, sha256) in PACKAGES.items():
        tree = tree_of(
            Artifact("pypi", package, version, f"{package}-{version}.tar.gz", sha256), cache
        )
        top = next(
            place for place in (tree / "src" / package, tree / package) if place.is_dir()
        )
        for file in sorted(top.rglob("*.py")):
            path = f"{package}/{file.relative_to(top).as_posix()}"
            if "/tests/" in path:
                continue
            source = file.read_text("utf-8")
            stripped, documented = without_docstrings(source)
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            if not (target / path).exists():
                (target / path).write_text(stripped, "utf-8")
            for place in documented:
                case = EvalCase(
                    id=f"{path}::{place.name}",
                    task=place.question,
                    gold=(EntityRef(path, place.name),),
                )
                cases.append((package, case))
    return cases


def without_docstrings(source: str) -> tuple[str, list[Documented]]:
    """Return the source with its docstrings' lines cut out, and who had one."""
    lines: list[str | None] = list(source.split("\n"))
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if (
            not isinstance(node, ast.Module | ast.ClassDef | Function)
            or ast.get_docstring(node) is None
        ):
            continue
        text = node.body[0]
        if text.lineno <= getattr(node, "lineno", 0):
            continue  # `def f(): "text"` on one line
        indent = " " * text.col_offset
        lines[text.lineno - 1 : text.end_lineno] = [None] * (
            (text.end_lineno or text.lineno) - text.lineno + 1
        )
        if len(node.body) == 1:
            lines[text.lineno - 1] = f"{indent}pass"
    return "\n".join(line for line in lines if line is not None), list(
        documented(tree.body, "")
    )


def documented(body: list[ast.stmt], owner: str) -> Iterator[Documented]:
    """Walk functions and methods, nested functions left out, since they are part of their
    outermost."""
    for node in body:
        if isinstance(node, Function):
            text = (ast.get_docstring(node) or "").strip()
            if text:
                yield Documented(owner + node.name, text.partition("\n")[0])
        elif isinstance(node, ast.ClassDef):
            yield from documented(node.body, f"{owner}{node.name}.")
        elif isinstance(node, ast.If | ast.Try):
            yield from documented(node.body, owner)


if __name__ == "__main__":
    raise SystemExit(main())
