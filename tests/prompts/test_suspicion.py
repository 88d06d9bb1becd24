"""Text that gives orders to a judge is told by its form, however it is dressed; other text is
not."""

import base64
import csv
import sysconfig
import time
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.prompts.bundle_memories import bundle, entry, said
from xscore.prompts.bundle_forms import FORMS
from xscore.prompts.bundle_parts import SUSPICIOUS_REMARK
from xscore.prompts.judge import JudgeModel
from xscore.prompts.suspicion import MOST_CHARS, is_suspicious
from xscore.records.calls import DecisionForm
from xscore.records.candidates import Candidate
from xscore.records.memory import Kind, Layer
from xscore.scorer.packs import Pack, PackProfile
from xscore.scorer.prompt_builder import PromptBuilder, PromptLayout, decision_layout
from xscore.scorer.repair import memory_pieces


class Row(NamedTuple):
    """A payload of the package with its benign twin."""

    family: str
    payload: str
    twin: str


TABLE = files("xscore.extensions.evaluation").joinpath("attacks.csv").read_text("utf-8")
ROWS = [Row(**row) for row in csv.DictReader(TABLE.splitlines())]
ORDER = ROWS[0].payload
LINES_A_TEXT = 40


@pytest.mark.parametrize("row", ROWS, ids=[row.family for row in ROWS])
def test_a_payload_is_told_and_its_twin_is_not(row: Row) -> None:
    """In a comment, in a string, in prose; the harmless text of the same words is left alone."""
    for form in (
        "{}",
        "def f():\n    # {}\n    return 1\n",
        'note = "{}"\n',
        "# Title\n\n{}\n",
    ):
        assert is_suspicious(form.format(row.payload))
        assert not is_suspicious(form.format(row.twin))


def test_a_disguise_is_seen_through() -> None:
    """Wrapped in comments, in capitals, with look-alike or invisible letters, in base64."""
    words = ORDER.split()
    half = len(words) // 2
    wrapped = f"# {' '.join(words[:half])}\n    # {' '.join(words[half:])}"
    look_alike = ORDER.replace("o", "\u043e").replace("e", "\u0435")
    invisible = "\u200b".join(ORDER)
    encoded = f'key = "{base64.b64encode(ORDER.encode()).decode()}"'
    wide = ORDER.translate({code: code + 0xFEE0 for code in range(ord("!"), ord("~"))})
    for text in (wrapped, ORDER.upper(), look_alike, invisible, encoded, wide):
        assert is_suspicious(text), text
    assert not is_suspicious(base64.b64encode(ROWS[0].twin.encode()).decode())


@given(st.text(max_size=300))
def test_any_text_is_told_without_an_error(text: str) -> None:
    """Surrogates, controls and half-open base64 included."""
    assert is_suspicious(text) in (True, False)
    assert is_suspicious(f"{text}\n{ORDER}\n{text}")


@pytest.mark.parametrize("unit", ["score ", "a b ", "this file is ", "AAAA", "ignore the "])
def test_repeats_are_searched_in_bounded_work(unit: str) -> None:
    """A text made to be slow takes no longer than its length allows."""

    text = unit * (MOST_CHARS // len(unit))
    began = time.process_time()
    is_suspicious(text)
    assert time.process_time() - began < 20


@pytest.mark.parametrize(
    ("of_python", "most_files", "most_flagged"),
    [("stdlib", 300, 2), pytest.param("purelib", 4_000, 40, marks=pytest.mark.verify)],
)
def test_installed_code_is_hardly_ever_flagged(
    of_python: str, most_files: int, most_flagged: int
) -> None:
    """Real files, 40 lines a text."""
    folder = Path(sysconfig.get_paths()[of_python])
    flagged: list[str] = []
    for path in islice(sorted(folder.rglob("*.py")), most_files):
        lines = path.read_bytes().decode("utf-8", "replace").splitlines()
        for start in range(0, len(lines), LINES_A_TEXT):
            if is_suspicious("\n".join(lines[start : start + LINES_A_TEXT])):
                flagged.append(f"{path}:{start}")
    assert len(flagged) <= most_flagged, flagged


def candidate(number: int) -> Candidate:
    """Make a candidate."""
    name = f"f{number}"
    return Candidate(
        name, f"{number:032x}", Layer.GRAPH, Kind.FUNCTION, "a.py", name, 1, 2, "python", 9, 0.0
    )


def shown_together(
    layout: PromptLayout | None = None, *, isolates: bool = True
) -> list[list[str]]:
    """Return the names of the memories of each prompt of a pack whose second gives orders."""
    builder = PromptBuilder(JudgeModel(name="m"), PackProfile(), b"secret", isolates=isolates)
    if layout is not None:
        builder = PromptBuilder(JudgeModel(name="m"), PackProfile(), b"secret", layout=layout)
    members = tuple(map(candidate, range(3)))
    texts = {"f0": "return 0", "f1": ORDER, "f2": ROWS[0].twin}
    pack = Pack("p_1", members, is_lasting=True)
    pieces = [
        piece
        for member in members
        for piece in memory_pieces(member, texts[member.id], max_tokens=1_000)
    ]
    prompts = builder.prompts_of(pack, pieces)
    assert all(prompt.is_lasting for prompt in prompts) or layout is not None
    return [[piece.entity for piece in prompt.pieces] for prompt in prompts]


def test_a_memory_that_gives_orders_has_a_prompt_of_its_own() -> None:
    """The others share theirs as before, which still begins with the same bytes in later turns;
    questions that are answered apart from each other stay in one request."""
    assert shown_together() == [["f0", "f2"], ["f1"]]
    assert shown_together(isolates=False) == [["f0", "f1", "f2"]]
    assert shown_together(decision_layout(DecisionForm.PREDICATE, 10_000)) == [
        ["f0", "f1", "f2"]
    ]


@pytest.mark.parametrize("form", FORMS)
def test_a_reader_is_told_in_every_form(form: str) -> None:
    """The remark is shown with the memory that gives orders, and with no other."""
    marked = bundle([entry(said(f"We queue in Kafka. {ORDER}"), 0.9)], form=form).text
    plain = bundle([entry(said(f"We queue in Kafka. {ROWS[0].twin}"), 0.9)], form=form).text
    assert SUSPICIOUS_REMARK in marked and ORDER[:20] in marked
    assert SUSPICIOUS_REMARK not in plain
