"""Lists of questions about the shop, and what it takes to have them judged live and looked at."""

from pathlib import Path
from typing import Any

from tests.extensions.batch.batch_vendor import SCORES, questions
from tests.servers.openai_server import OpenAIServer
from tests.servers.scoring import table
from xscore.extensions.batch.list_job import run_live_list
from xscore.extensions.batch.list_plan import ListOptions
from xscore.extensions.batch.records import ListReport
from xscore.pipeline.build import Pipeline
from xscore.pipeline.question_list import QuestionList
from xscore.records.events import Observer
from xscore.settings import Settings

QUESTIONS = questions(6)


def judging(server: OpenAIServer) -> OpenAIServer:
    """Have the server score by a table, so that every question has something to keep."""
    server.score = table(SCORES)
    return server


async def judged(
    root: Path,
    settings: Settings,
    questions: QuestionList = QUESTIONS,
    *,
    observer: Observer | None = None,
    **options: Any,
) -> ListReport:
    """Judge a list live, in a pipeline of its own."""
    async with Pipeline.open(root, settings, observer=observer) as pipeline:
        return await run_live_list(pipeline.parts, questions, ListOptions(**options))
