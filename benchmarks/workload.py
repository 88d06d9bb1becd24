"""The turns whose cost this project holds itself to: a fixed tree, fixed tasks, a judge on loopback
that never errs.

    PYTHONPATH=. python benchmarks/workload.py [--update-baseline] [--pack-size N] [--forget]
    [--latency-s S]

Flask's sources, by name and checksum, are copied into a new repository, and the real command line
works there: a cold turn, the same again, one after an edit, one that its budget cuts short and its
continuation, an evaluation. The provider is the tests' own server, reached under the vendor's name
as if it were a proxy: calls have the vendor's price, and nothing leaves this machine. Its scores
are a function of words, so calls, tokens and dollars are the same everywhere; seconds are not. The
report goes to `cost_reports/latest.json` and is held to `cost_reports/baseline.json`; the program
ends with what that check ends with. The last three options make it worse on purpose, to see that
the check fails. What may move it without a change here: a new price table, a grammar that cuts a
file otherwise.
"""

import argparse
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from lexical_sources import Artifact, tree_of
from msgspec import Struct, field

from tests.servers import OpenAIServer, by_words
from xscore.platform.paths import find_root
from xscore.providers.scripted import ShownMemory

CHECKOUT = Path(__file__).parents[1]
CACHE = CHECKOUT / ".cache"
LATEST = CHECKOUT / "cost_reports" / "latest.json"
BASELINE = CHECKOUT / "cost_reports" / "baseline.json"
FLASK = Artifact(
    "pypi",
    "flask",
    "3.1.3",
    "flask-3.1.3.tar.gz",
    "0ef0e52b8a9cd932855379197dd8f94047b359ca0a78695144304cb45f87c9eb",
)
PARTS = ("src", "tests")
LATENCY_S = 0.1
IN_FLIGHT = 8
"""Few enough that a call waits for the provider and not for a processor: seconds are to mean
something too."""
COOKIE = (
    "Where is the signed session cookie read from the request, and what happens to one that was"
    " tampered with?"
)
CONFIG = "Load configuration from environment variables with a prefix: how are nested keys set?"
JUDGED_RIGHT = {
    COOKIE: (
        "SecureCookieSessionInterface.open_session",
        "SecureCookieSessionInterface.get_signing_serializer",
    ),
    CONFIG: ("Config.from_prefixed_env",),
    "make a response out of what a view returned": ("Flask.make_response",),
    "which blueprint is a request for?": ("Request.blueprint", "Request.blueprints"),
}
"""What the judge scores high in addition to what shares words with the question."""
EVALUATION = (
    ("make a response out of what a view returned", "src/flask/app.py", "Flask.make_response"),
    ("which blueprint is a request for?", "src/flask/wrappers.py", "Request.blueprint"),
    ("send a file to the browser as an attachment", "src/flask/helpers.py", "send_file"),
    ("flash a message to be shown on the next request", "src/flask/helpers.py", "flash"),
    ("which converter turns an object into JSON?", "src/flask/json/provider.py", "_default"),
)
"""Questions with the one answer of each; not all are found, so recall can rise and fall."""
EDITED, BEFORE, AFTER = (
    Path("src/flask/config.py"),
    "def get_namespace(",
    "def get_the_namespace(",
)
CUT_SHORT_USD = "0.0025"
BUDGET_CAME_FIRST = 4


class Shop(Struct):
    """A repository of its own, with a home of its own, in which commands are run."""

    place: Path
    served: str
    """`address:port` of the provider."""
    worse: list[str] = field(default_factory=list)
    """Options of every command that judges."""

    @property
    def tree(self) -> Path:
        """The repository."""
        return self.place / "tree"

    def run(
        self, *arguments: str, ends: tuple[int, ...] = (0,), tells: bool = False
    ) -> tuple[int, str]:
        """Run a command; give its exit code and output.

        Ends everything where it ends otherwise than it should.
        """
        command = [sys.executable, "-m", "xscore", *arguments]
        started = time.perf_counter()
        done = subprocess.run(
            command,
            cwd=self.tree,
            env=self._environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode not in ends:
            sys.exit(
                f"`xscore {' '.join(arguments)}` ended with"
                f" {done.returncode}:\n{done.stderr}{done.stdout}"
            )
        printed = (
            done.stderr.strip() if tells else (done.stderr.strip().splitlines() or [""])[-1]
        )
        print(
            f"{time.perf_counter() - started:5.1f} s  xscore {arguments[0]}: {printed}",
            file=sys.stderr,
            flush=True,
        )
        return done.returncode, done.stdout

    def judge(self, command: str, *arguments: str, ends: tuple[int, ...] = (0,)) -> None:
        """Run a command that judges; of an option that is given twice the last holds."""
        self.run(command, "--concurrency", str(IN_FLIGHT), *self.worse, *arguments, ends=ends)

    def _environment(self) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if name in ("PATH", "PYTHONPATH", "LANG", "TMPDIR")
        }
        return kept | {
            "HOME": str(self.place / "home"),
            "COLUMNS": "120",
            "OPENAI_API_KEY": "sk-of-the-workload",
            "OPENAI_BASE_URL": "http://api.openai.com/v1",
            "HTTP_PROXY": f"http://{self.served}",
            "XSCORE_JUDGE_WIRE": "chat",
        }


