"""Questions as a developer types them, about what a repository has and about what it lacks.

`keyless_trees.csv` names repositories, commits and parts: on `tuned` the rules were fixed, `kept
back` was looked at once at the end, and `held out` was written before the rule of decision 0042 for
questions, about repositories that none of its cases are from. `keyless_questions.csv` has the
questions; those about what is there name the functions that answer them (`path::name`, any of
them), the others name none. Both are data files, so that no index of this repository contains the
questions. Not a benchmark itself: `keyless` and `hook_economy` print what it counts.
"""

import asyncio
import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean

from commit_cases import answers
from msgspec import Struct
from trees import as_repository, checked_out

from xscore.extensions.agents.agent_bundle import render_agent_bundle
from xscore.settings import AgentSettings

QUESTIONS = Path(__file__).with_name("keyless_questions.csv")
TREES = Path(__file__).with_name("keyless_trees.csv")
PARTS = ("tuned", "kept back")
HELD_OUT = "held out"


class Question(Struct, frozen=True):
    """A question, and what answers it."""

    repository: str
    text: str
    gold: frozenset[str]
    """`path::name` of the functions that answer it; none: it is about something that is not
    there."""


class Reply(Struct, frozen=True):
    """What a question got without a key."""

    question: Question
    kept: int
    has_gold: bool
    hook_speaks: bool


def read_questions() -> dict[str, list[Question]]:
    """Return the questions by repository."""
    questions: dict[str, list[Question]] = {}
    with QUESTIONS.open(newline="", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            question = Question(
                row["repository"], row["question"], frozenset(row["gold"].split())
            )
            questions.setdefault(question.repository, []).append(question)
    return questions


def read_trees(part: str) -> dict[str, str]:
    """Return the commit of each repository of a part."""
    with TREES.open(newline="", encoding="utf-8") as lines:
        return {
            row["repository"]: row["commit"]
            for row in csv.DictReader(lines)
            if row["part"] == part
        }


def ask_questions(part: str, clones: Path, cache: Path) -> Iterator[Reply]:
    """Ask all questions of a part, each of its repository."""
    questions = read_questions()
    for repository, commit in read_trees(part).items():
        target = cache.resolve() / "questions" / repository.replace("/", "+")
        tree = as_repository(checked_out(clones, repository, commit, target))
        yield from asyncio.run(replies(tree, questions[repository]))


async def replies(tree: Path, questions: Sequence[Question]) -> list[Reply]:
    """Return what the questions about one tree get."""
    limit = AgentSettings().hook_max_chars
    collected: list[Reply] = []
    async for question, (_, answer, texts) in answers(
        tree, questions, task=lambda question: question.text
    ):
        names = {
            f"{memory.path}::{memory.entity.partition('#')[0]}" for memory in answer.selected
        }
        hook_text = render_agent_bundle(answer, texts, max_chars=limit)
        has_gold = not names.isdisjoint(question.gold)
        collected.append(Reply(question, len(answer.selected), has_gold, bool(hook_text)))
    return collected


def show_questions(part: str, clones: Path, cache: Path) -> float:
    """Print what a part's questions got; return the larger share of absent things that something
    was kept for."""
    part_replies = list(ask_questions(part, clones, cache))
    present = [reply for reply in part_replies if reply.question.gold]
    absent = [reply for reply in part_replies if not reply.question.gold]
    kept = fmean(reply.kept > 0 for reply in absent)
    spoken = fmean(reply.hook_speaks for reply in absent)
    print(
        f"questions, {part:9}  not there: n {len(absent)}, something kept {kept:.3f}, the hook"
        f" speaks {spoken:.3f}  there: n {len(present)}, any gold kept"
        f" {fmean(reply.has_gold for reply in present):.3f}, none"
        f" {fmean(reply.kept == 0 for reply in present):.3f}, kept"
        f" {fmean(reply.kept for reply in present):.1f}",
        flush=True,
    )
    return max(kept, spoken)
