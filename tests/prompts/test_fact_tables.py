"""Short facts in one TOON table: lossless, only if shorter, and never for code."""

import subprocess
import sys

import pytest

from tests.prompts.bundle_memories import WRITE, bundle, entry, memory, said
from xscore.platform import tokens
from xscore.prompts.bundle_forms import MAX_FACT_CHARS, is_fact
from xscore.prompts.bundle_parts import BundleEntry
from xscore.records.memory import Kind, Layer

KINDS = [Kind.PREFERENCE, Kind.CONVENTION, Kind.TECH_STACK, Kind.TODO]


def shown(entries: list[BundleEntry], form: str = "xml") -> str:
    """Return the bundle of these entries."""
    return bundle(entries, form, max_tokens=20_000).text


def facts(count: int, words: str = "Names are verbs") -> list[BundleEntry]:
    """Return N facts of all kinds."""
    return [entry(said(f"{words} {n}", kind=KINDS[n % 4]), 0.9 - n / 100) for n in range(count)]


@pytest.mark.parametrize("form", ["xml", "markdown"])
def test_three_facts_are_a_table(form: str) -> None:
    """H21: from three facts on, in both forms for models; two keep their fences."""
    assert "facts[3]{id,kind,score,told,text}:" in shown(facts(3), form)
    assert "facts[" not in shown(facts(2), form)
    assert all(fact.memory.id in shown(facts(3), form) for fact in facts(3))


@pytest.mark.parametrize("count", [3, 5, 12])
def test_a_table_is_shorter_than_fences(count: int) -> None:
    """H21: a table takes fewer tokens than a fence for each fact."""
    fenced = "\n".join(shown([fact]) for fact in facts(count))
    assert tokens.estimate(len(shown(facts(count)))) < 0.8 * tokens.estimate(len(fenced))


def test_a_table_that_is_longer_is_not_made() -> None:
    """H21: text that TOON would have to escape throughout stays in fences."""
    quotes = facts(3, words='"' * 300)
    assert "facts[" not in shown(quotes)
    assert '"' * 300 in shown(quotes)


def test_code_and_long_texts_are_no_rows() -> None:
    """H21: code, decisions, long facts and facts of a file stay as they are."""
    assert not is_fact(WRITE)
    assert not is_fact(said("We use tenacity", kind=Kind.DECISION, layer=Layer.GOVERNANCE))
    assert not is_fact(said("x" * (MAX_FACT_CHARS + 1), kind=Kind.TODO))
    assert not is_fact(memory("todo", "x", kind=Kind.TODO))
    assert is_fact(said("x" * MAX_FACT_CHARS, kind=Kind.TODO))


def test_code_alone_loads_no_table() -> None:
    """A turn without facts imports neither TOON nor near-duplicate detection."""
    program = (
        "import sys; from tests.prompts.bundle_memories import *; import"
        " xscore.pipeline.bundle_building;bundle([entry(WRITE, 0.9)]);print({'toon_format',"
        " 'numpy', 'rapidfuzz', 'xscore.store.near_duplicates'} & {*sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"
