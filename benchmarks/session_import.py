"""Importing past sessions: MB of session files for each second of CPU, and peak memory, for each
format.

    python benchmarks/session_import.py [--mb 1000] [--format claude-code …] [--largest-mb 725]

Writes synthetic files of the shapes that agents write into a scratch home (most bytes are tool
results, some 110 kB of file an exchange of Claude Code and Codex), imports them in a process of its
own and takes its CPU time with all that belongs to it: finding, reading, redacting, word vectors,
links, commits. The first file of Claude Code and of Codex has `--largest-mb`; Cline's files stay
below the limit of one document. Peak memory is the process's. Ends with 1 below
30 MB a CPU-second, or where ten times the bytes take more than 1.3 times the memory.
"""

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from xscore.platform.paths import find_root

LEAST_MB_PER_S = 30.0
MOST_GROWTH = 1.3
NOW = 1_796_000_000.0
WORDS = [
    f"{stem}{tail}"
    for stem in ("cache", "pack", "judge", "turn", "store", "index")
    for tail in range(400)
]
TOOL_BYTES = 12_000
STEPS = 8


def prose(dice: random.Random, count: int) -> str:
    return " ".join(dice.choices(WORDS, k=count))


def stamp(number: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(1_790_000_000 + number))


def claude(dice: random.Random, root: Path, session: str) -> Iterator[str]:
    """Lines of one log without end."""
    number = 0

    def line(kind: str, content: object, **fields: object) -> str:
        nonlocal number
        number += 1
        message = {"id": f"msg_{number}", "role": kind, "content": content}
        record = {
            "parentUuid": f"{session}-{number - 1}",
            "isSidechain": False,
            "cwd": str(root),
            "type": kind,
            "sessionId": session,
            "version": "2.0.1",
            "gitBranch": "main",
            "message": message,
            "uuid": f"{session}-{number}",
            "timestamp": stamp(number),
            **fields,
        }
        return json.dumps(record) + "\n"

    while True:
        yield line("user", f"{prose(dice, 40)} in `src/module_{dice.randrange(300)}.py`?")
        for step in range(STEPS):
            call, failed = f"toolu_{number}", step == 3 and dice.random() < 0.1
            name, tool_input = "Edit", {"file_path": f"{root}/src/a.py"}
            if step % 2:
                name, tool_input = "Bash", {"command": f"pytest tests/{dice.choice(WORDS)}"}
            tool_use = {"type": "tool_use", "id": call, "name": name, "input": tool_input}
            yield line("assistant", [{"type": "text", "text": prose(dice, 30)}])
            yield line("assistant", [tool_use])
            text = prose(dice, TOOL_BYTES // 8) + ("\nAssertionError: no" if failed else "")
            result = {
                "type": "tool_result",
                "tool_use_id": call,
                "content": text,
                "is_error": failed,
            }
            yield line("user", [result], toolUseResult={"stdout": text[:600]})
        yield line("assistant", [{"type": "text", "text": prose(dice, 180)}])


def codex(dice: random.Random, root: Path, session: str) -> Iterator[str]:
    number = 0

    def line(kind: str, **payload: object) -> str:
        nonlocal number
        number += 1
        return json.dumps({"timestamp": stamp(number), "type": kind, "payload": payload}) + "\n"

    def item(kind: str, **payload: object) -> str:
        return line("response_item", type=kind, **payload)

    def message(role: str, kind: str, text: str) -> str:
        return item("message", role=role, content=[{"type": kind, "text": text}])

    def tool_call(step: int) -> Iterator[str]:
        call = f"call_{number}"
        failed = step == 3 and dice.random() < 0.1
        command = ["bash", "-lc", f"pytest tests/{dice.choice(WORDS)}"]
        arguments = json.dumps({"command": command})
        yield item("reasoning", encrypted_content=prose(dice, 60))
        yield item("function_call", name="shell", call_id=call, arguments=arguments)
        text = prose(dice, TOOL_BYTES // 8) + ("\nAssertionError: no" if failed else "")
        output = json.dumps({"output": text, "metadata": {"exit_code": int(failed)}})
        yield item("function_call_output", call_id=call, output=output)
        yield line("event_msg", type="token_count", info={"total": number})

    instructions = prose(dice, 2_000)
    facts = {"id": session, "cwd": str(root), "cli_version": "0.60.0"}
    yield line("session_meta", **facts, instructions=instructions)
    while True:
        question = f"{prose(dice, 40)} in `src/module_{dice.randrange(300)}.py`?"
        answer = prose(dice, 180)
        yield message("user", "input_text", question)
        yield line("event_msg", type="user_message", message=question)
        for step in range(STEPS):
            yield from tool_call(step)
        yield line("event_msg", type="agent_message", message=answer)
        yield message("assistant", "output_text", answer)


def aider(dice: random.Random, root: Path, session: str) -> Iterator[str]:
    while True:
        start = 1_790_000_000 + dice.randrange(10**6)
        yield time.strftime(
            "\n# aider chat started at %Y-%m-%d %H:%M:%S\n\n> Aider v0.86.1\n\n",
            time.gmtime(start),
        )
        for _ in range(20):
            yield f"#### {prose(dice, 40)}?\n\n"
            code = "\n".join(prose(dice, 12) for _ in range(700))
            yield (
                f"{prose(dice, 180)}\n\n```python\n# {code}\n```\n\n> Applied edit to src/a.py\n\n"
            )


def cline(dice: random.Random, root: Path, session: str) -> Iterator[str]:
    at = 1_790_000_000_000
    kinds = [
        ("user_feedback", 40),
        *[("tool", 0), ("api_req_started", TOOL_BYTES // 8)] * STEPS,
        ("text", 180),
    ]
    while True:
        for kind, words in kinds:
            at += 1_000
            text = (
                prose(dice, words)
                if words
                else json.dumps({"tool": "editedExistingFile", "path": "src/a.py"})
            )
            yield json.dumps({"ts": at, "type": "say", "say": kind, "text": text})


def claude_file(home: Path, root: Path, session: str) -> Path:
    from xscore.extensions.sessions.claude_code import slug

    return home / ".claude/projects" / slug(str(root)) / f"{session}.jsonl"


def codex_file(home: Path, root: Path, session: str) -> Path:
    return home / ".codex/sessions/2026/11/01" / f"rollout-{session}.jsonl"


def cline_file(home: Path, root: Path, session: str) -> Path:
    folder = home / ".cline/data/tasks" / session
    folder.mkdir(parents=True, exist_ok=True)
    environment = f"# Current Working Directory ({root}) Files"
    (folder / "api_conversation_history.json").write_text(
        json.dumps([{"role": "user", "content": environment}])
    )
    return folder / "ui_messages.json"


Lines = Callable[[random.Random, Path, str], Iterator[str]]
SHAPES: dict[str, tuple[Lines, Callable[[Path, Path, str], Path], int]] = {
    "claude-code": (claude, claude_file, 20),
    "codex": (codex, codex_file, 20),
    "aider": (aider, lambda home, root, session: root / ".aider.chat.history.md", 10**9),
    "cline": (cline, cline_file, 12),
}
"""Lines, place, and MB of a file."""


def write(name: str, home: Path, root: Path, mb: int, largest_mb: int) -> int:
    """Write files of about N MB; return their bytes."""
    lines, place, each_mb = SHAPES[name]
    written, session, total = 0, 0, mb * 10**6
    while written < total:
        size = (
            min(
                largest_mb if session == 0 and name in ("claude-code", "codex") else each_mb, mb
            )
            * 10**6
        )
        size = min(size, total - written)
        path = place(home, root, f"s{session}")
        path.parent.mkdir(parents=True, exist_ok=True)
        written += write_file(
            path, lines(random.Random(session), root, f"s{session}"), size, name == "cline"
        )
        session += 1
    return written


def write_file(path: Path, lines: Iterator[str], size: int, is_array: bool) -> int:
    written = 0
    with path.open("w") as file:
        while written < size:
            if is_array:
                file.write("," if written else "[")
            written += file.write(next(lines)) + is_array
        file.write("]" if is_array else "")
    return written


def import_here(home: Path, root: Path) -> None:
    """In the child: import, and print what it took."""
    from xscore.extensions.sessions.importing import import_sessions
    from xscore.extensions.sessions.session_reader import AgentFolders
    from xscore.store.store import Store

    with Store.open(find_root(root), user_data_dir=home / "data") as store:
        before = time.process_time()
        report = import_sessions(store, AgentFolders(home, {}, root), now=NOW)
        cpu_s = time.process_time() - before
        started_again = time.process_time()
        import_sessions(store, AgentFolders(home, {}, root), now=NOW)
        again_s = time.process_time() - started_again
    assert not report.refused, report.refused
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        1024 if sys.platform == "linux" else 2**20
    )
    figures = {
        "cpu_s": cpu_s,
        "again_s": again_s,
        "peak_mb": peak_mb,
        "exchanges": report.added,
    }
    print(
        json.dumps(
            figures
            | {"failures": report.failures, "links": report.links, "bytes": report.bytes_read}
        )
    )


def measure(name: str, mb: int, largest_mb: int, *, folder: Path) -> dict[str, float]:
    """Write, import, remove; return the figures."""
    with tempfile.TemporaryDirectory(prefix="xscore-sessions-", dir=folder) as place:
        home, root = Path(place).resolve() / "home", Path(place).resolve() / "repo"
        subprocess.run(
            ["git", "init", "--quiet", "--initial-branch", "main", str(root)], check=True
        )
        written = write(name, home, root, mb, largest_mb)
        child = [sys.executable, __file__, "--import-here", str(home), str(root)]
        done = subprocess.run(child, check=True, capture_output=True, text=True)
        figures: dict[str, float] = json.loads(done.stdout)
        size = sum(file.stat().st_size for file in find_root(root).store_dir.iterdir())
    figures["mb"], figures["rate"], figures["store_mb"] = (
        written / 1e6,
        written / 1e6 / figures["cpu_s"],
        size / 1e6,
    )
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mb", type=int, default=200)
    parser.add_argument("--largest-mb", type=int, default=725)
    parser.add_argument("--format", action="append", choices=list(SHAPES))
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--import-here", nargs=2, type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.import_here:
        import_here(*options.import_here)
        return 0
    failed = False
    for name in options.format or SHAPES:
        small = measure(
            name, max(1, options.mb // 10), options.largest_mb, folder=options.folder
        )
        figures = measure(name, options.mb, options.largest_mb, folder=options.folder)
        growth = figures["peak_mb"] / small["peak_mb"]
        failed |= figures["rate"] < LEAST_MB_PER_S or growth > MOST_GROWTH
        print(
            f"{name:12}{figures['mb']:7,.0f} MB  {figures['exchanges']:7,.0f} exchanges "
            f" {figures['rate']:6.1f} MB/s of CPU  again {figures['again_s'] * 1000:5.0f} ms  peak"
            f" {figures['peak_mb']:4.0f} MB (a tenth: {small['peak_mb']:.0f} MB) "
            f" {figures['failures']:,.0f} failures  store {figures['store_mb']:.0f} MB",
            flush=True,
        )
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
