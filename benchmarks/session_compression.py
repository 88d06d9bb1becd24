"""What a compressed session keeps of an agent's log, and what compressing costs.

    python benchmarks/session_compression.py [--transcripts DIR] [--budgets 40000,20000,10000]

DIR holds logs of Claude Code (.jsonl) and Codex (rollout-*.jsonl), and histories of Aider
(*.aider.chat.history.md). What should be kept is read from each log by a few lines here, not by the
readers of the package: the last request, commands that failed with a line of what they printed, and
the names in what was typed, said and run, by patterns of its own. Without DIR, and besides it, logs
are made: with 40 to 1,000 turns. Ends with 1 where a target is missed.
"""

import argparse
import json
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

from msgspec import Struct, field

from xscore.extensions.compression.document import besides_tokens, write_document
from xscore.extensions.compression.frontier import MAX_BYTES, find_frontier, frontier_text
from xscore.extensions.compression.reading import SessionLog, read_session
from xscore.extensions.compression.tiers import is_due, push_down
from xscore.extensions.sessions.session_reader import SessionFile

LEAST_NAMES, LEAST_REQUESTS, LEAST_ATTEMPTS = 0.95, 1.0, 1.0
LEAST_WITHOUT_CALLS = 0.80
MOST_CPU_S = 2.0
LARGE_TURNS, LARGE_BUDGET = 1_000, 200_000
CONTEXT = 200_000
"""Context of the model that the gate is measured against."""
_NAME = re.compile(
    r"[\w.-]+(?:/[\w.-]+)+|[a-z]+[A-Z]\w+|[A-Za-z]\w*_\w+|\b[A-Z]{2,}-\d+\b|\b[0-9a-f]{7,40}\b"
)
_PROBE = re.compile(
    r"(?:\w+=\S* )*(?:grep|rg|ls|cat|head|find|test|which|diff|stat|pgrep|\[)\b"
)
_INJECTED = ("<", "[Request interrupted", "Caveat:", "This session is being continued")
_REFUSED = ("The user doesn't want", "Permission to use")
COMMAND_CHARS = 400
"""A longer command is kept by its start and its end; its start is looked for."""


class Attempt(Struct):
    """A command that failed."""

    command: str
    output: str


class Expected(Struct):
    """What a log holds that should be kept."""

    requests: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def names(self) -> set[str]:
        """Names in what was typed, said and run."""
        texts = [
            *self.requests,
            *self.said,
            *[command[:COMMAND_CHARS] for command in self.commands],
        ]
        names: set[str] = set()
        for text in texts:
            names.update(match.strip(".-/") for match in _NAME.findall(text))
        return {name for name in names if len(name) > 2}


class Kept(Struct, frozen=True, kw_only=True):
    """What one compression kept of it."""

    log: str
    budget: int
    turns: int
    session_tokens: int
    tokens: int
    fits: bool
    names: float
    last_request: bool
    attempts: float
    attempts_of: int
    frontier_bytes: int
    cpu_s: float
    needs_calls: bool
    """Whether a session that is due is still over the budget once outputs are masked, so that a
    model would be asked where one is named."""


def expected_of(path: Path) -> Expected:
    """Read what a log should keep."""
    if path.name.endswith(".md"):
        return _expected_of_aider(path)
    records = [
        json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()
    ]
    if records and records[0].get("type") == "session_meta":
        return _expected_of_codex(records)
    return _expected_of_claude(records)


def _expected_of_aider(path: Path) -> Expected:
    expected = Expected()
    fenced = False
    for line in path.read_text("utf-8", "replace").splitlines():
        fenced ^= line.startswith("```")
        if line.startswith("#### ") and not fenced and not line.startswith("#### /"):
            expected.requests.append(line[5:].strip())
    return expected


