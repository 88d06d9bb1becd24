"""Is the rule that a fix depends on in the brief of a session whose first prompt is the bug
report?

    python benchmarks/brief.py --bench DIR --repositories DIR [--host OWNER/NAME] [--every 1]

DIR/decisions/tasks.jsonl has bug reports, each with the commit or the chats that hold the rule;
decoys.jsonl has chats that decide nothing; DIR/OWNER+NAME is a clone with a history of its own.
The chats are written as logs of Claude Code and imported as a user imports them; the commits, and
later ones that broke their rules, are put on top of a copy of the history. Every bug report is then
the first prompt of a session: one real process of `xscore hook prompt` each, without a key.

Counted is whether the brief cites the deciding commit or chat, and whether its line has the rule
itself: at least `WHOLE` of the terms of the commit's message, or of the last words of the chat that
settle it. Then messages of commits of other repositories are the first prompts (DIR/commits.jsonl):
nothing here bears on them, so each item told is one too many. Ends with 1 where a target is missed.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from deciding_words import HOST, Chat, Task, plant_commits, read_lines
from measuring import CHECKOUT, XSCORE, take
from msgspec import Struct

from xscore.extensions.agents.brief import HEAD, MOST_BYTES
from xscore.extensions.agents.brief_items import without_code
from xscore.extensions.agents.data_fence import FENCE
from xscore.store.term_vectors import text_terms

LEAST_CHATS, LEAST_COMMITS, MOST_ITEMS = 0.90, 0.85, 3
WHOLE = 0.9
"""Share of a rule's terms that its line has to have."""
SETTLING_CHARS = 120
"""Last words of a chat that are shorter only agree; the rule is what they agree to."""
DAY_S = 86_400
ITEM = re.compile(r"^- (.*)$", re.MULTILINE)


class BriefResult(Struct, frozen=True):
    """What the brief of one task has."""

    task: str
    place: int
    """Place of the deciding item, from 1; 0 if it is not told."""
    share: float
    """Share of the rule's terms that are in its line."""
    items: int
    size: int
    cpu_s: float

    @property
    def has_rule(self) -> bool:
        """Whether the rule is in the brief."""
        return self.place > 0 and self.share >= WHOLE


class Workplace(Struct, frozen=True):
    """A repository, and the home of its user."""

    tree: Path
    home: Path

    @property
    def environment(self) -> dict[str, str]:
        """Variables of every process."""
        return {
            **os.environ,
            "HOME": str(self.home),
            "PYTHONPATH": str(CHECKOUT),
            "XSCORE_JUDGE_MODEL": "lexical",
            "XSCORE_AGENTS_HOOK_DEADLINE_S": "30",
        }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bench", type=Path, required=True)
    parser.add_argument("--repositories", type=Path, required=True)
    parser.add_argument("--host", default=HOST)
    parser.add_argument("--every", type=int, default=1, help="ask every n-th task")
    parser.add_argument("--foreign", type=int, default=60, help="prompts of other repositories")
    parser.add_argument("--show", action="store_true", help="print what misses its rule")
    options = parser.parse_args()
    tasks = read_lines(options.bench / "decisions" / "tasks.jsonl")
    decoys = read_lines(options.bench / "decisions" / "decoys.jsonl")
    host = options.repositories / options.host.replace("/", "+")
    with tempfile.TemporaryDirectory() as scratch:
        commits = measure_commits(tasks, host, Path(scratch, "commits"), options)
        chats = measure_chats(tasks, decoys, host, Path(scratch, "chats"), options)
    has_missed = report("commits", commits, LEAST_COMMITS)
    has_missed |= report("chats", chats, LEAST_CHATS)
    return int(has_missed)


