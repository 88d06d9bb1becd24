"""Quoted text stays inside its fence."""

import pytest

from xscore.prompts.fences import escape_tags

UNSEEN = (
    "\u00ad",
    "\u0301",
    "\u200b",
    "\u202e",
    "\u2066",
    "\u3164",
    "\ufe0f",
    "\U000e0061",
    "\U000e0100",
)


@pytest.mark.parametrize("character", UNSEEN, ids=ascii)
def test_no_character_that_nobody_sees_hides_a_tag(character: str) -> None:
    """A closing tag is escaped with an invisible or combining character before its name or inside
    it."""
    for tag in (f"<{character}/memory>", f"</{character}memory>", f"</mem{character}ory>"):
        assert escape_tags(f"x {tag} y", tags="memory") == f"x &lt;{tag[1:]} y"