def _expected_of_claude(records: Sequence[dict[str, Any]]) -> Expected:
    expected = Expected()
    commands: dict[str, str] = {}
    for record in records:
        message = record.get("message")
        if not isinstance(message, dict) or record.get("isSidechain") or record.get("isMeta"):
            continue
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for block in blocks:
            kind = block.get("type")
            if kind == "text" and record["type"] == "user":
                if not block["text"].startswith(_INJECTED) and not record.get(
                    "isCompactSummary"
                ):
                    expected.requests.append(block["text"].strip())
            elif kind == "text":
                expected.said.append(block["text"])
            elif kind == "tool_use" and block["name"] == "Bash":
                commands[block["id"]] = block["input"]["command"].strip()
                expected.commands.append(commands[block["id"]])
            elif kind == "tool_result" and block.get("is_error"):
                _add_attempt(expected, commands.get(block["tool_use_id"], ""), block["content"])
    return expected


def _expected_of_codex(records: Sequence[dict[str, Any]]) -> Expected:
    expected = Expected()
    for record in records:
        payload = record.get("payload") or {}
        kind = payload.get("type")
        if kind == "user_message":
            expected.requests.append(payload.get("message", "").strip())
        elif kind == "agent_message":
            expected.said.append(payload.get("message", ""))
        elif kind == "exec_command_end":
            command = payload.get("command") or []
            words = command[2] if command[1:2] in (["-lc"], ["-c"]) else " ".join(command)
            expected.commands.append(words.strip())
            if payload.get("exit_code"):
                _add_attempt(expected, words.strip(), payload.get("aggregated_output", ""))
    return expected


def _add_attempt(expected: Expected, command: str, output: object) -> None:
    if isinstance(output, list):
        output = "\n".join(part.get("text", "") for part in output)
    text = str(output)
    if command and not _PROBE.match(command) and not text.startswith(_REFUSED):
        expected.attempts.append(Attempt(command, text))


def measure(path: Path, budget: int) -> Kept:
    """Compress a log and compare."""
    origin, cwd = _origin_of(path)
    began = time.process_time()
    log = SessionLog(SessionFile(path, cwd=cwd), origin)
    session = read_session(log, allow_pii=True, home=path.parent).session
    frontier = find_frontier(session)
    besides = besides_tokens(session, frontier)
    tiered = push_down(session, budget, besides=besides)
    document = write_document(session, tiered, frontier)
    cpu_s = time.process_time() - began
    masked = push_down(session, 1 << 40)
    expected = expected_of(path)
    text = document.text
    names = expected.names
    kept_attempts = [attempt for attempt in expected.attempts if _is_kept(attempt, text)]
    due = is_due(session.tokens, CONTEXT)
    return Kept(
        log=path.name,
        budget=budget,
        turns=len(session.turns),
        session_tokens=session.tokens,
        tokens=document.tokens,
        fits=document.tokens <= budget,
        names=_share(sum(name in text for name in names), len(names)),
        last_request=not expected.requests or expected.requests[-1] in text,
        attempts=_share(len(kept_attempts), len(expected.attempts)),
        attempts_of=len(expected.attempts),
        frontier_bytes=len(frontier_text(frontier).encode()),
        cpu_s=cpu_s,
        needs_calls=due and masked.tokens + besides > CONTEXT // 2,
    )


def _origin_of(path: Path) -> tuple[str, str]:
    if path.name.endswith(".md"):
        return "aider", str(path.parent)
    with path.open("rb") as file:
        return ("codex" if b'"session_meta"' in file.read(2_000) else "claude-code"), ""