def measure_commits(
    tasks: Sequence[Task], host: Path, place: Path, options: argparse.Namespace
) -> list[BriefResult]:
    """Put the deciding commits into the history, and ask."""
    cases = [task for task in tasks if "commit" in task]
    work = new_workplace(place)
    plant_commits(cases, host, work.tree)
    hash_of = hashes_by_subject(work.tree)
    take([*XSCORE, "index", "-q"], work.tree, work.environment)
    results: list[BriefResult] = []
    for task in cases[:: options.every]:
        message = task["commit"]
        citation = f"commit {hash_of[message['subject']][:7]}"
        rule = f"{message['subject']} {message['body']}"
        results.append(ask(work, task, [citation], rule, show=options.show))
    return results


def hashes_by_subject(tree: Path) -> dict[str, str]:
    """Return the hash of each commit by its subject."""
    log = subprocess.run(
        ["git", "-C", str(tree), "log", "--format=%H %s"],
        check=True,
        capture_output=True,
        text=True,
    )
    pairs = [line.partition(" ") for line in log.stdout.splitlines()]
    return {subject: hash_ for hash_, _, subject in pairs}


def measure_chats(
    tasks: Sequence[Task],
    decoys: Sequence[Task],
    host: Path,
    place: Path,
    options: argparse.Namespace,
) -> list[BriefResult]:
    """Import all chats as sessions of this repository, and ask."""
    cases = [task for task in tasks if "conversations" in task]
    work = new_workplace(place)
    subprocess.run(["git", "clone", "-q", str(host), str(work.tree)], check=True)
    chats: dict[str, Chat] = {}
    for task in cases:
        for number, chat in enumerate(task["conversations"]):
            chats[f"{task['task_id']}-{number}"] = chat
    for number, decoy in enumerate(decoys):
        chats[f"decoy-{number}"] = decoy["turns"]
    folder = work.home / ".claude" / "projects" / "boltons"
    folder.mkdir(parents=True)
    for day, (name, chat) in enumerate(chats.items()):
        lines = log_of_chat(
            name, chat, work.tree, at=time.time() - DAY_S * (1 + len(chats) - day)
        )
        (folder / f"{name}.jsonl").write_text(
            "".join(json.dumps(line) + "\n" for line in lines)
        )
    take([*XSCORE, "index", "-q"], work.tree, work.environment)
    take([*XSCORE, "memory", "import-sessions", "-q"], work.tree, work.environment)
    ids_of_chat = ids_by_chat(work)
    ask_foreign(work, options)
    results: list[BriefResult] = []
    for task in cases[:: options.every]:
        last = len(task["conversations"]) - 1
        ids = ids_of_chat[f"{task['task_id']}-{last}"]
        rule = settling_words(task["conversations"][last])
        citations = [f"[{memory_id}]" for memory_id in ids]
        results.append(ask(work, task, citations, rule, show=options.show))
    return results


def ask_foreign(work: Workplace, options: argparse.Namespace) -> None:
    """Ask what is about other repositories, and print how much is told."""
    commits = read_lines(options.bench / "commits.jsonl")
    step = max(1, len(commits) // options.foreign)
    counts: list[int] = []
    for commit in commits[::step]:
        task = {"task_id": f"foreign-{commit['id']}", "bug_report": commit["query"]}
        result = ask(work, task, [], "", show=False)
        counts.append(result.items)
    silent = sum(not count for count in counts) / len(counts)
    print(
        f"{len(counts)} prompts about other repositories: nothing is told in {silent:.2f},"
        f" {statistics.mean(counts):.2f} items on average"
    )


def new_workplace(place: Path) -> Workplace:
    home = place / "home"
    home.mkdir(parents=True)
    return Workplace(place / "tree", home)


def log_of_chat(name: str, chat: Chat, tree: Path, *, at: float) -> list[dict[str, Any]]:
    """Return the lines that Claude Code writes of a chat."""
    lines: list[dict[str, Any]] = []
    for number, message in enumerate(chat):
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at + number * 60))
        content: object = message["text"]
        if message["role"] == "assistant":
            content = [{"type": "text", "text": message["text"]}]
        record: dict[str, Any] = {"role": message["role"], "content": content}
        if message["role"] == "assistant":
            record["id"] = f"{name}-{number}"
        lines.append(
            {
                "type": message["role"],
                "uuid": f"{name}-{number}",
                "sessionId": name,
                "cwd": str(tree),
                "timestamp": stamp,
                "message": record,
            }
        )
    return lines


