"""A process that is several members of a team, one turn after the other, until it is killed.

`python -m tests.extensions.shared.team.storm_members PLAN.json`. Each line of its log is one JSON
object: what is about to be stated, what was stated, and how a turn went. A line is written before
the next step, so a kill leaves at most one step of which nothing is known.
"""

import asyncio
import json
import random
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from msgspec import Struct
from msgspec import json as msgspec_json

from tests.statements import decide
from xscore.extensions.shared.team.membership import (
    Membership,
    read_membership,
    write_membership,
)
from xscore.pipeline.build import Pipeline
from xscore.platform import database
from xscore.platform.errors import XscoreError
from xscore.platform.paths import find_root
from xscore.records.turn import Turn
from xscore.settings import (
    BudgetSettings,
    JudgeSettings,
    MemorySettings,
    OpenAISettings,
    Secret,
    Settings,
    StoreSettings,
)
from xscore.settings.model import SharedSettings
from xscore.store.store import Store

DEADLINE_S = 15.0
FUNCTIONS = 12
TASKS = ("Why is the sum wrong?", "Where is the total rounded?", "Which part reads the file?")
_PART = "def {repository}_part_{number}(value: int) -> int:\n    return value + {number}\n"


class StormPlan(Struct, frozen=True, kw_only=True):
    """What the members of one process do."""

    logins: tuple[str, ...]
    repositories: tuple[str, ...]
    home: str
    urls: dict[str, str]
    """URLs of the server of memories, by login."""
    hot_urls: dict[str, str]
    """URLs of the server of judgments, by login."""
    judge_url: str
    key: str
    seed: int
    log: str
    deadline_s: float = DEADLINE_S


def clone_of(plan: StormPlan, login: str, repository: str) -> Path:
    """Return a member's clone, made at the first visit."""
    root = Path(plan.home) / login / repository
    if not root.exists():
        root.mkdir(parents=True)
        parts = [_PART.format(repository=repository, number=at) for at in range(FUNCTIONS)]
        (root / "parts.py").write_text("\n\n".join(parts))
    return root


def settings_of(plan: StormPlan, login: str, *, turn: str = "") -> Settings:
    """Return the settings of a member: a model judges, and both servers are the team's.

    turn: the task as the judge sees it, which names who pays.
    """
    return Settings(
        judge=JudgeSettings(model="openai:judge-2", probe=False, is_named=True),
        openai=OpenAISettings(base_url=plan.judge_url, api_key=Secret(turn)),
        budget=BudgetSettings(deadline_s=plan.deadline_s),
        memory=MemorySettings(observe=False, user_learning=False),
        store=StoreSettings(user_data_dir=Path(plan.home) / login / "data"),
        shared=SharedSettings(
            url=Secret(plan.hot_urls[login]),
            tenant="acme",
            memories="write",
            memories_url=Secret(plan.urls[login]),
            key=Secret(plan.key),
        ),
    )


def name_on_server(repository: str) -> str:
    """Return what the team calls a repository."""
    return f"github.com/acme/{repository}"


def join(store: Store, login: str, repository: str) -> None:
    """Let a store take part, as `xscore shared join` does, once."""
    if read_membership(store.connection) is None:
        joined = Membership(repository=name_on_server(repository), by=login)
        with database.transaction(store.connection):
            write_membership(store.connection, joined)


def run(plan: StormPlan) -> None:
    """Be the members until killed."""
    chance = random.Random(plan.seed)
    with Path(plan.log).open("a", encoding="utf-8") as log:
        number = 0
        while True:
            number += 1
            login, repository = chance.choice(plan.logins), chance.choice(plan.repositories)
            root = clone_of(plan, login, repository)
            turn = f"{plan.seed}.{number}"
            settings = settings_of(plan, login, turn=turn)
            text = ""
            if chance.random() < 0.4:
                text = f"{login} of {repository} decides {turn}"
            with suppress(XscoreError):
                _step(plan, settings, root, (login, repository), log, text=text, chance=chance)


def _step(
    plan: StormPlan,
    settings: Settings,
    root: Path,
    who: tuple[str, str],
    log: IO[str],
    *,
    text: str,
    chance: random.Random,
) -> None:
    login, repository = who
    with Store.open_with(find_root(root), settings, create=True) as store:
        join(store, login, repository)
        if text:
            _write(log, {"stating": text, "repository": repository})
            decide(store, text)
            _write(log, {"stated": text, "repository": repository})
    task = chance.choice(TASKS)
    began = time.monotonic()
    turn = settings.openai.api_key.reveal()
    line: dict[str, Any] = {"turn": turn, "store": [login, repository], "at": time.time()}
    try:
        answer = asyncio.run(_ask(root, settings, task))
        line |= {"exit": answer.exit_code, "warnings": answer.warnings}
        line["judged"] = answer.coverage.judged
    except XscoreError as error:
        line["error"] = error.message
    line["took_s"] = time.monotonic() - began
    _write(log, line)


async def _ask(root: Path, settings: Settings, task: str) -> Any:
    async with Pipeline.open(root, settings) as pipeline:
        return await pipeline.ask(Turn(task=task), answer=False, started=time.monotonic())


def _write(log: IO[str], line: dict[str, Any]) -> None:
    log.write(f"{json.dumps(line)}\n")
    log.flush()


if __name__ == "__main__":
    run(msgspec_json.decode(Path(sys.argv[1]).read_bytes(), type=StormPlan))
