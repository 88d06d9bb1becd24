"""Are the commit and the chat that hold the rule of a fix found, and does a later word rank
above the earlier one?

    python benchmarks/deciding_words.py --bench DIR --repositories DIR [--host OWNER/NAME]

DIR/decisions/tasks.jsonl has bug reports, each with the commit or the chats that hold the rule;
decoys.jsonl has chats that decide nothing; DIR/OWNER+NAME is a clone with a history of its own.
The commits, and later ones that broke their rules, are put on top of a copy of that history, dated
within it; the chats are remembered, one after the other, in two forms: each exchange a memory, as
the importers of sessions make them, and each chat one memory. Every bug report is asked of the
whole pool, code included, without a key, as `xscore context` asks. Ends with 1 where a target is
missed.
"""

import argparse
import asyncio
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from commit_cases import answers
from msgspec import Struct

from xscore.extensions.sessions.exchange_writer import (
    ExchangeWriter,
    ImportedExchange,
    exchange_memory,
)
from xscore.pipeline.build import Pipeline
from xscore.pipeline.turn_stages import Ranking
from xscore.platform.hashing import memory_id
from xscore.records.judgment import ORDER_BOOSTS, Ranked
from xscore.records.memory import Kind, Layer
from xscore.records.receipt import Answer
from xscore.settings import JudgeSettings, Settings, StoreSettings

COMMIT_SHOWN, CHAT_KEPT = 0.90, 0.95
HOST = "mahmoud/boltons"
DAY_S = 86_400
FIRST_AT = 1_700_000_000
"""When the first chat and the first commit are dated, in Unix seconds."""
AUTHOR = {
    f"GIT_{role}_{field}": value
    for role in ("AUTHOR", "COMMITTER")
    for field, value in (("NAME", "Ada"), ("EMAIL", "ada@users.noreply.github.com"))
}

Task = Mapping[str, Any]
Chat = Sequence[Mapping[str, str]]


