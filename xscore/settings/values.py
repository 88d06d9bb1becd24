"""Types of setting values with their bounds, and `Secret` for text that must not be shown."""

from typing import Annotated, Literal, TypeVar

from msgspec import Meta, Struct

T = TypeVar("T")
RepoMay = Annotated[T, Meta(extra={"repo": True})]
"""A setting that a repository's own file may set."""
RepoMayTurnOff = Annotated[T, Meta(extra={"repo": "off"})]
Fixed = Annotated[T, Meta(extra={"fixed": True})]

Globs = Annotated[tuple[str, ...], Meta(max_length=1_000)]
Fraction = Annotated[float, Meta(ge=0, le=1)]
Positive = Annotated[int, Meta(ge=1)]
WordsWeight = Annotated[float, Meta(ge=0, le=2)]
Seconds = Annotated[float, Meta(gt=0, le=31_536_000)]
Days = Annotated[float, Meta(gt=0, le=1_000_000)]
Tolerance = Annotated[float, Meta(ge=0, le=1000)]
"""A relative increase."""
MOST_USD = 1_000_000
"""Largest amount of dollars: a larger cap is a typo, and its digits could fill memory."""
Ceiled = Literal["session", "project", "user", "governance"]
"""Layers that could crowd out code and documents."""
_KINDS = (
    "function|method|class|test|block|doc|config|text|exchange|decision|failure|architecture|pattern|context|todo"
    "|convention|tech_stack|preference|summary|commit|entity|artifact|document"
)
ThresholdName = Annotated[str, Meta(pattern=rf"^([a-z-]+/)?(default|code|{_KINDS})\Z")]
SignalName = Literal["accept", "adoption", "reject", "override"]


NO_FINAL_ROUND = "off"
"""Value of `selection.final`: no other model looks once more."""
ExtractMode = Literal["off", "ask", "auto"]
PriceRule = Literal["auto", "vendor", "free"]

DEFAULT_JUDGE = "openai:gpt-6-luna"
"""Model of the usual judge. Small, current: $0.10 / $0.01 cached / $0.50 per million tokens
(genai-prices 0.2.3, November 2026)."""
DEFAULT_PRIMARY = "openai:gpt-6.1-sol"
"""Model of the usual answers. Strong, current: $2.00 / $0.10 cached / $10.00 per million tokens
(genai-prices 0.2.3, November 2026)."""
OTHER_JUDGES = ("typesafe:jev-1.14.0", "anthropic:claude-haiku-5-5")
"""Judges used instead of the default when only they have a key; at the same prices, like the
answering models below."""
OTHER_PRIMARIES = ("anthropic:claude-sonnet-5-5",)


def _key_variable(model: str) -> str:
    vendor, _, _ = model.partition(":")
    return f"{vendor.upper()}_API_KEY"


JUDGE_KEYS = tuple(map(_key_variable, (DEFAULT_JUDGE, *OTHER_JUDGES)))
ANSWER_KEYS = tuple(map(_key_variable, (DEFAULT_PRIMARY, *OTHER_PRIMARIES)))
"""Variables of which one must hold a key, if no model is named."""
_OR_OWN = "or OPENAI_BASE_URL for a server of your own"
_JUDGES = ", ".join(key if key in ANSWER_KEYS else f"{key} (judges only)" for key in JUDGE_KEYS)
SET_A_JUDGE = f"{_JUDGES}, {_OR_OWN}"
SET_AN_ANSWERER = f"{', '.join(ANSWER_KEYS)}, {_OR_OWN}"


class SettingsGroup(Struct, frozen=True, forbid_unknown_fields=True):
    """A frozen group of settings."""


class Secret:
    """Text that no print, log or traceback shows; blanks around it, as copying and files leave
    them, are not part."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text.strip()

    def reveal(self) -> str:
        """Return the text."""
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        if self._text:
            return "Secret('**********')"
        return "Secret('')"
