"""Questions that share packs at a loopback host: the true score of each pair, and what is
stored."""

import re
from pathlib import Path

from msgspec.structs import replace

from tests.servers.loopback import LoopbackServer
from xscore.cache.judgments import read_judgments
from xscore.cache.keys import judge_key, turn_key
from xscore.extensions.batch.ask_list import ask_list
from xscore.extensions.batch.shared_account import AskListReport
from xscore.pipeline.build import Pipeline
from xscore.pipeline.judge_prompts import sharing_prompts
from xscore.pipeline.parts import TurnOptions
from xscore.pipeline.question_list import Question, QuestionList
from xscore.prompts.turn_text import turn_block
from xscore.providers.scripted import ShownMemory
from xscore.records.events import Observer
from xscore.records.receipt import Answer
from xscore.records.turn import Turn
from xscore.settings import Settings
from xscore.settings.model import BatchSettings

MANY = {
    f"src/part_{at}.py": "".join(
        f"def step_{at}_{nth}(row):\n"
        f'    """Step {nth} of part {at}."""\n'
        f"    return row + {at * 10 + nth}\n\n\n"
        for nth in range(12)
    )
    for at in range(4)
}
"""Files of 48 functions: several packs."""


def listed(count: int) -> QuestionList:
    """Return N different questions."""
    return QuestionList(
        tuple(
            Question(id=f"id{at}", task=f"Task number {at}: mend step {at} of the parts")
            for at in range(count)
        ),
        f"digest of {count}",
    )


def true_score(memory: ShownMemory, question: str) -> int:
    """A score unique to the question: from the number in the task and the text of the memory."""
    task_number = re.search(r"Task number (\d+)", question)
    assert task_number is not None, "a judge is shown its question"
    return (37 * int(task_number[1]) + sum(memory.text.encode())) % 101


def with_questions(settings: Settings, questions_a_call: int = 4) -> Settings:
    """Let N questions share a prompt."""
    return replace(settings, batch=BatchSettings(questions_a_call=questions_a_call))


async def asked(
    root: Path,
    settings: Settings,
    questions: QuestionList,
    *,
    answer: bool = False,
    observer: Observer | None = None,
) -> tuple[AskListReport, list[Answer]]:
    """Ask them in a new pipeline."""
    answers: list[Answer] = []
    async with Pipeline.open(root, settings, observer=observer or Observer()) as pipeline:
        list_run = await ask_list(
            pipeline.parts,
            questions,
            TurnOptions(answer=answer),
            like=Turn(task=""),
            on_answer=lambda _, answer: answers.append(answer),
        )
    return list_run, answers


async def misplaced(
    root: Path, settings: Settings, questions: QuestionList
) -> tuple[int, list[str]]:
    """Count the stored judgments, and return those whose score belongs to another question or
    memory."""
    wrong: list[str] = []
    count = 0
    async with Pipeline.open(root, settings) as pipeline:
        store, judge = pipeline.store, sharing_prompts(pipeline.parts.judge)
        candidates = {
            candidate.content_hash: candidate for candidate in store.fetch().candidates
        }
        texts = store.texts(list(candidates.values()))
        for question in questions.all:
            key = turn_key(turn_block(Turn(task=question.task)))
            for content, judgment in read_judgments(
                store.connection, (key, judge_key(judge.identity), 0)
            ).items():
                if content not in candidates:
                    continue  # a part of one
                candidate = candidates[content]
                shown = ShownMemory(
                    "",
                    str(candidate.kind),
                    candidate.path,
                    candidate.entity,
                    texts[candidate.id].strip("\n"),
                )
                count += 1
                if judgment.score != true_score(shown, question.task) / 100:
                    wrong.append(
                        f"{question.id}: {candidate.path}::{candidate.entity} {judgment.score}"
                    )
    return count, wrong


def shared_calls(server: LoopbackServer) -> list[int]:
    """Return how many questions each judging prompt had."""
    prompts = [server.prompt(body) for body in server.counts.bodies]
    return [prompt.count("<question id=") for prompt in prompts if "<questions>" in prompt]
