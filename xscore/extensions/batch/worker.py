"""A judging process: a list of questions in over a pipe, what came of each out, until the list or the parent ends.

Started by `workers` as a plain interpreter. It goes through all questions from a place of its own; what others have
paid for meanwhile is found in the store, what they are paying for is claimed there. When the parent says so, or is
gone, it sends nothing more, keeps what is in flight for a moment and ends: no orphan stays. It ranks nothing.
Trade-off: it opens the store and fetches the memories for itself, a second or so in a large repository.
"""

import asyncio
import os
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

from msgspec import Struct

from xscore.pipeline.build import Pipeline
from xscore.pipeline.judging import GRACE_S, Deadline
from xscore.pipeline.list_judging import ListResources, LiveEnd, QuestionEnd, judge_list
from xscore.pipeline.question_list import fetch_list_memories, prepare_questions
from xscore.platform.errors import XscoreError
from xscore.records import Scope, SilentObserver, Stage, StageUsage
from xscore.records.batch import Question
from xscore.settings import Settings

EVERY_S = 0.25
"""Between two words on how far it is."""
STOP = "stop"
LAST_S = 2 * GRACE_S
"""After so long without a parent it ends, whatever is in flight."""


class Work(Struct, frozen=True, kw_only=True):
    """What a process is given."""

    root: str
    settings: Settings
    """Its share of the limits among them."""
    job: str
    questions: tuple[Question, ...]
    start: int
    """The question it begins with; it goes round."""
    scope: Scope
    only: frozenset[str] | None
    """Paths, as `prepared.memories` has them."""
    deadline_at: float | None
    """Seconds of `time.monotonic`, which processes of a machine share."""


class Stands(Struct, frozen=True):
    """How far a process is."""

    judged: int
    unjudged: int
    spent: StageUsage


class Failed(Struct, frozen=True):
    """An error that ended a process."""

    error: XscoreError


Word = Stands | QuestionEnd | LiveEnd | Failed | str
"""What a process tells; a text is a note for the user."""


def main(descriptor: int) -> None:
    """Do the work that comes over the pipe; end when it is done or the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what a press of Ctrl-C means
    with Connection(descriptor) as pipe:
        try:
            work = pipe.recv()
        except EOFError:
            return
        asyncio.run(_attended(work, _Parent(pipe)))


class _Parent(Struct):
    """The pipe to the parent; once it is broken, words are lost."""

    pipe: Connection
    is_gone: bool = False

    def tell(self, word: Word) -> None:
        """Tell the parent, if it is there."""
        try:
            self.pipe.send(word)
        except OSError:
            self.is_gone = True


async def _attended(work: Work, parent: _Parent) -> None:
    task = asyncio.current_task()
    loop = asyncio.get_running_loop()
    assert task is not None

    def heard() -> None:
        loop.remove_reader(parent.pipe.fileno())
        task.cancel()
        try:
            parent.pipe.recv()
        except (EOFError, OSError):
            loop.call_later(LAST_S, os._exit, 1)

    loop.add_reader(parent.pipe.fileno(), heard)
    try:
        parent.tell(await _worked(work, parent))
    except asyncio.CancelledError:
        return
    except XscoreError as error:
        parent.tell(Failed(error))


async def _worked(work: Work, parent: _Parent) -> LiveEnd:
    notes = _Notes(parent)
    async with Pipeline.open(work.root, work.settings, observer=notes) as pipeline:
        parts = pipeline.parts
        found = fetch_list_memories(parts, work.scope, only=work.only)
        deadline = None if work.deadline_at is None else Deadline(work.deadline_at)
        async with parts.open_resources(work.job) as resources:

            def progress(judged: int, unjudged: int) -> None:
                notes.stands(Stands(judged, unjudged, resources.usage.spent(Stage.JUDGE)))

            end = await judge_list(
                parts,
                ListResources(resources),
                prepare_questions(parts, _round(work.questions, work.start), found),
                told=parent.tell,
                progress=progress,
                deadline=deadline,
            )
            parent.tell(Stands(end.judged, 0, resources.usage.spent(Stage.JUDGE)))
        parts.judge.close()
    return end


def _round(questions: Sequence[Question], start: int) -> Iterator[tuple[int, Question]]:
    """Go through all questions from a place of one's own."""
    numbers = [*range(start, len(questions)), *range(start)]
    return ((number, questions[number]) for number in numbers)


@dataclass(slots=True)
class _Notes(SilentObserver):
    """Passes on what the user should know, and how far it is."""

    parent: _Parent
    told_at: float = field(default=0.0)

    def note(self, message: str) -> None:
        """Something the user should know."""
        self.parent.tell(message)

    def stands(self, stands: Stands) -> None:
        """Say so now and then."""
        now = asyncio.get_running_loop().time()
        if now - self.told_at >= EVERY_S:
            self.told_at = now
            self.parent.tell(stands)
