"""Do questions about something else keep nothing, and how high do they score?

    python benchmarks/lexical_nonsense.py TREE [TREE …]

Each question of `lexical_nonsense.csv` (a data file, so that no index of this repository holds the questions), and as
many rows of random words from all of them, is put to each tree, over every memory of it: code, tests, documents,
configuration. Ends with 1 when a question keeps a memory at the default threshold. Rows of words are only shown: by
chance one is made of words that code uses too.
"""

import argparse
import random
import sys
import time
from pathlib import Path

from lexical_sources import Pool, pool_of

from xscore.records.turn import Turn
from xscore.scorer.lexical import LexicalJudge
from xscore.settings import SelectionSettings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", type=Path, nargs="+")
    parser.add_argument("--cache", type=Path, default=Path(".cache/lexical"))
    arguments = parser.parse_args()
    threshold = SelectionSettings().lexical_threshold
    asked = questions()
    worst: list[tuple[float, str, str, str]] = []
    for tree in arguments.trees:
        pool = pool_of(tree, arguments.cache)
        started = time.process_time()
        worst += [best(pool, question, tree.name) for question in asked]
        spent_ms = (time.process_time() - started) * 1000 / len(asked)
        print(f"{tree.name:32} {len(pool.candidates):6} memories  {spent_ms:6.1f} ms of CPU a question")
    worst.sort(reverse=True)
    written = set(asked[: len(asked) // 2])
    for kind, rows in (
        ("questions", [row for row in worst if row[1] in written]),
        ("rows of words", [row for row in worst if row[1] not in written]),
    ):
        kept = sum(score >= threshold for score, *_ in rows)
        print(f"{len(rows)} {kind} asked, {kept} keep something at {threshold}")
    for score, question, tree_name, reason in worst[:8]:
        print(f"  {score:.2f}  {question}  [{tree_name}: {reason}]")
    sys.exit(1 if any(score >= threshold and question in written for score, question, *_ in worst) else 0)


def questions() -> list[str]:
    """Return the questions of the file, and rows of random words drawn from them (the same each time)."""
    asked = Path(__file__).with_suffix(".csv").read_text("utf-8").splitlines()
    words = sorted({word for question in asked for word in question.split()})
    draw = random.Random(1)
    return asked + [" ".join(draw.sample(words, draw.randint(6, 12))) for _ in asked]


def best(pool: Pool, question: str, tree: str) -> tuple[float, str, str, str]:
    judge = LexicalJudge(lambda: pool.vectors, reasons_from=0.1)
    first = next(judge.judgments(Turn(task=question), pool.candidates))
    entity = next(c for c in pool.candidates if c.content_hash == first.content_hash)
    return first.score, question, tree, f"{entity.path}::{entity.entity}: {first.reason}"


if __name__ == "__main__":
    main()