def _is_kept(attempt: Attempt, text: str) -> bool:
    """Whether the command is there, and a line of what it printed."""
    command = attempt.command
    start = command if len(command) <= COMMAND_CHARS else command[: COMMAND_CHARS // 4]
    lines = [line.strip()[:150] for line in attempt.output.splitlines()]
    # The line of the exit code is no line of output: it is shown with the command.
    printed = [line for line in lines if line and not line.startswith("Exit code")]
    return start in text and (not printed or any(line in text for line in printed))


def _share(part: int, of: int) -> float:
    return part / of if of else 1.0


def made_log(folder: Path, turns: int, *, seed: int = 7) -> Path:
    """Write a log of Claude Code with this many turns, each with names of its own."""
    random = Random(seed + turns)
    path = folder / f"made-{turns}.jsonl"
    with path.open("w") as file:
        for record in _made_records(turns, random):
            file.write(json.dumps(record) + "\n")
    return path


def _made_records(turns: int, random: Random) -> Iterator[dict[str, Any]]:
    words = "the parser reads a header and then checks whether each value is in range".split()
    for number in range(turns):
        base = {"sessionId": "made", "cwd": "/made", "timestamp": "2026-11-20T10:00:00Z"}
        name = f"handle_case_{number} in src/part_{number % 40}/module_{number}.py"
        if number % 10 == 0:
            text = f"Now make {name} accept an empty list, and keep TICKET-{number} in mind."
            message = {"role": "user", "content": text}
            yield {**base, "type": "user", "uuid": f"u{number}", "message": message}
            continue
        filler = " ".join(random.choices(words, k=120))
        cause = f"The cause was parseValue{number}(), fixed now."
        explanation = f"I changed {name}. {filler}. {cause} {filler}."
        command = f"pytest -q tests/test_part_{number % 40}.py -k case_{number}"
        blocks = [
            {"type": "text", "text": explanation},
            {
                "type": "tool_use",
                "id": f"t{number}",
                "name": "Bash",
                "input": {"command": command},
            },
        ]
        yield {
            **base,
            "type": "assistant",
            "uuid": f"a{number}",
            "requestId": f"r{number}",
            "message": {"id": f"m{number}", "role": "assistant", "content": blocks},
        }
        failed = number % 7 == 0
        lines = [" ".join(random.choices(words, k=14)) for _ in range(60)]
        ending = f"E   AssertionError: {number} != {number + 1}" if failed else "3 passed"
        result = {
            "type": "tool_result",
            "tool_use_id": f"t{number}",
            "content": "\n".join([*lines, ending]),
            "is_error": failed,
        }
        message = {"role": "user", "content": [result]}
        yield {**base, "type": "user", "uuid": f"o{number}", "message": message}


def main() -> int:
    """Measure and print; 1 where a target is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--transcripts", type=Path)
    parser.add_argument("--budgets", default="40000,20000,10000")
    options = parser.parse_args()
    budgets = [int(budget) for budget in options.budgets.split(",")]
    with tempfile.TemporaryDirectory() as name:
        made_logs = [made_log(Path(name), turns) for turns in (40, 150, 400)]
        real_logs: list[Path] = []
        if options.transcripts:
            real_logs = sorted(path for path in options.transcripts.iterdir() if path.is_file())
        measured = [
            measure(log, budget) for log in [*made_logs, *real_logs] for budget in budgets
        ]
        large = measure(made_log(Path(name), LARGE_TURNS), LARGE_BUDGET)
    for kept in [*measured, large]:
        print(_line(kept))
    # Made sessions are as long as they were made: they say nothing about how many are.
    names_of_real = {path.name for path in real_logs}
    of_real = [kept for kept in measured if kept.log in names_of_real]
    without_calls = _share(sum(not kept.needs_calls for kept in of_real), len(of_real))
    if of_real:
        print(
            f"no call needed: {without_calls:.0%} of logs (at least {LEAST_WITHOUT_CALLS:.0%})"
        )
    print(f"{LARGE_TURNS:,} turns: {large.cpu_s:.2f} CPU-s (at most {MOST_CPU_S})")
    met = [
        all(kept.names >= LEAST_NAMES for kept in [*measured, large]),
        all(kept.last_request for kept in [*measured, large]),
        all(kept.attempts >= LEAST_ATTEMPTS for kept in [*measured, large]),
        all(kept.frontier_bytes <= MAX_BYTES for kept in [*measured, large]),
        without_calls >= LEAST_WITHOUT_CALLS,
        large.cpu_s <= MOST_CPU_S,
    ]
    return 0 if all(met) else 1


def _line(kept: Kept) -> str:
    fits = "" if kept.fits else "  OVER: what stays word for word is larger"
    return (
        f"{kept.log[:28]:28} {kept.turns:5} turns {kept.session_tokens:9,} → {kept.tokens:7,} of"
        f" {kept.budget:7,}  names {kept.names:.3f}  request {int(kept.last_request)}  attempts"
        f" {kept.attempts:.2f} of {kept.attempts_of:3}  {kept.cpu_s:.2f} s{fits}"
    )


if __name__ == "__main__":
    raise SystemExit(main())
