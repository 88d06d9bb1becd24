"""`docs/internals/protocol.md` shows what is really sent, read and repaired."""

import json
import re
from pathlib import Path

import pytest

from xscore.prompts.judge import (
    LEVELS,
    JudgeModel,
    PackEntry,
    PromptOptions,
    decision_request,
    judging_request,
    pack_block,
    question_text,
)
from xscore.prompts.rubric import CODE_RUBRIC, DECISION_VERSION
from xscore.prompts.turn_text import PROMPT_VERSION, turn_block
from xscore.providers.catalog import UNKNOWN, model_settings
from xscore.providers.decision_hosts import (
    DECISION_HOSTS,
    MOST_QUESTIONS,
    MOST_STATE_CHARS,
)
from xscore.providers.decisions import DecisionProvider
from xscore.providers.scripted import shown_memories
from xscore.providers.wire import SCHEMA_NAME, reply_schema
from xscore.records.calls import DecisionForm, DecisionWire, Request
from xscore.records.memory import Kind
from xscore.records.turn import Turn
from xscore.scorer.chat_replies import parse_reply
from xscore.scorer.prompt_builder import (
    MOST_FRAME_TOKENS,
    PROMPT_CODES,
    REASON_TOKENS,
    SCORE_TOKENS,
    SUM_TOLERANCE,
    parse_answers,
)
from xscore.settings import DecisionSettings, HostAccess, Settings

PAGE = (Path(__file__).parents[2] / "docs" / "internals" / "protocol.md").read_text("utf-8")
ENTRIES = (
    PackEntry(
        "co", "decision", "", "One store", "Judgments live in SQLite, one file a repository."
    ),
    PackEntry(
        "qe",
        "function",
        "src/cache.py",
        "write",
        "def write(row):\n    db.execute(INSERT, row)",
    ),
    PackEntry(
        "ka", "method", "src/cache.py", "Cache.close", "def close(self):\n    self.db.close()"
    ),
    PackEntry(
        "bi",
        "test",
        "tests/test_cache.py",
        "test_write",
        "A written row is read back.\ntests: write",
    ),
)
TURN = Turn(
    task="Rows are lost when two processes write at once",
    errors="sqlite3.OperationalError: database is locked",
)


def blocks() -> list[str]:
    """The fenced blocks of the page, in order: pack, turn, reply, schema, console."""
    return re.findall(r"^```\w+\n(.*?)\n```$", PAGE, re.DOTALL | re.MULTILINE)


def test_the_example_is_what_is_sent() -> None:
    """The page's pack and turn equal the prompt byte for byte; the rubric is the file it names."""
    request = judging_request(ENTRIES, turn_block(TURN), PromptOptions(JudgeModel(name="m"), 1))
    assert request.system == CODE_RUBRIC.text() and "`xscore/prompts/judge_rubric.md`" in PAGE
    assert tuple(blocks()[:2]) == request.content
    assert tuple(memory.id for memory in shown_memories(blocks()[0])) == (
        "co",
        "qe",
        "ka",
        "bi",
    )


def test_the_examples_of_a_purpose_are_what_is_sent() -> None:
    """A file's tag in a pack, and the tag of a memory at a decision host."""
    described = ENTRIES[1]._replace(purpose="Keeps judgments in SQLite.")
    assert f"`{pack_block([described]).splitlines()[0]}`" in PAGE
    assert f"`{question_text(described, 'Needed:').splitlines()[1]}`" in PAGE


def test_the_example_reply_is_read() -> None:
    """The page's reply scores the page's pack, with the requested reasons."""
    parsed = parse_reply(blocks()[2], PROMPT_CODES[:4])
    assert parsed.scores.keys() == {"ka", "qe", "bi", "co"} and not parsed.repaired
    assert parsed.reasons.keys() == {id_ for id_, score in parsed.scores.items() if score >= 30}


def test_the_schema_is_what_is_sent() -> None:
    """The page's schema is that of the dialect, for the first two codes in order."""
    assert json.loads(blocks()[3]) == reply_schema(tuple(sorted(PROMPT_CODES[:2])))
    assert f"name `{SCHEMA_NAME}`" in PAGE


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_is_named(kind: Kind) -> None:
    """Every reply format that a server may use is documented."""
    assert f"`{kind.value}`" in PAGE


