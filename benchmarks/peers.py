"""xscore and three peers judge the same 2,000 candidates at the same faulty server: what is lost, wrong, paid again?

    python benchmarks/peers.py [--only NAME …] [--rounds 3]

LOTUS `sem_filter`, LlamaIndex `LLMRerank` and litellm `batch_completion` run from environments of their own below
`.cache/peers/` (made here; a peer that cannot be installed is skipped with a line), each by a small driver in
`peer_programs/` in its documented way, with 16 calls in flight where it takes a number. Four experiments:

1. faults: 5 % of the requests are answered 429 with Retry-After, 2 % with a bad reply (prose, cut short, ids missing).
2. rate: a server that serves 60 requests a second and answers the others 429 with Retry-After; no bad replies.
3. kill: a healthy server, SIGKILL when half of the candidates have been judged, and the same command again.
4. error: every prompt that shows candidate 1234 is answered 500 in the first run, and none in the second.

What a program says of each candidate is compared with the server's scoring function. Figures only; ends with 1 where
xscore itself has a wrong judgment, loses one without saying so, or pays again after an error.
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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from msgspec import Struct, field

PROGRAMS = Path(__file__).parent / "peer_programs"
sys.path.insert(0, str(PROGRAMS))

import candidates  # noqa: E402  its folder joins sys.path above
from environments import PEERS, python_of, versions  # noqa: E402  its folder joins sys.path above

CACHE = Path(__file__).parent.parent / ".cache" / "peers"
WORKERS = 16
FAULTS = {"rate_limited": 0.05, "bad": 0.02}
RATE = {"per_second": 60}
BROKEN = 1234
TIMEOUT_S = 300
TEN_POINT = ("llama_index",)


class Program(Struct, frozen=True):
    """A way to have the candidates judged."""

    name: str
    dialect: str
    command: list[str]
    """`{url}`, `{result}`, `{home}` and `{workers}` are filled in."""
    is_variant: bool = False
    """Its cache is on, which is not the default: it takes part where something is run again."""


class Run(Struct):
    """One run of a program."""

    wall_s: float = 0.0
    cpu_s: float = 0.0
    code: int | None = None
    counts: dict[str, Any] = field(default_factory=dict)
    found: dict[int, Any] = field(default_factory=dict)
    last_line: str = ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="lotus, llama_index, litellm or xscore")
    parser.add_argument("--rounds", type=int, default=3, help="runs of the first experiment, interleaved; medians")
    options = parser.parse_args()
    programs = [program for program in all_programs() if not options.only or program.dialect in options.only]
    print(f"{candidates.COUNT:,} candidates, {WORKERS} calls in flight, load {os.getloadavg()[0]:.1f}")
    with server() as url:
        plain = [program for program in programs if not program.is_variant]
        with_faults: dict[str, list[Run]] = {program.name: [] for program in plain}
        for seed in range(1, options.rounds + 1):
            for program in plain:
                with fresh(program, url, {"seed": seed, **FAULTS}) as home:
                    with_faults[program.name].append(run(program, url, home))
        bad = [tell_faults("faults", program, with_faults[program.name]) for program in plain]
        for program in plain:
            with fresh(program, url, RATE) as home:
                bad.append(tell_faults("rate", program, [run(program, url, home)]))
        for program in programs:
            tell_again("kill", program, *killed(program, url))
        bad += [tell_again("error", program, *met_an_error(program, url)) for program in programs]
        print(f"load at the end {os.getloadavg()[0]:.1f}")
    return 1 if any(bad) else 0


def all_programs() -> list[Program]:
    """Name xscore and those peers that can be installed."""
    xscore = [sys.executable, "-m", "xscore", "ask", candidates.TASK, "--no-answer", "--judge", "openai:bench"]
    xscore += ["--concurrency", "{workers}", "--all-scores", "{result}", "--quiet"]
    found = [
        Program("xscore, packs", "xscore", xscore),
        Program("xscore, one a prompt", "xscore", [*xscore, "--pack-size", "1"]),
    ]
    CACHE.mkdir(parents=True, exist_ok=True)
    for peer in PEERS:
        python = python_of(peer, CACHE)
        if isinstance(python, str):
            print(f"skipped: {peer.name} cannot be installed: {python}")
            continue
        print(f"{peer.name}: {versions(peer, python)}")
        command = [str(python), str(PROGRAMS / peer.driver), "{url}", "{result}", "{workers}"]
        found.append(Program(peer.name, peer.name, command))
        if peer.name != "llama_index":
            found.append(Program(f"{peer.name}, its cache on", peer.name, [*command, "cached"], is_variant=True))
    return found


@contextmanager
def server() -> Iterator[str]:
    """Run the server in a process of its own, whose CPU is counted nowhere."""
    command = [sys.executable, str(PROGRAMS / "server.py")]
    serving = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert serving.stdout is not None
    try:
        yield serving.stdout.readline().strip()
    finally:
        serving.kill()
        serving.wait()


@contextmanager
def fresh(program: Program, url: str, plan: dict[str, Any]) -> Iterator[Path]:
    """Give a program a home, a tree without a store, and a server that knows nothing yet."""
    with tempfile.TemporaryDirectory() as folder:
        candidates.write_tree(Path(folder, "tree"))
        begin(url, {"program": program.dialect, **plan})
        yield Path(folder)


def begin(url: str, plan: dict[str, Any]) -> None:
    urlopen(Request(url.replace("/v1", "/begin"), json.dumps(plan).encode()), timeout=10).close()


def counted(url: str) -> dict[str, Any]:
    with urlopen(url.replace("/v1", "/counts"), timeout=10) as answer:
        counts: dict[str, Any] = json.load(answer)
        return counts


def run(program: Program, url: str, home: Path, *, kill_at: int | None = None) -> Run:
    """Run a program to its end, or until the server has judged `kill_at` candidates for it."""
    result = home / "result"
    result.unlink(missing_ok=True)
    filled = {"url": url, "result": str(result), "home": str(home), "workers": str(WORKERS)}
    command = [part.format(**filled) if part.startswith("{") else part for part in program.command]
    before, started = os.times(), time.perf_counter()
    process = subprocess.Popen(
        command,
        cwd=home / "tree",
        env=environment(home, url),
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
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    said = (home / "stderr").read_text("utf-8", "replace").strip().splitlines() or [""]
    return Run(wall, cpu, code, counted(url), findings(result), said[-1][:160])


def environment(home: Path, url: str) -> dict[str, str]:
    """Nothing of the user's own settings or stores, and no look-ups of price lists on the network."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LD_LIBRARY_PATH") if name in os.environ}
    own = {"HOME": str(home), "OPENAI_BASE_URL": url, "OPENAI_API_KEY": "none", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    return {**kept, **own}


def findings(result: Path) -> dict[int, Any]:
    """Read what a program found: candidate -> score, yes or no, or None for one it says it has no score for."""
    if not result.exists():
        return {}
    text = result.read_text("utf-8")
    if not text.startswith('{"id"'):
        return {int(number): found for number, found in json.loads(text).items()}
    lines = [json.loads(line) for line in text.splitlines()]
    raw = {line["entity"]: line["raw_score"] for line in lines}
    return {
        int(name.removeprefix("candidate_")): None if score is None else round(score * 100)
        for name, score in raw.items()
    }


def right(program: Program, number: int) -> int | bool:
    """What the server's scoring function says, on the program's scale."""
    if program.dialect == "lotus":
        return candidates.is_relevant(number)
    return candidates.out_of_ten(number) if program.dialect in TEN_POINT else candidates.score(number)


def verdicts(program: Program, ran: Run) -> tuple[int, int, int]:
    """Count the judgments lost and said to be, lost in silence, and wrong."""
    if not ran.found:  # it ended without a result
        return candidates.COUNT, 0, 0
    said = sum(1 for number in range(candidates.COUNT) if number in ran.found and ran.found[number] is None)
    silent = sum(1 for number in range(candidates.COUNT) if number not in ran.found)
    wrong = sum(1 for number, found in ran.found.items() if found is not None and found != right(program, number))
    return said, silent, wrong


def tell_faults(experiment: str, program: Program, runs: list[Run]) -> bool:
    """Print a line of the first two experiments; say whether xscore broke its promise."""
    judged = [verdicts(program, ran) for ran in runs]
    refused = [ran.counts["statuses"].get("429", 0) for ran in runs]
    bad = [sum(ran.counts["spoiled"].values()) for ran in runs]
    said, silent, wrong = zip(*judged, strict=True)
    wall, cpu = (statistics.median(values) for values in zip(*((ran.wall_s, ran.cpu_s) for ran in runs), strict=True))
    print(
        f"{experiment:7} {program.name:22} wall {wall:6.2f} s  CPU {cpu:6.2f} s"
        f"  requests {[ran.counts['requests'] for ran in runs]}"
        f"  429s {refused}  bad {bad}  lost, said {said}  in silence {silent}  wrong {wrong}"
        f"  exit {[ran.code for ran in runs]}",
        flush=True,
    )
    return any(silent + wrong) and program.dialect == "xscore"


def killed(program: Program, url: str) -> tuple[Run, Run]:
    """Kill it halfway, then let it run to its end."""
    with fresh(program, url, {}) as home:
        first = run(program, url, home, kill_at=candidates.COUNT // 2)
        return first, run(program, url, home)


def met_an_error(program: Program, url: str) -> tuple[Run, Run]:
    """Have one candidate's prompts fail in the first run, and none in the second."""
    with fresh(program, url, {"broken": [BROKEN]}) as home:
        first = run(program, url, home)
        begin(url, {"program": program.dialect, "keep_bills": True})
        second = run(program, url, home)
        second.counts["requests"] += first.counts["requests"]
        return first, second


def tell_again(experiment: str, program: Program, first: Run, second: Run) -> bool:
    """Print what two runs took together; say whether xscore paid twice."""
    again = second.counts["good_again"]
    lost = [sum(verdicts(program, ran)[:2]) for ran in (first, second)]
    judged, requests = first.counts["judged"], first.counts["requests"]
    print(
        f"{experiment:7} {program.name:22} judged when it ended {judged:5,}  exit {first.code}, {second.code}"
        f"  requests {requests:5,} then {second.counts['requests'] - requests:5,}"
        f"  paid twice {again:5,}  without a score {lost[0]:5,} then {lost[1]}"
        f"  {first.last_line if first.code else ''}",
        flush=True,
    )
    return bool(again) and program.dialect == "xscore"


if __name__ == "__main__":
    raise SystemExit(main())