def ids_by_chat(work: Workplace) -> dict[str, list[str]]:
    """Return the memories of each imported chat."""
    listing = take(
        [*XSCORE, "memory", "list", "--kind", "exchange", "--json"], work.tree, work.environment
    )
    ids: dict[str, list[str]] = {}
    for memory in json.loads(listing.out)["memories"]:
        ids.setdefault(memory["particulars"]["session"], []).append(memory["id"])
    return ids


def settling_words(chat: Chat) -> str:
    """Return the last words of a chat that say something, without blocks of code: those before them
    were amended by them."""
    for message in reversed(chat):
        if len(message["text"]) >= SETTLING_CHARS or message is chat[0]:
            return without_code(message["text"])
    return ""


def ask(
    work: Workplace, task: Task, citations: Sequence[str], rule: str, *, show: bool
) -> BriefResult:
    """Send a bug report as the first prompt of a session; return what its brief has."""
    message = {
        "session_id": task["task_id"],
        "cwd": str(work.tree),
        "hook_event_name": "UserPromptSubmit",
        "prompt": task["bug_report"],
    }
    added_text, cpu_s = hook_output(work.environment, message)
    brief = ""
    if added_text.startswith(HEAD):
        brief = added_text.partition(f"</{FENCE}>")[0]
    items = ITEM.findall(brief)
    terms = text_terms(rule)
    place, share = 0, 0.0
    for number, item in enumerate(items, start=1):
        if not place and any(citation in item for citation in citations):
            place = number
            share = len(terms & text_terms(item)) / max(1, len(terms))
    size = len(brief.encode())
    result = BriefResult(task["task_id"], place, share, len(items), size, cpu_s)
    if show and not result.has_rule:
        print(f"--- {result}\n{task['bug_report']}\nRULE {rule}\n{brief}\n")
    return result


def hook_output(
    environment: Mapping[str, str], message: Mapping[str, Any]
) -> tuple[str, float]:
    """Run the hook as an agent does; return what it adds, and its CPU seconds."""
    with tempfile.TemporaryFile() as sent, tempfile.TemporaryFile() as out:
        sent.write(json.dumps(message).encode())
        sent.seek(0)
        process = subprocess.Popen(
            [*XSCORE, "hook", "prompt", "--client", "claude-code"],
            cwd="/",
            env=dict(environment),
            stdin=sent,
            stdout=out,
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        data = out.read()
    reply = json.loads(data) if data.strip() else {}
    added_text = reply.get("hookSpecificOutput", {}).get("additionalContext", "")
    return added_text, usage.ru_utime + usage.ru_stime


def report(name: str, results: Sequence[BriefResult], least: float) -> bool:
    """Print the figures of one sort; return whether a target is missed."""
    count = len(results)
    is_told = sum(result.place > 0 for result in results) / count
    ruled = sum(result.has_rule for result in results) / count
    first = sum(result.place == 1 for result in results) / count
    items = statistics.mean(result.items for result in results)
    most_items = max(result.items for result in results)
    size = max(result.size for result in results)
    cpu_s = statistics.median(result.cpu_s for result in results)
    for result in results:
        if not result.has_rule:
            print(
                f"  {result.task}: at place {result.place} of {result.items},"
                f" {result.share:.2f} of its terms"
            )
    print(
        f"{name}, {count} tasks: the rule stands in the brief in {ruled:.2f} (target {least:.2f});"
        f" its source is told in {is_told:.2f}, first in {first:.2f}; {items:.1f} items, at most"
        f" {most_items} (target {MOST_ITEMS}); at most {size:,} bytes; {cpu_s:.2f} s CPU"
    )
    return ruled < least or most_items > MOST_ITEMS or size > MOST_BYTES


if __name__ == "__main__":
    raise SystemExit(main())
