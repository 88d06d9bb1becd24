"""Sessions of real agents, bare, with the MCP server and with the hook, which tells of earlier work
once, with every prompt or never: tokens, seconds, passes, our dollars, what was injected.

    python -m benchmarks.sessions --agent claude [--tasks FILE] [--conditions bare,hook] [--repeats
    3]
    python -m benchmarks.sessions --replay FOLDER

Each session starts from the files of a pinned commit, without its history, which would contain
the fix. All that is known about a session is in one file of JSON lines, and the table is made
from those files, also with `--replay`. It runs what an agent wrote: use a machine that you can
lose.
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
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from benchmarks.sessions.agents import AGENTS, CONDITIONS, MEMORY, PROGRAM, Session, records_of

FOLDER = Path(__file__).parent
SESSION_S, CHECK_S = 1_800, 60
_TAKE = """
git init -q "$1"
git -C "$2" archive "$3" | tar -x -C "$1"
cd "$1"
git add --all --force
git -c user.name=sessions -c user.email=sessions@localhost \\
    commit -q -m "the files of a pinned commit"
"""


class Task(Struct, frozen=True):
    """A task of the list."""

    name: str
    repository: str
    """A URL, or a folder on this machine."""
    commit: str
    prompt: str
    check: list[str]
    """Lines of Python that raise nothing once the task is done; the agent does not see them."""
    path: str = "."
    """Folder of the repository's packages."""
    facts: list[str] = []
    """Decisions that are stated before the session."""
    chats: list[list[dict[str, str]]] = []
    """Past chats, `{role, text}`, that are imported before it."""


class Outcome(Struct, frozen=True):
    """What the file of one session says."""

    condition: str
    passed: bool
    tokens: int
    seconds: float
    our_usd: float
    injected: int
    """Characters that the hooks added."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--agent", choices=AGENTS)
    parser.add_argument("--tasks", type=Path, default=FOLDER / "tasks.json")
    parser.add_argument("--conditions", default=",".join(CONDITIONS))
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument(
        "--out", type=Path, default=Path("sessions"), help="folder of the files of sessions"
    )
    parser.add_argument(
        "--replay", type=Path, metavar="FOLDER", help="run nothing; the table of these files"
    )
    options = parser.parse_args()
    if not options.replay:
        if not options.agent:
            parser.error("name an --agent, or a folder to --replay")
        if not (version := AGENTS[options.agent].version()):
            parser.error(
                f"{options.agent} is not installed, or does not say its version; nothing was run"
            )
        options.out.mkdir(parents=True, exist_ok=True)
        for task in msgspec.json.decode(options.tasks.read_bytes(), type=list[Task]):
            for repeat in range(options.repeats):
                # Side by side in time, so that a slow hour hits all.
                for condition in options.conditions.split(","):
                    file = (
                        options.out / f"{options.agent}-{task.name}-{condition}-{repeat}.jsonl"
                    )
                    head = {
                        "kind": "session",
                        "agent": options.agent,
                        "version": version,
                        "condition": condition,
                    }
                    run_session(task, head, file)
    files = sorted((options.replay or options.out).glob("*.jsonl"))
    sys.stdout.write(table(map(read_session, files)))
    return 0


def run_session(task: Task, head: dict[str, str], file: Path) -> None:
    """Run one session in a folder of its own and write its file once it has ended."""
    # Xscore may still be ending.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        repository, outside = Path(name, "repository"), Path(name, "outside")
        outside.mkdir()
        take_files(task, repository)
        agent = AGENTS[head["agent"]]
        # Xscore learns nothing from one session to the next.
        environ = {**os.environ, "XDG_DATA_HOME": str(outside)}
        environ["XSCORE_AGENTS_MEMORY"] = MEMORY.get(head["condition"], "off")
        began = time.monotonic()
        if head["condition"] != "bare":
            subprocess.run(
                [PROGRAM, "index", "-q"],
                cwd=repository,
                env=environ,
                check=True,
                capture_output=True,
            )
            remember_before(task, repository, outside, environ)
        indexed = time.monotonic()
        session = Session(task.prompt, head["condition"], repository, outside)
        command = agent.command(session)
        exit_code, output, errors = run_agent(
            command, repository, {**environ, **agent.variables}
        )
        seconds = time.monotonic() - indexed
        # Of a bare session, which has no store, it is nothing.
        report = [PROGRAM, "report", "--json"]
        ledger = subprocess.run(
            report, cwd=repository, env=environ, capture_output=True, check=True
        )
        end = {
            "kind": "end",
            "exit_code": exit_code,
            "errors": errors[-4_000:],
            "index_s": round(indexed - began, 3),
            "seconds": round(seconds, 3),
            "our_usd": str(json.loads(ledger.stdout)["spent"]["cost_usd"]),
            **checked(task, repository),
        }
        added = [{"kind": "injected", "reply": reply} for reply in read_injected(session)]
    lines = [{"kind": "agent", "line": line} for line in records_of(output)]
    records = [{**head, "task": msgspec.to_builtins(task)}, *lines, *added, end]
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    sys.stderr.write(
        f"{file.name}: {'passed' if end['passed'] else 'failed'}, {end['seconds']} s\n"
    )


def remember_before(
    task: Task, repository: Path, outside: Path, environ: dict[str, str]
) -> None:
    """State the task's facts, and import its chats as a user imports past sessions."""
    settings = {**environ, "CLAUDE_CONFIG_DIR": str(outside / "claude")}
    folder = outside / "claude" / "projects" / "past"
    folder.mkdir(parents=True)
    for number, chat in enumerate(task.chats):
        lines = [
            log_line(f"past-{number}", place, message, repository)
            for place, message in enumerate(chat)
        ]
        (folder / f"past-{number}.jsonl").write_text("".join(lines))
    commands = [["memory", "add", fact, "--kind", "decision"] for fact in task.facts]
    if task.chats:
        commands.append(["memory", "import-sessions", "-q"])
    for command in commands:
        subprocess.run(
            [PROGRAM, *command], cwd=repository, env=settings, check=True, capture_output=True
        )