def score(memory: ShownMemory, turn: str) -> int | tuple[int, str]:
    """Score what answers the turn's question high, and everything else by the words it shares
    with it."""
    answers = next(
        (entities for question, entities in JUDGED_RIGHT.items() if question in turn), ()
    )
    return (
        (92, "it is where that happens") if memory.entity in answers else by_words(memory, turn)
    )


@contextmanager
def shop(*, latency_s: float, worse: list[str]) -> Iterator[Shop]:
    """Copy the sources into a new repository, and serve the judge that its commands will find."""
    source = tree_of(FLASK, CACHE)
    with (
        tempfile.TemporaryDirectory(prefix="workload-") as folder,
        OpenAIServer(score=score, latency_s=latency_s, keep_bodies=False) as server,
    ):
        workload = Shop(Path(folder), server.host, worse)
        (workload.place / "home").mkdir()
        for part in PARTS:
            shutil.copytree(source / part, workload.tree / part)
        subprocess.run(["git", "init", "-q", str(workload.tree)], check=True)
        yield workload


def work(shop: Shop, *, forget: bool) -> None:
    """Run the turns, in order. forget: what was judged is forgotten after each, as if nothing were
    cached."""
    shop.judge("ask", COOKIE, "--yes")
    _forget(shop, forget)
    shop.judge("ask", COOKIE, "--yes")
    edited = shop.tree / EDITED
    edited.write_text(edited.read_text("utf-8").replace(BEFORE, AFTER), "utf-8")
    _forget(shop, forget)
    shop.judge("ask", COOKIE, "--yes")
    # One at a time: it ends after the same call always.
    cut_short = ("--max-usd", CUT_SHORT_USD, "--concurrency", "1")
    shop.judge("context", CONFIG, *cut_short, ends=(BUDGET_CAME_FIRST,))
    _forget(shop, forget)
    shop.judge("continue")
    questions = shop.place / "questions.jsonl"
    lines = [
        json.dumps({"id": f"q{number}", "query": query, "gold": [{"path": path, "name": name}]})
        for number, (query, path, name) in enumerate(EVALUATION, start=1)
    ]
    questions.write_text("\n".join(lines) + "\n", "utf-8")
    shop.judge("eval", str(questions), "--glob", "src/", "--yes")


def _forget(shop: Shop, is_wanted: bool) -> None:
    if is_wanted:
        with closing(sqlite3.connect(find_root(shop.tree).store_file)) as store, store:
            store.execute("DELETE FROM judgment")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--update-baseline",
        action="store_true",
        help="write a new baseline instead of checking",
    )
    parser.add_argument("--pack-size", type=int, help="memories a prompt, for the worse")
    parser.add_argument("--forget", action="store_true", help="defeat the cache of judgments")
    parser.add_argument(
        "--latency-s", type=float, default=LATENCY_S, help="seconds the provider takes"
    )
    options = parser.parse_args()
    worse = ["--pack-size", str(options.pack_size)] if options.pack_size else []
    report_option = "--update-baseline" if options.update_baseline else "--check"
    started = time.perf_counter()
    with shop(latency_s=options.latency_s, worse=worse) as workload:
        work(workload, forget=options.forget)
        code, report = workload.run(
            "report",
            "--json",
            report_option,
            "--baseline",
            str(BASELINE),
            ends=(0, 5),
            tells=True,
        )
    LATEST.parent.mkdir(exist_ok=True)
    LATEST.write_text(report, "utf-8")
    print(
        f"{time.perf_counter() - started:5.1f} s in all; the report is"
        f" {LATEST.relative_to(CHECKOUT)}",
        file=sys.stderr,
    )
    return code


if __name__ == "__main__":
    raise SystemExit(main())