def test_the_figures_are_those_of_the_code() -> None:
    """Version, codes, pack limits and output allowance."""
    assert f"now `{PROMPT_VERSION}`" in PAGE
    assert ", ".join(f"`{code}`" for code in PROMPT_CODES[:5]) in PAGE
    for model in (
        model_settings("openai", "gpt-6-luna"),
        model_settings("anthropic", "claude-haiku-4-5"),
        UNKNOWN,
    ):
        assert f"{model.pack_tokens:,}" in PAGE and f"{model.pack_size}" in PAGE
    assert (MOST_FRAME_TOKENS, SCORE_TOKENS, REASON_TOKENS) == (40, 8, 32)


RATED_WIRES = (DecisionWire.DECISIONS, DecisionWire.SYSTEM_ONE)
"""Wires whose answers on levels the page shows, in its order."""
FORMS = (DecisionForm.PREDICATE, DecisionForm.SCORE)


def blocks_after(words: str) -> list[str]:
    """Return the fenced blocks that follow these words of the page."""
    assert words in PAGE
    return re.findall(
        r"^```\w+\n(.*?)\n```$", PAGE.partition(words)[2], re.DOTALL | re.MULTILINE
    )


def decision_provider(wire: str) -> DecisionProvider:
    """A provider that sends nothing."""
    access = DecisionSettings(hosts={wire: HostAccess("http://127.0.0.1:1")})
    return DecisionProvider(wire, "m-1", Settings(decisions=access))


def asked(form: DecisionForm) -> Request:
    """The request about the page's one memory."""
    entry = PackEntry("m1", "function", "src/cache.py", "write", "def write(row): ...")
    return decision_request(
        [entry],
        turn_block(TURN),
        PromptOptions(JudgeModel(name="m-1"), 1),
        form=form,
        turn_chars=MOST_STATE_CHARS,
    )


@pytest.mark.parametrize("wire", DecisionWire)
def test_a_decision_request_and_its_reply_are_those_of_the_page(wire: DecisionWire) -> None:
    """The bodies are the examples with rubric, turn and question filled in; the reply is read
    as documented, with the headers that are above it, if the wire has something in them."""
    request = asked(DecisionForm.PREDICATE)
    question = blocks_after("## Decision models")[0]
    shown, reply = blocks_after(f"`POST {{base_url}}{DECISION_HOSTS[wire].route}`")[:2]
    words = {"<rubric>": request.system, "<turn>": turn_block(TURN), "<question>": question}
    for name, text in words.items():
        shown = shown.replace(name, json.dumps(text)[1:-1])
    assert json.loads(shown) == decision_provider(wire).fields(request)
    head, _, body = reply.rpartition("\n\n")
    headers = dict(line.lower().split(": ", 1) for line in head.splitlines())
    completion = decision_provider(wire).read(body.encode(), headers, request)
    assert parse_answers(completion.text, request.reply_ids).scores == {"m1": 93}
    assert (completion.model, completion.usage.input_tokens) == ("m-1", 912)


@pytest.mark.parametrize("wire", RATED_WIRES)
def test_an_answer_on_levels_is_read_as_the_page_says(wire: DecisionWire) -> None:
    """The page's labels and score are the code's."""
    request, answer = (
        asked(DecisionForm.SCORE),
        json.loads(blocks_after("Two answers to it")[RATED_WIRES.index(wire)]),
    )
    reply = {"model": "m-1", "answers": [answer] if wire == "decisions" else {"m1": answer}}
    completion = decision_provider(wire).read(json.dumps(reply).encode(), {}, request)
    assert parse_answers(completion.text, request.reply_ids).scores == {"m1": 72.5}
    questions = decision_provider(wire).fields(request)["questions"]
    sent = questions[0 if wire == "decisions" else "m1"]
    assert sent["instructions"].startswith("How much does the task need this memory?\n<memory ")
    labels = (
        [level["label"] for level in sent["levels"]]
        if wire == "decisions"
        else sent["criteria"]
    )
    assert ", ".join(f"`{label}`" for label in labels) in PAGE


def test_the_figures_of_decision_models_are_those_of_the_code() -> None:
    """Versions, limits, bands and tolerance."""
    text = " ".join(PAGE.partition("## Decision models")[2].split())
    assert all(f"`{DECISION_VERSION}/{form.value}`" in text for form in FORMS)
    assert f"up to {MOST_QUESTIONS} questions" in text
    assert f"beyond {MOST_STATE_CHARS:,} characters" in text
    assert ", ".join(f"{middle:.2f}"[1:] for _, middle in LEVELS) in text
    assert f"more than {SUM_TOLERANCE}" in text
