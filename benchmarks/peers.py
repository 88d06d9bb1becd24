"""xscore and three peers judge the same 2,000 items at the same server: seconds, dollars, what is
lost or paid again.

    python benchmarks/peers.py [--only NAME …] [--rounds 3] [--write]

LOTUS `sem_filter`, LlamaIndex `LLMRerank` and litellm `batch_completion` run from environments of
their own below `.cache/peers/` (made here; a peer that cannot be installed is skipped with a line).
A small driver in `peer_programs/` calls each in its documented way, with 16 calls in flight where
it takes a number, and 4 retries of a call. RankLLM's pointwise judge is a model inside its own
process and calls no host, so it cannot take part. Four experiments:

1. healthy: the server answers everything.
2. faults: 5 % of the requests are answered 429 with Retry-After, 2 % with a bad reply (prose, cut
  short, ids missing).
3. kill: a healthy server, SIGKILL when half of the items have been judged, and the same command
  again.
4. error: every prompt that shows item 1234 is answered 500 in the first run, and none in the
  second.

What a program says of each item is compared with the server's scoring function. Dollars are the
server's tokens (four characters each) at one price. `--write` puts the table into
`docs/internals/benchmarks.md`. Ends with 1 where xscore itself has a wrong judgment, loses one
without saying so, or pays again after an error.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from measuring import CHECKOUT, served
from msgspec import Struct, field

PROGRAMS = Path(__file__).parent / "peer_programs"
sys.path.insert(0, str(PROGRAMS))

import candidates  # noqa: E402  found by the path set above
from environments import PEERS, python_of, versions  # noqa: E402  found by the path set above

CACHE = CHECKOUT / ".cache" / "peers"
PAGE = CHECKOUT / "docs" / "internals" / "benchmarks.md"
BEGIN, END = "<!-- peers -->\n", "<!-- /peers -->\n"
WORKERS = 16
FAULTS = {"rate_limited": 0.05, "bad": 0.02}
BROKEN = 1234
TIMEOUT_S = 300
INPUT_USD, OUTPUT_USD = 0.25, 2.00
"""A million tokens, at the list price of gpt-5-mini."""
HEADS = (
    *("program", "wall", "CPU", "calls", "dollars"),
    *("with faults: wall", "dollars", "lost, said", "lost, unsaid", "wrong"),
    *("paid again after a kill", "after an error"),
)


class Program(Struct, frozen=True):
    """A way to have the items judged."""

    name: str
    dialect: str
    command: tuple[str, ...]
    """Command without the base URL, the result file and the calls in flight."""
    variant: tuple[str, ...] = ()
    is_cached: bool = False
    """Whether its cache is on, which is not the default: it takes part where something is run
    again."""


class Run(Struct):
    """One run of a program."""

    wall_s: float = 0.0
    cpu_s: float = 0.0
    code: int | None = None
    counts: dict[str, Any] = field(default_factory=dict)
    scores: dict[int, Any] = field(default_factory=dict)
    last_line: str = ""

    @property
    def dollars(self) -> float:
        """What the tokens cost that the server billed."""
        tokens = self.counts["tokens"]
        return (
            tokens["prompt_tokens"] * INPUT_USD + tokens["completion_tokens"] * OUTPUT_USD
        ) / 1e6


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only",
        nargs="*",
        default=[],
        metavar="NAME",
        help="lotus, llama_index, litellm or xscore",
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=3,
        help="runs of the first two experiments, interleaved; medians",
    )
    parser.add_argument("--write", action="store_true", help="put the table into the page")
    options = parser.parse_args()
    programs, shown = all_programs(options.only)
    load = os.getloadavg()[0]
    print(f"{candidates.COUNT:,} items, {WORKERS} calls in flight, load {load:.1f}")
    with served(PROGRAMS / "server.py") as url:
        rows, is_bad = measure(programs, url, options.rounds)
    statement = (
        f"{', '.join(shown)}. {date.today():%d %B %Y}, rounds: {options.rounds}, load at the start"
        f" {load:.1f}."
    )
    lines = [f"| {' | '.join(cells)} |" for cells in (HEADS, ["---"] * len(HEADS), *rows)]
    text = "\n".join([*lines, "", statement, ""])
    print(text)
    if options.write:
        before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}{text}{END}{rest.partition(END)[2]}", "utf-8")
    return int(is_bad)


def measure(programs: Sequence[Program], url: str, rounds: int) -> tuple[list[list[str]], bool]:
    """Return a row for each program, and whether xscore did something wrong."""
    runs: dict[str, tuple[list[Run], list[Run]]] = {}
    for seed in range(1, rounds + 1):
        for program in programs:
            if not program.is_cached:
                healthy, faulty = runs.setdefault(program.name, ([], []))
                healthy.append(once(program, url, {}))
                faulty.append(once(program, url, {"seed": seed, **FAULTS}))
    rows: list[list[str]] = []
    is_bad = False
    for program in programs:
        cells, has_wrong = as_cells(program, *runs.get(program.name, ((), ())))
        after_kill = tell_again("kill", *killed(program, url))
        after_error = tell_again("error", *met_an_error(program, url))
        rows.append([program.name, *cells, f"{after_kill:,}", f"{after_error:,}"])
        if program.dialect == "xscore":
            is_bad = is_bad or has_wrong or after_error > 0
        print(" | ".join(rows[-1]), flush=True)
    return rows, is_bad


def all_programs(only: Sequence[str]) -> tuple[list[Program], list[str]]:
    """Name xscore and those peers that can be installed, and the versions."""
    command = (sys.executable, str(PROGRAMS / "xscore_judge.py"))
    programs = [
        Program("xscore `judge`", "xscore", command),
        Program("the same, one item a prompt", "xscore", command, ("single",)),
    ]
    shown = []
    CACHE.mkdir(parents=True, exist_ok=True)
    for peer in PEERS:
        if only and peer.name not in only:
            continue
        python = python_of(peer, CACHE)
        if isinstance(python, str):
            print(f"skipped: {peer.name} cannot be installed: {python}")
            continue
        shown.append(versions(peer, python))
        command = (str(python), str(PROGRAMS / peer.driver))
        programs.append(Program(peer.title, peer.name, command))
        if peer.has_cache:
            programs.append(
                Program(
                    "the same, its cache on", peer.name, command, ("cached",), is_cached=True
                )
            )
    return [program for program in programs if not only or program.dialect in only], shown


@contextmanager
def fresh(program: Program, url: str, plan: dict[str, Any]) -> Iterator[Path]:
    """Give a program a home, and a server that knows nothing yet."""
    with tempfile.TemporaryDirectory() as folder:
        begin(url, {"program": program.dialect, **plan})
        yield Path(folder)


def begin(url: str, plan: dict[str, Any]) -> None:
    urlopen(
        Request(url.replace("/v1", "/begin"), json.dumps(plan).encode()), timeout=10
    ).close()


def counted(url: str) -> dict[str, Any]:
    with urlopen(url.replace("/v1", "/counts"), timeout=10) as answer:
        counts: dict[str, Any] = json.load(answer)
        return counts


def once(program: Program, url: str, plan: dict[str, Any]) -> Run:
    """Run a program in a new home."""
    with fresh(program, url, plan) as home:
        return run(program, url, home)


def run(program: Program, url: str, home: Path, *, kill_at: int | None = None) -> Run:
    """Run a program to its end, or until the server has judged `kill_at` items for it."""
    result = home / "result"
    result.unlink(missing_ok=True)
    before, started = os.times(), time.perf_counter()
    process = subprocess.Popen(
        [*program.command, url, str(result), str(WORKERS), *program.variant],
        cwd=home,
        env=environment(home),
        stdout=subprocess.DEVNULL,
        stderr=(home / "stderr").open("wb"),
        start_new_session=True,
    )
    while kill_at is not None and process.poll() is None and counted(url)["judged"] < kill_at:
        time.sleep(0.02)
    if kill_at is not None and process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    try:
        code: int | None = process.wait(TIMEOUT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        code = None
    wall, after = time.perf_counter() - started, os.times()
    cpu = (
        after.children_user
        + after.children_system
        - before.children_user
        - before.children_system
    )
    stderr_lines = (home / "stderr").read_text("utf-8", "replace").strip().splitlines() or [""]
    score_by_number = json.loads(result.read_text("utf-8")) if result.exists() else {}
    scores = {int(number): score for number, score in score_by_number.items()}
    return Run(wall, cpu, code, counted(url), scores, stderr_lines[-1][:160])


def environment(home: Path) -> dict[str, str]:
    """Nothing of the user's own settings or stores, and no look-ups of price lists on the
    network."""
    kept = {
        name: os.environ[name]
        for name in ("PATH", "LANG", "LD_LIBRARY_PATH")
        if name in os.environ
    }
    variables = {"HOME": str(home), "PYTHONPATH": str(CHECKOUT), "OPENAI_API_KEY": "none"}
    return {**kept, **variables, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}


def right(program: Program, number: int) -> int | bool:
    """What the server's scoring function says, on the program's scale."""
    if program.dialect == "lotus":
        return candidates.is_relevant(number)
    return (
        candidates.out_of_ten(number)
        if program.dialect == "llama_index"
        else candidates.score(number)
    )


def verdicts(program: Program, ran: Run) -> tuple[int, int, int]:
    """Count the judgments lost and said to be, lost in silence, and wrong."""
    if not ran.scores:  # it ended without a result
        return candidates.COUNT, 0, 0
    reported = sum(
        1
        for number in range(candidates.COUNT)
        if number in ran.scores and ran.scores[number] is None
    )
    silent = sum(1 for number in range(candidates.COUNT) if number not in ran.scores)
    wrong = sum(
        1
        for number, score in ran.scores.items()
        if score is not None and score != right(program, number)
    )
    return reported, silent, wrong


def as_cells(
    program: Program, healthy: Sequence[Run], faulty: Sequence[Run]
) -> tuple[list[str], bool]:
    """Return the cells of the first two experiments, and whether something was wrong or lost in
    silence."""
    if not healthy:
        return [""] * 9, False
    for name, runs in (("healthy", healthy), ("faults", faulty)):
        for ran in runs:
            print(
                f"{name:8}{program.name}: exit {ran.code}, {ran.counts}, {verdicts(program, ran)},"
                f" {ran.last_line}"
            )
    amiss = [verdicts(program, ran)[1:] for ran in (*healthy, *faulty)]
    lost = [middle([verdicts(program, ran)[at] for ran in faulty]) for at in range(3)]
    cells = [
        *(
            f"{middle([ran.wall_s for ran in healthy]):.1f} s",
            f"{middle([ran.cpu_s for ran in healthy]):.1f} s",
        ),
        f"{middle([ran.counts['requests'] for ran in healthy]):,.0f}",
        *(
            f"${middle([ran.dollars for ran in healthy]):.3f}",
            f"{middle([ran.wall_s for ran in faulty]):.1f} s",
        ),
        *(
            f"${middle([ran.dollars for ran in faulty]):.3f}",
            *(f"{count:,.0f}" for count in lost),
        ),
    ]
    return cells, any(map(any, amiss))


def middle(values: Sequence[float]) -> float:
    return statistics.median(values)


def killed(program: Program, url: str) -> tuple[Run, Run]:
    """Kill it halfway, then let it run to its end."""
    with fresh(program, url, {}) as home:
        first = run(program, url, home, kill_at=candidates.COUNT // 2)
        return first, run(program, url, home)


def met_an_error(program: Program, url: str) -> tuple[Run, Run]:
    """Have one item's prompts fail in the first run, and none in the second."""
    with fresh(program, url, {"broken": [BROKEN]}) as home:
        first = run(program, url, home)
        begin(url, {"program": program.dialect, "keep_bills": True})
        return first, run(program, url, home)


def tell_again(experiment: str, first: Run, second: Run) -> int:
    """Print what two runs took together; return how many items were paid for twice."""
    paid_again: int = second.counts["good_again"]
    print(
        f"{experiment:8}judged when it ended {first.counts['judged']:,}, exit {first.code}, then"
        f" {second.code}; paid twice {paid_again:,}  {first.last_line if first.code else ''}"
    )
    return paid_again


if __name__ == "__main__":
    raise SystemExit(main())