def log_line(chat: str, place: int, message: dict[str, str], repository: Path) -> str:
    """Return a message of a chat as a line of a log of Claude Code."""
    content = [{"type": "text", "text": message["text"]}]
    return (
        json.dumps(
            {
                "type": message["role"],
                "uuid": f"{chat}-{place}",
                "sessionId": chat,
                "cwd": str(repository),
                "timestamp": f"2026-01-01T00:{place // 60:02}:{place % 60:02}Z",
                "message": {
                    "role": message["role"],
                    "id": f"{chat}-{place}",
                    "content": content if message["role"] == "assistant" else message["text"],
                },
            }
        )
        + "\n"
    )


def read_injected(session: Session) -> list[Any]:
    """Return what the hooks of a session replied."""
    if not session.injected.exists():
        return []
    replies = [line for line in session.injected.read_text().splitlines() if line.strip()]
    return [json.loads(reply) for reply in replies]


def take_files(task: Task, place: Path) -> None:
    """Make a repository with one commit: the task's files."""
    source = Path(task.repository).expanduser()
    if not source.is_dir():
        source = Path.home() / ".cache/xscore-sessions" / task.repository.rpartition("/")[2]
        if not source.is_dir():
            subprocess.run(
                ["git", "clone", "--quiet", "--bare", task.repository, source], check=True
            )
    subprocess.run(["sh", "-ec", _TAKE, "take", place, source, task.commit], check=True)


def run_agent(
    command: list[str], folder: Path, environ: dict[str, str]
) -> tuple[int, str, str]:
    """Run an agent to its end or out of time; return its exit code, output and errors."""
    pipes: dict[str, Any] = {
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
    }
    process = subprocess.Popen(
        command, cwd=folder, env=environ, **pipes, text=True, start_new_session=True
    )
    try:
        output, errors = process.communicate(timeout=SESSION_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, errors = process.communicate()
    return process.returncode, output, errors


def checked(task: Task, repository: Path) -> dict[str, Any]:
    """Run the task's check."""
    environ = {
        **os.environ,
        "PYTHONPATH": str(repository / task.path),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [sys.executable, "-c", "\n".join(task.check)]
    try:
        subprocess.run(
            command,
            cwd=repository,
            env=environ,
            capture_output=True,
            timeout=CHECK_S,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        return {"passed": False, "check": error.stderr[-2_000:].decode("utf-8", "replace")}
    except subprocess.TimeoutExpired:
        return {"passed": False, "check": f"no end after {CHECK_S} s"}
    return {"passed": True, "check": ""}


def read_session(file: Path) -> Outcome:
    """Read the file of a session."""
    head, *records, end = map(json.loads, file.read_text().splitlines())
    lines = [record["line"] for record in records if record["kind"] == "agent"]
    injected = sum(
        len(json.dumps(record["reply"])) for record in records if record["kind"] == "injected"
    )
    return Outcome(
        head["condition"],
        end["passed"],
        AGENTS[head["agent"]].tokens(lines),
        end["seconds"],
        float(end["our_usd"]),
        injected,
    )


def table(outcomes: Iterable[Outcome]) -> str:
    """Return a line a condition: sessions, passes, tokens, seconds and injected characters
    (medians), our dollars (sum)."""
    by_condition: dict[str, list[Outcome]] = {name: [] for name in CONDITIONS}
    for outcome in outcomes:
        by_condition[outcome.condition].append(outcome)
    lines = [
        f"{'condition':<10}{'sessions':>9}{'passed':>8}{'tokens':>12}{'seconds':>9}{'injected':>10}"
        f"{'our $':>9}"
    ]
    for condition, of_condition in by_condition.items():
        if of_condition:
            tokens, seconds, injected = (
                statistics.median(getattr(of_run, name) for of_run in of_condition)
                for name in ("tokens", "seconds", "injected")
            )
            passed = sum(of_run.passed for of_run in of_condition)
            dollars = sum(of_run.our_usd for of_run in of_condition)
            lines.append(
                f"{condition:<10}{len(of_condition):>9}{passed:>8}{tokens:>12,.0f}{seconds:>9.1f}"
                f"{injected:>10,.0f}{dollars:>9.4f}"
            )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
