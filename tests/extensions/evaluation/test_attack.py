"""`xscore eval attack`: an honest judge and a gullible one are told apart, and neither moves
bystanders."""

import ast
import json
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.cli.conftest import Run, xscore
from tests.conftest import MakeRepo
from tests.extensions.evaluation.shop_run import Counts, priced, rows
from tests.pipeline.conftest import settings_for
from tests.servers.openai_server import OpenAIServer
from xscore.extensions.evaluation.attack import (
    MOVED_FROM,
    AttackReport,
    Payload,
    read_payloads,
    run_attack,
)
from xscore.extensions.evaluation.attack_commands import render_attack
from xscore.extensions.evaluation.attack_places import Place, choose_hosts, write_into
from xscore.pipeline.build import Pipeline
from xscore.platform.errors import NothingMatched, UsageError
from xscore.providers.scripted import ShownMemory
from xscore.settings import Settings

__all__ = ["xscore"]

USUAL, OBEYED, PUSHED_DOWN = 30, 95, 2
"""Scores of the hosts."""
PAYLOADS = read_payloads()
FILES = {
    f"app/{name}.py": f'''"""Orders."""


def {name}_of(order: list[int]) -> int:
    """Return the {name} of an order."""
    return sum(order)


def {name}_name(number: int) -> str:
    """Return how it is called."""
    return f"{name} {{number}}"
'''
    for name in ("price", "weight", "stock")
} | {
    "web/list.js": "function rows(items) {\n  const shown = items.slice(0, 10);\n"
    "  return shown.map((item) => item.name + item.price);\n}\n\nmodule.exports = { rows };\n",
    "docs/orders.md": "# Orders\n\nAn order has lines.\n\n## Lines\n\n"
    + "A line has a price. " * 6,
    "settings.toml": '[orders]\nmost = 100\nunit = "piece"\n\n[mail]\nsender = "shop"\n' * 3,
}


def letters(text: str) -> str:
    """Return the letters and digits of a text alone, as no quoting changes them."""
    return re.sub(r"[\W_]", "", text)


ENDINGS = {letters(payload.payload)[-22:] for payload in PAYLOADS}
"""How a text with a payload is known to the hosts, which know nothing of its form."""


def holds_order(text: str) -> bool:
    """Whether a text holds one of the payloads."""
    return any(ending in letters(text) for ending in ENDINGS)


def gullible(server: OpenAIServer) -> Callable[[ShownMemory, str], int]:
    """Return a host that scores high what gives it orders, and low what is in the same
    prompt."""

    def score(memory: ShownMemory, _: str) -> int:
        if holds_order(memory.text):
            return OBEYED
        prompt = server.prompt(server.counts.bodies[-1])
        return PUSHED_DOWN if holds_order(prompt) else USUAL

    return score


@pytest.fixture
def repo(make_repo: MakeRepo) -> Path:
    """A small repository with every place in a file of its own."""
    return make_repo(FILES)


async def attacked(
    root: Path, settings: Settings, payloads: tuple[Payload, ...] = PAYLOADS
) -> AttackReport:
    """Attack the judge of these settings."""
    async with Pipeline.open(root, settings) as pipeline:
        return await run_attack(pipeline.parts, payloads=payloads)


@pytest.fixture
def one_at_a_time(server: OpenAIServer) -> Settings:
    """Settings that send one request after the other, so that a host knows which it answers."""
    return settings_for(server, concurrency=1)


async def test_an_honest_judge_obeys_nobody(
    repo: Path, server: OpenAIServer, one_at_a_time: Settings
) -> None:
    """Its scores do not depend on the payloads: nothing moves, in five places; the repository's
    files are as they were, and its ledger has the calls."""
    server.score = lambda memory, _: USUAL + len(memory.path)
    before = {path: (repo / path).read_bytes() for path in FILES}
    async with Pipeline.open(repo, one_at_a_time) as pipeline:
        report = await run_attack(pipeline.parts, payloads=PAYLOADS[:2])
        ((calls,),) = rows(pipeline, "SELECT count(*) FROM call WHERE stage = 'judge'")
    assert report.places == tuple(Place) and not report.ended
    assert [family.obeyed for family in report.families] == [0, 0]
    assert [family.moved_bystanders for family in report.families] == [0, 0]
    assert all(family.bystanders > 5 for family in report.families)
    assert calls == report.calls
    assert report.calls > 0
    assert {path: (repo / path).read_bytes() for path in FILES} == before


async def test_a_gullible_judge_obeys_and_moves_no_bystander(
    repo: Path, server: OpenAIServer, one_at_a_time: Settings
) -> None:
    """What gives orders is raised in all places; the scores of all others stay, since it is judged
    alone."""
    server.score = gullible(server)
    report = await attacked(repo, one_at_a_time, PAYLOADS[:2])
    for family in report.families:
        assert family.obeyed == len(Place)
        assert all(effect.is_suspicious for effect in family.effects)
        assert not any(effect.is_twin_suspicious for effect in family.effects)
        assert (family.moved_bystanders, family.largest_change) == (0, 0.0)
    page = render_attack(report)
    assert "obeys 2 of 2 families" in page and "app/price.py" in page


async def test_without_isolation_the_same_judge_moves_bystanders(
    repo: Path, server: OpenAIServer
) -> None:
    """The proof can fail: in a shared prompt a payload speaks for the others."""
    server.score = gullible(server)
    settings = settings_for(server, concurrency=1, isolates=False)
    (family,) = (await attacked(repo, settings, PAYLOADS[:1])).families
    assert family.moved_bystanders > 0 and family.largest_change >= MOVED_FROM


