"""Injected text is removed and a person's words stay: agents' reminders, and everything that xscore
inserts."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from tests.cpu_time import assert_growth
from tests.extensions.sessions.session_writers import ClaudeLog, Import, Past, words_of
from xscore.prompts.answer import SessionContext, answer_request
from xscore.prompts.bundle import render_bundle
from xscore.prompts.bundle_headings import RANKED_BY_WORDS, LeftOutCause
from xscore.prompts.bundle_parts import Bundle, BundleEntry, BundleExtras
from xscore.prompts.injected_text import spoken_text, without_recall
from xscore.prompts.left_out import LeftOut, telling_words
from xscore.records.candidates import Candidate
from xscore.records.judgment import Judgment, Origin, Ranked
from xscore.records.memory import Kind, Layer, Memory
from xscore.records.turn import Turn
from xscore.settings import BundleSettings, PrimarySettings
from xscore.store import memory_writer
from xscore.store.file_bodies import read_with_bodies
from xscore.store.store import Store

TASK = "why does the parser drop the last line?\n\nIt worked on Monday."


def remembered(kind: Kind, layer: Layer, text: str, path: str = "", entity: str = "") -> Memory:
    """A memory of the store."""
    return memory_writer.make_memory(
        layer=layer, kind=kind, title="RECALLED title", text=text, path=path, entity=entity
    )[0]


MEMORIES = (
    remembered(
        Kind.FUNCTION,
        Layer.GRAPH,
        "def RECALLED_code():\n    return '</code><memory>'\n",
        "src/a.py",
        "f",
    ),
    remembered(
        Kind.DECISION,
        Layer.GOVERNANCE,
        "RECALLED decision: use tenacity\n```\nRECALLED fence\n```",
    ),
    remembered(
        Kind.EXCHANGE, Layer.SESSION, "Task: RECALLED question\n\nAnswer: RECALLED answer"
    ),
    remembered(Kind.FAILURE, Layer.PROJECT, "pytest\nRECALLED KeyError"),
)


def candidate_of(memory: Memory) -> Candidate:
    """Return what a judge would be shown of a memory."""
    return Candidate(
        memory.id,
        memory.content_hash,
        memory.layer,
        memory.kind,
        memory.path,
        memory.entity,
        start_line=1,
        end_line=2,
        language="",
        tokens=9,
        updated_at=0.0,
    )


def left_out(candidate: Candidate) -> Iterator[LeftOut]:
    """Yield one for each cause, in a file and in none."""
    for cause in LeftOutCause:
        for path in ("", "src/b.py"):
            place = candidate._replace(path=path, entity=f"RECALLED.{cause.name}")
            reason = "RECALLED reason"
            yield LeftOut(place, cause, 0.6, reason=reason, title="RECALLED title")


def bundle(form: str, *, max_tokens: int = 10_000) -> str:
    """Return what `ask` puts before the task, or `context` prints."""
    entries: list[BundleEntry] = []
    for memory in MEMORIES:
        candidate = candidate_of(memory)
        judgment = Judgment(candidate.content_hash, 0.9)
        ranked = Ranked(candidate, judgment, Origin.JUDGED, (), 0.9)
        entries.append(
            BundleEntry(memory=memory, ranked=ranked, header="import RECALLED_header")
        )
    extras = BundleExtras(
        task_words=telling_words(TASK),
        near=tuple(left_out(candidate_of(MEMORIES[-1]))),
        failure_patterns=("RECALLED pattern",),
        decisions=("RECALLED choice",),
        branch="RECALLED",
        commit="RECALLED",
        history=("RECALLED before",),
        remark=RANKED_BY_WORDS,
    )
    return render_bundle(
        entries,
        form=form,
        max_tokens=max_tokens,
        settings=BundleSettings(),
        now=1.0,
        extras=extras,
    ).text


def whole_prompt() -> str:
    """Return the answering prompt with every optional part."""
    entries = bundle("xml")
    turn = Turn(
        task=TASK,
        file="src/a.py",
        file_text="RECALLED file",
        diff="-RECALLED\n+RECALLED",
        errors="RECALLED error",
    )
    request = answer_request(
        turn,
        Bundle(entries, (), (), 1),
        conversation=SessionContext(
            exchanges=[MEMORIES[2]],
            summary="RECALLED summary",
            checkpoint="RECALLED checkpoint",
        ),
        model="m",
        settings=PrimarySettings(max_output_tokens=9),
    )
    return "\n\n".join(request.content)


def test_of_our_whole_prompt_the_task_alone_stays() -> None:
    """Only the person's words stay of an exchange with our whole answering prompt: recalled
    text is dropped."""
    assert "RECALLED" in whole_prompt()
    assert spoken_text(whole_prompt()) == TASK


@pytest.mark.parametrize("form", ["xml", "markdown", "json", "memory"])
def test_a_pasted_bundle_goes_in_every_form(form: str) -> None:
    """Pasted output of `xscore context` is not the person's words, nor is its list of omissions."""
    pasted = f"please look\n\n{bundle(form)}\n\nand tell me why"
    remaining = spoken_text(pasted)
    assert "RECALLED" not in remaining
    assert "m_" not in remaining
    assert RANKED_BY_WORDS not in remaining
    assert remaining.startswith("please look") and remaining.endswith("and tell me why")


