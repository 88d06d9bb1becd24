"""200 facts and 200 traps, planted in 100 sessions."""

from datetime import date

import msgspec
import pytest

from tests.extensions.extraction.planted_dialogs import Dialog, Planted, dialogs, plants, traps
from xscore.extensions.extraction.facts import (
    Convention,
    Decision,
    Fact,
    Failure,
    Preference,
    TechFact,
    Todo,
)
from xscore.extensions.extraction.session_facts import (
    Message,
    SessionFacts,
    check_proposed,
    find_by_rules,
)

FACTS: dict[str, type[Fact]] = {
    "decision": Decision,
    "failure": Failure,
    "preference": Preference,
    "convention": Convention,
    "tech_fact": TechFact,
    "todo": Todo,
}
SAID_ON = date(2026, 11, 27)
ALL = dialogs(plants(200) + traps(200))


def messages(dialog: Dialog) -> list[Message]:
    """Return the messages of a dialog."""
    both_sides: list[Message] = []
    for number, (task, answer) in enumerate(dialog.turns):
        both_sides.append(Message("user", task, f"m_{number}", 0.0, SAID_ON))
        both_sides.append(Message("agent", answer, f"m_{number}", 0.0, SAID_ON))
    return both_sides


def kept_of(session_facts: SessionFacts, planted: tuple[Planted, ...]) -> list[Planted]:
    """Return what was planted and kept, by its name."""
    words = " ".join(f"{fact.fact.text} {fact.fact.quote}" for fact in session_facts.kept)
    return [item for item in planted if item.name in words]


def proposals(dialog: Dialog) -> list[Fact]:
    """Return what a model makes of a dialog that misses nothing and falls into every trap."""
    return [FACTS[item.kind](text=item.text, quote=item.quote) for item in dialog.planted]


def shares(kept: list[Planted]) -> tuple[float, list[str]]:
    """Return the recall, and the shapes of the traps that were kept."""
    facts = [item for item in kept if not item.is_trap]
    return len(facts) / 200, [item.shape for item in kept if item.is_trap]


def test_rules_keep_no_trap() -> None:
    """Fixed forms find most facts, and none of 200 traps."""
    kept: list[Planted] = []
    for dialog in ALL:
        kept += kept_of(find_by_rules(messages(dialog)), dialog.planted)
    recall, trapped = shares(kept)
    assert trapped == []
    # A fifth of the shapes follow no form; measured .79.
    assert recall >= 0.75


def test_a_model_that_falls_into_every_trap_plants_none() -> None:
    """What a model proposes is kept only where the speakers' own words bear it out."""
    kept: list[Planted] = []
    for dialog in ALL:
        checked = check_proposed(messages(dialog), proposals(dialog), extractor="m")
        kept += kept_of(checked, dialog.planted)
    recall, trapped = shares(kept)
    assert trapped == []
    assert recall >= 0.95


_SAID_BY_THE_USER = {
    "The user prefers": "I prefer",
    "The user likes": "I like",
    "The user wants": "I want",
    "The user would": "I would",
    "The user decided that": "We decided that",
}


@pytest.mark.parametrize("item", traps(74), ids=lambda item: item.shape.replace(" ", "_"))
def test_a_trap_is_one_only_because_of_what_surrounds_it(item: Planted) -> None:
    """The same fact, said plainly by the user, is kept: the tests can fail."""
    text = item.text
    for reported, spoken in _SAID_BY_THE_USER.items():
        text = text.replace(reported, spoken)
    said_plainly = f"We decided: {text}"
    plain = Message("user", said_plainly, "m_0", 0.0, SAID_ON)
    fact = FACTS[item.kind](text=text, quote=said_plainly)
    assert check_proposed([plain], [fact], extractor="m").kept


def test_an_eleventh_field_or_a_wrong_type_is_unreadable() -> None:
    """The schemas are strict."""
    good = b'{"kind": "todo", "text": "Rotate the keys.", "quote": "rotate the keys"}'
    assert isinstance(msgspec.json.decode(good, type=Fact), Todo)
    for bad in (
        good.replace(b'"todo"', b'"wish"'),
        good.replace(b"}", b', "more": 1}'),
        good.replace(b'"rotate the keys"', b"7"),
        good.replace(b"rotate the keys", b"r" * 601),
    ):
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(bad, type=Fact)
