"""Lists of questions about the shop, and what it takes to have them judged live and looked at."""

from pathlib import Path
from typing import Any

from tests.servers.openai_server import OpenAIServer
from tests.servers.scoring import table
from xscore.extensions.batch.list_job import ListOptions, run_live_list
from xscore.extensions.batch.records import ListReport
from xscore.pipeline.build import Pipeline
from xscore.pipeline.question_list import Question, QuestionList
from xscore.records.reports import Observer
from xscore.records.turn import Scope
from xscore.settings import Settings

SCORES = {"shop/prices.py::total": 95, "shop/prices.py::discount": 80, "shop/cart.py::Cart.add": 75}
QUESTIONS = QuestionList(
    tuple(Question(id=f"q{number}", task=f"review {number}: is the discount taken once?") for number in range(6)),
    "digest-of-the-list",
)


def judging(server: OpenAIServer) -> OpenAIServer:
    """Have the server score by a table, so that every question has something to keep."""
    server.score = table(SCORES)
    return server


async def judged(
    root: Path,
    settings: Settings,
    questions: QuestionList = QUESTIONS,
    *,
    scope: Scope | None = None,
    observer: Observer | None = None,
    **options: Any,
) -> ListReport:
    """Judge a list live, in a pipeline of its own."""
    async with Pipeline.open(root, settings, observer=observer) as pipeline:
        return await run_live_list(pipeline.parts, questions, scope=scope or Scope(), options=ListOptions(**options))