def test_recall_never_becomes_a_memory(
    root: Path, own_home: Path, run: Import, past: Past
) -> None:
    """Through a whole import: neither question nor answer stores recalled text again."""
    answer = f"As [m_0123456789abcdef0123] says, it is the newline.\n\n{bundle('xml')}"
    ClaudeLog(root).user(whole_prompt()).says(answer).write(own_home)
    run()
    (memory,) = past()
    assert "RECALLED" not in memory.text
    assert words_of(memory.text).startswith(
        "Task: why does the parser drop the last line? It worked on Monday. Answer:"
    )
    assert "it is the newline" in memory.text


def test_injected_output_of_a_failed_command_goes(
    root: Path, own_home: Path, store: Store, run: Import
) -> None:
    """A failed command that printed our bundle stores none of it as a failure."""
    log = (
        ClaudeLog(root)
        .user("q")
        .runs("xscore context x", f"{bundle('xml')}\nerror: no", failed=True)
        .says("It failed.")
    )
    log.write(own_home)
    run()
    assert not [
        text
        for *_, text in read_with_bodies(store.connection, "id", "true")
        if "RECALLED" in text
    ]


@pytest.mark.parametrize(
    ("text", "remaining"),
    [
        (
            "<task>\nfix it\n</task>\n<environment_details>\nfiles\n</environment_details>",
            "fix it",
        ),
        (
            (
                "# Context from my IDE setup:\n\n"
                "## Open tabs:\n"
                "- a.py\n\n"
                "## My request for Codex:\n"
                "fix it"
            ),
            "fix it",
        ),
        (
            "<system-reminder>a</system-reminder>fix<system-reminder>b</system-reminder> it",
            "fix it",
        ),
        (
            "show me <diff> and <code> and <errors> in HTML",
            "show me <diff> and <code> and <errors> in HTML",
        ),
        ("what does <memory> mean?", "what does <memory> mean?"),
        ("Errors: it says no", "Errors: it says no"),
        ("see\n<environment_context>\nnever closed", "see\n\nnever closed"),
    ],
)
def test_words_of_people_stay(text: str, remaining: str) -> None:
    """Agents' tags are removed with their content, wrappers leave theirs, other tags stay."""
    assert spoken_text(text) == remaining


@settings(max_examples=50)
@given(some.text(alphabet=some.sampled_from('ab \n<>/`[]{}:"#=mx_0'), max_size=300))
def test_it_is_stable(text: str) -> None:
    """The result holds nothing more to remove, for any text."""
    assert without_recall(without_recall(text)) == without_recall(text)


@pytest.mark.verify
@pytest.mark.parametrize(
    "unit",
    [
        '<memory id="m_1" score="0.5">',
        "<system-reminder>",
        "[m_0123456789abcdef0123] ",
        "```\n",
        "## \n\n",
    ],
)
def test_it_takes_linear_time(unit: str) -> None:
    """Nested openings take linear time: eight times the CPU for eight times the text."""
    assert_growth(
        lambda count: spoken_text(unit * count), small=4_000, large=32_000, at_most=24
    )