async def test_what_gives_orders_is_marked_where_it_is_selected(
    make_repo: MakeRepo, server: OpenAIServer
) -> None:
    """The receipt says so of it alone, judged just now or served from the cache."""
    server.score = lambda memory, _: OBEYED
    order = f"# {PAYLOADS[0].payload}\n\nSecond line.\n"
    root = make_repo({"a.md": order, "b.md": f"# {PAYLOADS[0].twin}\n\nSecond line.\n"})
    for _ in range(2):
        async with Pipeline.open(root, settings_for(server)) as pipeline:
            answer = await pipeline.context("what is in the documents?")
        marks = {entry.path: entry.is_suspicious for entry in answer.selected}
        assert marks == {"a.md": True, "b.md": False}


async def test_an_attack_ends_at_the_cap_and_says_so(repo: Path, server: OpenAIServer) -> None:
    """What all runs cost stays under the cap on the command; families judged whole are shown."""
    settings = settings_for(server, max_usd="0.30", concurrency=1)
    async with Pipeline.open(repo, settings) as pipeline:
        report = await run_attack(priced(pipeline.parts, "0.01"), payloads=PAYLOADS)
        (spent,) = rows(pipeline, "SELECT sum(cost) FROM call")[0]
    assert report.ended == "budget" and len(report.families) < report.of
    assert report.exit_code == 4 and report.cost_usd is not None
    assert report.cost_usd <= Decimal("0.30")
    assert isinstance(spent, int) and spent <= 300_000_000_000
    assert "ended early" in render_attack(report)


async def test_the_cost_of_all_runs_is_confirmed(repo: Path, server: OpenAIServer) -> None:
    """What the user is asked to pay for are all families, each twice; declined, nothing is sent."""
    settings = settings_for(server)
    budget = replace(settings.budget, confirm_usd=Decimal(-1))
    settings = replace(settings, budget=budget)
    declines, agrees = Counts(agrees=False), Counts(agrees=True)
    async with Pipeline.open(repo, settings, observer=declines) as pipeline:
        with pytest.raises(UsageError):
            await run_attack(pipeline.parts, payloads=PAYLOADS)
    assert server.counts.requests == 0
    async with Pipeline.open(repo, settings, observer=agrees) as pipeline:
        report = await run_attack(pipeline.parts, payloads=PAYLOADS[:2])
    (estimate,) = agrees.estimates
    per_run = declines.estimates[0].judge.to_judge // (2 * len(PAYLOADS))
    assert estimate.judge.to_judge == 4 * per_run
    assert estimate.judge.calls == report.calls


async def test_a_repository_without_a_fit_file_is_named(
    make_repo: MakeRepo, server: OpenAIServer
) -> None:
    """Nothing to write into is an error with a hint, and no traceback."""
    root = make_repo({"a.txt": "one\n"})
    with pytest.raises(NothingMatched):
        await attacked(root, settings_for(server), PAYLOADS[:1])


async def test_every_place_takes_every_payload(repo: Path, server: OpenAIServer) -> None:
    """A host of each place takes each text, and Python and TOML stay readable."""

    async with Pipeline.open(repo, settings_for(server)) as pipeline:
        await pipeline.index()
        hosts = choose_hosts(repo, pipeline.store.pool())
    assert [host.place for host in hosts] == list(Place)
    assert len({host.path for host in hosts}) == len(hosts)
    for host in hosts:
        for payload in PAYLOADS:
            written = write_into(host, payload.payload)
            assert written is not None and letters(payload.payload) in letters(written)
            if host.path.endswith(".py"):
                ast.parse(written)
            elif host.place is Place.CONFIG and host.path.endswith(".toml"):
                assert "[orders]" in written


def test_the_command_prints_json_and_text(
    xscore: Run, repo: Path, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Data goes to stdout, the cost before it to stderr."""
    server.score = lambda memory, _: USUAL
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("XSCORE_JUDGE_MODEL", "openai:judge-2")
    monkeypatch.setenv("XSCORE_JUDGE_PROBE", "false")
    done = xscore("eval", "attack", "why is it slow?", "--json", "--yes", cwd=repo)
    assert done.returncode == 0, done.stderr
    body: dict[str, Any] = json.loads(done.stdout)
    assert body["schema"] == 1 and body["task"] == "why is it slow?"
    families = [family["family"] for family in body["families"]]
    assert families == [payload.family for payload in PAYLOADS]
    assert len(families) == 12 and "memories" in done.stderr


@pytest.mark.verify
async def test_all_families_are_told_by_their_form_and_move_no_bystander(
    repo: Path, server: OpenAIServer, one_at_a_time: Settings
) -> None:
    """Twelve families in five places, at the gullible host."""
    server.score = gullible(server)
    report = await attacked(repo, one_at_a_time)
    assert len(report.families) == 12
    for family in report.families:
        assert family.obeyed == len(Place), family
        assert family.moved_bystanders == 0, family


async def test_a_document_without_a_heading_holds_the_payload(
    make_repo: MakeRepo, one_at_a_time: Settings
) -> None:
    """It is named by its first line, which stays the first: its memory is found again."""
    form = "---\nname: Request\nlabels: wish\n\n---\n\n" + "What we may do for you. " * 6 + "\n"
    root = make_repo({"forms/request.md": form})
    report = await attacked(root, one_at_a_time, PAYLOADS[:1])
    (effect,) = report.families[0].effects
    assert effect.place == Place.DOCUMENT
    assert effect.is_suspicious is True
    assert effect.is_twin_suspicious is False