class ChatResult(Struct, frozen=True):
    """Rank of the chat that decides a task."""

    rank: int
    """Among chats, from 1."""
    is_kept: bool
    kept: int
    """Chats that are kept."""
    is_above: bool | None = None
    """Whether it ranks above the chat that it amends; None if it amends none."""
    was_above: bool | None = None
    """Whether it ranks above by scores alone."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bench", type=Path, required=True)
    parser.add_argument("--repositories", type=Path, required=True)
    parser.add_argument("--host", default=HOST)
    options = parser.parse_args()
    tasks = read_lines(options.bench / "decisions" / "tasks.jsonl")
    decoys = read_lines(options.bench / "decisions" / "decoys.jsonl")
    host = options.repositories / options.host.replace("/", "+")
    with tempfile.TemporaryDirectory() as scratch:
        has_missed = measure_commits(tasks, host, Path(scratch) / "commits")
        for form in ("exchanges", "chats"):
            has_missed |= measure_chats(tasks, decoys, host, Path(scratch) / form)
    return int(has_missed)


def read_lines(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def measure_commits(tasks: Sequence[Task], host: Path, tree: Path) -> bool:
    """Print how often the deciding commit is among those shown; return whether that misses the
    target."""
    cases = [task for task in tasks if "commit" in task]
    deciding = plant_commits(cases, host, tree)
    shown = kept = first = 0
    for task, ranking, answer in ask_all(tree, cases):
        deciding_id = deciding[task["task_id"]]
        chosen = [memory.id for memory in answer.selected if memory.kind == Kind.COMMIT]
        kept += len(chosen)
        shown += deciding_id in chosen
        commits = [entry for entry in ranking.ranked if entry.candidate.kind is Kind.COMMIT]
        rank = rank_of({deciding_id}, commits)
        first += rank == 1
        if deciding_id not in chosen:
            score = next(entry.score for entry in commits if entry.candidate.id == deciding_id)
            print(f"  not shown: {task['task_id']}, at rank {rank} with {score:.2f}")
    count = len(cases)
    print(
        f"commits, {count} tasks in {host.name}: the deciding one is shown in {shown / count:.2f}"
        f" (target {COMMIT_SHOWN:.2f}), first in {first / count:.2f}; {kept / count:.1f} are shown"
    )
    return shown < COMMIT_SHOWN * count


def plant_commits(cases: Sequence[Task], host: Path, tree: Path) -> dict[str, str]:
    """Put the commits of these tasks on top of a copy of the host's history; return the memory of
    each that decides, by task."""
    subprocess.run(["git", "clone", "-q", str(host), str(tree)], check=True)
    deciding: dict[str, str] = {}
    for number, task in enumerate(cases):
        message = f"{task['commit']['subject']}\n\n{task['commit']['body']}\n"
        deciding_hash = commit(tree, task["module"], message, day=number)
        deciding[task["task_id"]] = memory_id(
            Layer.GOVERNANCE, deciding_hash, Kind.COMMIT, "", ordinal=0
        )
    for number, task in enumerate(cases):
        commit(tree, task["module"], task["regression_subject"], day=len(cases) + number)
    return deciding


def commit(tree: Path, path: str, message: str, *, day: int) -> str:
    """Commit another line of a file; return the hash."""
    file = tree / path
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as lines:
        lines.write(f"REVISION = {day}\n")
    at = f"{FIRST_AT + day * DAY_S} +0000"
    dates = {"GIT_AUTHOR_DATE": at, "GIT_COMMITTER_DATE": at}
    environment = {**os.environ, **AUTHOR, **dates}
    for command in (["add", "-A"], ["commit", "-q", "--no-verify", "-m", message]):
        subprocess.run(["git", "-C", str(tree), *command], check=True, env=environment)
    head = subprocess.run(
        ["git", "-C", str(tree), "rev-parse", "HEAD"],
        check=True,
        capture_output=True,
        text=True,
    )
    return head.stdout.strip()


def measure_chats(
    tasks: Sequence[Task], decoys: Sequence[Task], host: Path, tree: Path
) -> bool:
    """Print the ranks of the deciding chats; return whether that misses a target. tree: its
    name is the form in which they are remembered."""
    subprocess.run(["git", "clone", "-q", str(host), str(tree)], check=True)
    cases = [task for task in tasks if "conversations" in task]
    chats: dict[str, Chat] = {}
    for task in cases:
        for number, chat in enumerate(task["conversations"]):
            chats[f"{task['task_id']}#{number}"] = chat
    for number, decoy in enumerate(decoys):
        chats[f"decoy#{number}"] = decoy["turns"]
    ids_of_chat = asyncio.run(remember_chats(tree, chats))
    results: list[ChatResult] = []
    for task, ranking, answer in ask_all(tree, cases):
        result = chat_result(task, ranking, answer, ids_of_chat)
        results.append(result)
        if not result.is_kept or result.is_above is False:
            print(f"  {task['task_id']}: {result}")
    return print_chats(results, form=tree.name)


async def remember_chats(tree: Path, chats: Mapping[str, Chat]) -> dict[str, set[str]]:
    """Remember chats, one a day; return the ids of the memories of each."""
    ids_of_chat: dict[str, set[str]] = {}
    async with Pipeline.open(tree, settings_of(tree)) as pipeline:
        now = pipeline.store.clock()
        writer = ExchangeWriter(pipeline.store, now=now)
        for day, (name, chat) in enumerate(chats.items()):
            exchanges = list(exchanges_of(name, chat, day=day, tree=tree))
            memories = [
                exchange_memory(exchange, pipeline.store.root, now=now)
                for exchange in exchanges
            ]
            writer.add(memories)
            ids_of_chat[name] = {entry.memory.id for entry in memories}
        writer.finish()
    return ids_of_chat


def exchanges_of(name: str, chat: Chat, *, day: int, tree: Path) -> Iterator[ImportedExchange]:
    """Yield what a chat becomes: each exchange by itself, or all of them as one."""
    pairs: list[tuple[str, str]] = []
    for message in chat:
        if message["role"] == "user":
            pairs.append((message["text"], ""))
        elif pairs:
            question, words = pairs[-1]
            pairs[-1] = (question, f"{words}\n{message['text']}".strip())
    if tree.name == "chats":
        rest = "\n".join(message["text"] for message in chat[1:])
        pairs = [(chat[0]["text"], rest)]
    for number, (question, words) in enumerate(pairs):
        at = float(FIRST_AT + day * DAY_S + number * 60)
        yield ImportedExchange(
            origin="claude-code",
            session=name,
            identity=f"{name}/{number}",
            asked=question,
            answered=words or "(no answer)",
            at=at,
            ended_at=at,
            cwd=str(tree),
        )


def chat_result(
    task: Task, ranking: Ranking, answer: Answer, ids_of_chat: Mapping[str, set[str]]
) -> ChatResult:
    """Say the rank of the last chat of a task."""
    *_, deciding = names = [
        f"{task['task_id']}#{number}" for number in range(len(task["conversations"]))
    ]
    best: dict[str, tuple[float, float]] = {}
    entries = {entry.candidate.id: entry for entry in ranking.ranked}
    for name, ids in ids_of_chat.items():
        scored = [entries[id_] for id_ in ids if id_ in entries]
        final = max(entry.score for entry in scored)
        best[name] = (final, max(map(score_alone, scored)))
    chosen = {memory.id for memory in answer.selected}
    kept = sum(not ids.isdisjoint(chosen) for ids in ids_of_chat.values())
    ordered = sorted(best, key=lambda name: (-best[name][0], name))
    is_above = was_above = None
    if len(names) > 1:
        is_above = best[deciding][0] > best[names[0]][0]
        was_above = best[deciding][1] > best[names[0]][1]
    is_kept = not ids_of_chat[deciding].isdisjoint(chosen)
    return ChatResult(ordered.index(deciding) + 1, is_kept, kept, is_above, was_above)


def score_alone(entry: Ranked) -> float:
    """Return a score without what the order of words added."""
    order = sum(boost.amount for boost in entry.boosts if boost.name in ORDER_BOOSTS)
    return entry.score - order


def print_chats(results: Sequence[ChatResult], *, form: str) -> bool:
    count = len(results)
    kept = sum(result.is_kept for result in results)
    first = sum(result.rank == 1 for result in results)
    near = sum(result.rank <= 5 for result in results)
    amending = [result for result in results if result.is_above is not None]
    above = sum(bool(result.is_above) for result in amending)
    was_above = sum(bool(result.was_above) for result in amending)
    shown = sum(result.kept for result in results) / count
    print(
        f"{form}, {count} tasks: R@1 {first / count:.2f}, R@5 {near / count:.2f}, kept"
        f" {kept / count:.2f} (target {CHAT_KEPT:.2f}) of {shown:.1f} chats; the later above the"
        f" earlier in {above} of {len(amending)} (target all; by scores alone {was_above})"
    )
    return kept < CHAT_KEPT * count or above < len(amending)


def rank_of(ids: set[str], entries: Sequence[Ranked]) -> int:
    """Return the rank of the best of these ids, from 1."""
    ordered = sorted(entries, key=lambda entry: (-entry.score, entry.candidate.id))
    return next(
        rank for rank, entry in enumerate(ordered, start=1) if entry.candidate.id in ids
    )


def ask_all(tree: Path, cases: Sequence[Task]) -> Iterator[tuple[Task, Ranking, Answer]]:
    """Ask the bug report of each task."""

    async def ask() -> list[tuple[Task, Ranking, Answer]]:
        replies: list[tuple[Task, Ranking, Answer]] = []
        async for task, (ranking, answer, _) in answers(
            tree, cases, task=bug_report, exchanges=True
        ):
            replies.append((task, ranking, answer))
        return replies

    yield from asyncio.run(ask())


def bug_report(task: Task) -> str:
    return str(task["bug_report"])


def settings_of(tree: Path) -> Settings:
    return Settings(
        judge=JudgeSettings(model="lexical"),
        store=StoreSettings(user_data_dir=tree.parent / "user"),
    )


if __name__ == "__main__":
    raise SystemExit(main())
