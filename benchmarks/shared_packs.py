"""What does `ask --batch` take when 1, 2, 4 or 8 questions share a call, over a real tree?

    python benchmarks/shared_packs.py [FOLDER] [--questions 8]

Without FOLDER the tree is httpx 0.28.1, from the configured package index. Two loopback hosts with
the vendor's prices for gpt-4.1: one counts with a real tokenizer and caches no prefix, one caches
prefixes as the vendor does and counts by length. Dollars are the hosts' bills; `saved` is what the
run itself reported. Each way begins with an empty store. Both judge by a hash, so that one memory
in twelve gets a reason; whether a model judges as well in company is not measured. Ends with 1
where calls are not packs times ceil(questions / Q), or what a run reported to have saved is off by
a tenth.
"""

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from math import ceil
from pathlib import Path

from msgspec.structs import replace

from tests.proof.test_estimates import HTTPX, USUAL, reasoned, settings_for
from tests.proof.test_real_server import serving
from tests.proof.test_real_trees import fetched, unpack
from tests.servers.billing import BillingServer, vendor
from tests.servers.tokenizing import TokenizingServer, counting
from xscore.extensions.batch.ask_list import ask_list
from xscore.extensions.batch.shared_account import AskListReport
from xscore.pipeline.build import Pipeline
from xscore.pipeline.parts import TurnOptions
from xscore.pipeline.question_list import Question, QuestionList
from xscore.records.turn import Turn
from xscore.settings.model import BatchSettings

TASKS = (
    "Where are redirects followed, and what becomes of the cookies?",
    "Make the timeout of a request settable from the environment.",
    "A streamed response that is not read to its end leaks its connection; close it.",
    "Which checks does a URL pass before it is requested? List them with their errors.",
    (
        "Proxies named by NO_PROXY are used all the same for hosts with a port. Find out why and"
        " fix it."
    ),
    "Add a limit of bytes to what a response may decode to, with an error of its own.",
    "Document how authentication flows see each request and response, with an example.",
    (
        "The command line prints a response as text although it is an image: show its type and size"
        " instead."
    ),
)
OFF = 0.10


@contextmanager
def hosts(place: Path) -> Iterator[list[tuple[str, BillingServer]]]:
    with serving(place) as address:
        servers: list[tuple[str, BillingServer]] = [
            (
                "a real tokenizer, no prefix cache",
                TokenizingServer(counting(address), score=reasoned(USUAL), keep_bodies=False),
            ),
            (
                "by length, prefixes cached",
                BillingServer(score=reasoned(USUAL), keep_bodies=False),
            ),
        ]
        yield servers


async def run(
    root: Path, environ: dict[str, str], questions_a_call: int, questions: QuestionList
) -> AskListReport:
    settings = replace(
        settings_for(root.parent, environ),
        batch=BatchSettings(questions_a_call=questions_a_call),
    )
    async with Pipeline.open(root, settings) as pipeline:
        return await ask_list(
            pipeline.parts, questions, TurnOptions(answer=False), like=Turn(task="")
        )


def measure(tree: Path, server: BillingServer, questions: QuestionList) -> bool:
    good, alone, packs = True, None, 0
    print(
        f"{'Q':>3} {'calls':>6} {'input':>11} {'cached':>11} {'output':>9} {'bill':>9}  "
        f" {'said to be saved':>28}"
    )
    with server, vendor(server) as environ:
        os.environ.update(environ)
        os.environ.pop("NO_PROXY", None)
        for questions_a_call in (1, 2, 4, 8):
            with tempfile.TemporaryDirectory() as folder:
                root = Path(folder) / "tree"
                shutil.copytree(tree, root)
                server.reset()
                server.charges.clear()
                server.prefixes = type(server.prefixes)()
                list_run = asyncio.run(run(root, dict(environ), questions_a_call, questions))
            bill = sum(server.charges, Decimal(0))
            took, saved, counts = list_run.took, list_run.saved, server.counts
            if alone is None:
                alone, packs = took, took.calls // len(questions.all)
            print(
                f"{questions_a_call:>3} {took.calls:>6,} {took.input_tokens:>11,}"
                f" {counts.cached_tokens:>11,}"
                f" {took.output_tokens:>9,} {bill:>9.4f}   {saved.calls:>6,} calls"
                f" {saved.input_tokens:>11,} tokens ${saved.cost_usd:.4f}; alone"
                f" ${list_run.alone_at_best_usd:.4f} to ${list_run.alone.cost_usd:.4f}"
            )
            good &= took.calls == packs * ceil(len(questions.all) / questions_a_call)
            good &= abs(list_run.alone.input_tokens / alone.input_tokens - 1) <= OFF
    return good


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--questions", type=int, default=len(TASKS))
    arguments = parser.parse_args()
    chosen = tuple(
        Question(id=f"q{at}", task=task) for at, task in enumerate(TASKS[: arguments.questions])
    )
    good = True
    with tempfile.TemporaryDirectory() as folder:
        tree = arguments.folder or Path(folder) / "tree"
        if arguments.folder is None:
            unpack(fetched(HTTPX), tree)
        with hosts(Path(folder)) as servers:
            for name, server in servers:
                print(f"\n{name}")
                good &= measure(tree, server, QuestionList(chosen, "benchmark"))
    print("as expected" if good else "not as expected")
    sys.exit(not good)


if __name__ == "__main__":
    main()
