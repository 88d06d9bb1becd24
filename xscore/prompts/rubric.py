"""What a judge looks for: the rubric for code, the one for a change that is checked, or
the general one, which may hold a text of the user's own.

Each rubric has a file for each way of asking: a chat prompt, a predicate, a rating. The general
one is for entries of any kind. Trade-off: a user's text is inside the general rubric, whose
bands stay; where both apply, the prompt says that the user's decides.
"""

from functools import cache
from pathlib import Path

from msgspec import Struct

from xscore.platform.hashing import digest
from xscore.prompts.turn_text import PROMPT_VERSION
from xscore.records.calls import DecisionForm

DECISION_VERSION = "decision-1"
"""Part of every judgment's key, with the form. Change it with a rubric or the layout."""
GENERAL_VERSION = "general-1"
"""Part of the key of every judgment by the general rubric, with the form."""
CHECK_VERSION = "check-1"
"""Part of the key of every judgment by the rubric of `xscore check`, with the form."""
_CODE_STATEMENTS = {
    DecisionForm.PREDICATE: "This memory is needed for the task:",
    DecisionForm.SCORE: "How much does the task need this memory?",
}
_GENERAL_STATEMENTS = {
    DecisionForm.PREDICATE: "This memory fits what the task looks for:",
    DecisionForm.SCORE: "How well does this memory fit what the task looks for?",
}
_CHECK_STATEMENTS = {
    DecisionForm.PREDICATE: "This memory must change with the diff, or is untrue after it:",
    DecisionForm.SCORE: "How surely must this memory change with the diff?",
}
_USUAL = (
    "Consider what the question depends on directly, similar cases, related matters, and what went"
    " wrong."
)
_OWN = "The user's own rubric follows; where it differs from what stands above, it decides."


class Rubric(Struct, frozen=True):
    """One rubric. Everything in it changes scores, so its version is part of every judgment's
    key."""

    is_general: bool = False
    own: str = ""
    """The user's own text, within the general rubric."""
    is_check: bool = False
    """Whether it asks what a diff leaves undone or untrue, not what a task needs."""

    def text(self, form: DecisionForm | None = None) -> str:
        """Return the text that every request begins with. form: None for a chat prompt."""
        return _text(self, form)

    def statement(self, form: DecisionForm) -> str:
        """Return what a decision model is asked of each memory."""
        if self.is_check:
            return _CHECK_STATEMENTS[form]
        return (_GENERAL_STATEMENTS if self.is_general else _CODE_STATEMENTS)[form]

    @property
    def best_level(self) -> str:
        """The name of the highest level of a rating; the others have the same names in every
        rubric."""
        if self.is_check:
            return "untrue"
        return "exact" if self.is_general else "edited"

    def version(self, form: DecisionForm | None = None) -> str:
        """Return what identifies this text and the layout around it."""
        if self.is_check:
            if form:
                return f"{CHECK_VERSION}/{form.value}"
            return CHECK_VERSION
        if not self.is_general:
            if form:
                return f"{DECISION_VERSION}/{form.value}"
            return PROMPT_VERSION
        own_part = ""
        if self.own:
            own_part = f"+{digest(self.own)}"
        if form:
            return f"{GENERAL_VERSION}/{form.value}{own_part}"
        return f"{GENERAL_VERSION}{own_part}"


CODE_RUBRIC = Rubric()
CHECK_RUBRIC = Rubric(is_check=True)


def named_rubric(setting: str) -> Rubric:
    """Return the rubric of `judge.rubric`: `code`, `check`, `general`, or the general one with this
    text of the user's own."""
    if setting == "code":
        return CODE_RUBRIC
    if setting == "check":
        return CHECK_RUBRIC
    return Rubric(is_general=True, own="" if setting == "general" else setting.strip())


@cache
def _text(rubric: Rubric, form: DecisionForm | None) -> str:
    of = "decision" if form else "judge"
    if rubric.is_general:
        of = "general"
    if rubric.is_check:
        of = "check"
    # judge_rubric.md, decision_score.md, general_predicate.md, check_score.md, ….
    name = f"{of}_{form.value if form else 'rubric'}.md"
    text = Path(__file__).with_name(name).read_text("utf-8").strip()
    if rubric.is_general:
        return text.replace("{rubric}", f"{_OWN}\n\n{rubric.own}" if rubric.own else _USUAL)
    return text
