"""Short facts in one TOON table: lossless, only where it is shorter, and never for code."""

import subprocess
import sys

import pytest
import toon_format
from hypothesis import given
from hypothesis import strategies as st

from tests.prompts.bundle_memories import NOW, WRITE, entry, memory, said
from xscore.platform import tokens
from xscore.prompts.bundle import render_bundle
from xscore.prompts.bundle_forms import MAX_FACT_CHARS, is_fact, toon_table
from xscore.prompts.bundle_parts import BundleEntry
from xscore.records import Kind, Layer
from xscore.settings import BundleSettings

KINDS = [Kind.PREFERENCE, Kind.CONVENTION, Kind.TECH_STACK, Kind.TODO]


def shown(entries: list[BundleEntry], form: str = "xml") -> str:
    """The bundle of these entries."""
    return render_bundle(entries, form=form, max_tokens=20_000, settings=BundleSettings(), now=NOW).text


def facts(count: int, words: str = "Names are verbs") -> list[BundleEntry]:
    """So many facts of all kinds."""
    return [entry(said(f"{words} {n}", kind=KINDS[n % 4]), 0.9 - n / 100) for n in range(count)]


@given(
    rows=st.lists(
        st.fixed_dictionaries(
            {
                "id": st.text(alphabet=st.characters(exclude_categories=["Cs"])),
                "text": st.text(alphabet=st.characters(exclude_categories=["Cs"])),
                "score": st.floats(0, 1).map(lambda score: round(score, 2)),
            }
        ),
        min_size=1,
    )
)
def test_a_table_says_what_the_rows_say(rows: list[dict[str, str | float]]) -> None:
    """H21: any text comes back from the table as it went in: commas, quotes, newlines, tables in tables."""
    assert toon_format.loads(toon_table(rows)) == {"facts": rows}


@pytest.mark.parametrize("form", ["xml", "markdown"])
def test_three_facts_are_a_table(form: str) -> None:
    """H21: from three on, in both forms that models read; two keep their fences."""
    assert "facts[3]{id,kind,score,told,text}:" in shown(facts(3), form)
    assert "facts[" not in shown(facts(2), form)
    assert all(each.memory.id in shown(facts(3), form) for each in facts(3))


def test_json_stays_json() -> None:
    """H21: the form for programs has no table in it."""
    assert "facts[" not in shown(facts(9), "json")


@pytest.mark.parametrize("count", [3, 5, 12])
def test_a_table_is_shorter_than_fences(count: int) -> None:
    """H21: where there is a table it takes fewer tokens than a fence for each of its facts."""
    fenced = "\n".join(shown([each]) for each in facts(count))
    assert tokens.estimate(len(shown(facts(count)))) < 0.8 * tokens.estimate(len(fenced))


def test_a_table_that_is_longer_is_not_made() -> None:
    """H21: text that TOON has to quote and escape throughout stays in fences."""
    quotes = facts(3, words='"' * 300)
    assert "facts[" not in shown(quotes)
    assert '"' * 300 in shown(quotes)


def test_code_and_long_texts_are_no_rows() -> None:
    """H21: code, decisions, long facts and facts of a file are shown as they are."""
    assert not is_fact(WRITE)
    assert not is_fact(said("We use tenacity", kind=Kind.DECISION, layer=Layer.GOVERNANCE))
    assert not is_fact(said("x" * (MAX_FACT_CHARS + 1), kind=Kind.TODO))
    assert not is_fact(memory("todo", "x", kind=Kind.TODO))
    assert is_fact(said("x" * MAX_FACT_CHARS, kind=Kind.TODO))


def test_below_the_threshold_is_said_in_the_table_too() -> None:
    """A fact that `min_keep` took in is marked in its row."""
    rows = [entry(each.memory, 0.6, below=True) for each in facts(3)]
    assert shown(rows).count("below the threshold") == 3


def test_code_alone_loads_no_table() -> None:
    """A turn without facts imports neither TOON nor what finds near duplicates."""
    told = (
        "import sys; from tests.prompts.bundle_memories import *; from xscore.prompts.bundle import render_bundle;"
        "from xscore.settings import BundleSettings; import xscore.pipeline.fusion;"
        "render_bundle([entry(WRITE, 0.9)], form='xml', max_tokens=900, settings=BundleSettings(), now=NOW);"
        "print({'toon_format', 'numpy', 'rapidfuzz', 'xscore.store.near_duplicates'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
