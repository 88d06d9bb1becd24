"""Named variants of the settings, to be compared: `pack=8`, `judge=openai:gpt-6-luna,words=off`.

A variant is a list of `name=value`, separated by commas, over the settings in force; `now` changes
nothing. Values are checked as those of flags are. Trade-off: a value that holds a comma cannot be
written.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from xscore.pipeline.judge_description import JudgeDescription, Scale
from xscore.platform.errors import UsageError
from xscore.platform.near_names import nearest_names
from xscore.records.judgment import Thresholds
from xscore.settings import LoadedSettings, Settings
from xscore.settings.load import setting_names

if TYPE_CHECKING:
    from xscore.extensions.evaluation.recording import Recording

UNCHANGED = "now"
SHORT_NAMES: Mapping[str, str] = {
    "judge": "judge.model",
    "wire": "judge.wire",
    "pack": "judge.pack_size",
    "order": "judge.order",
    "sees": "judge.sees",
    "tests": "judge.tests",
    "purposes": "judge.purposes",
    "boosts": "boosts.cap",
    "words": "selection.words",
    "threshold": "selection.threshold",
    "k": "selection.top_k",
}
"""Short names of the settings that are compared most."""
COSINE = "cosine"
"""The variant that scores by an embedder's cosines alone."""
OF_COSINE: Mapping[str, str] = {"judge.model": "lexical", "boosts.cap": "0"}
"""Settings of that variant: no model that judges, and nothing in addition to the cosines."""
OF_PYTHON = ("draws", "rubric")
"""Names of settings that only Python may vary: one answer or two near a threshold, and the prompt's
rubric."""
RUBRICS = ("code", "general")
VARIANT_EXAMPLE = (
    "A variant is `now`, or settings such as `pack=8`, `judge=openai:gpt-6-luna,words=off`; or give"
    " a file of results."
)
_SWITCHES: Mapping[tuple[str, str], str | None] = {
    ("boosts.cap", "off"): "0",
    ("boosts.cap", "on"): None,
    ("selection.words", "off"): "0",
    ("selection.words", "on"): None,
}
"""Setting and word -> its value; None: as the settings have it."""


class Variant(Struct, frozen=True, kw_only=True):
    """One way to judge."""

    name: str
    """The variant as it was written."""
    overrides: Mapping[str, str] = {}
    """`section.name` -> value."""
    written: Mapping[str, str] = {}
    """`section.name` -> how the user wrote it, for errors."""
    draws: int | None = None
    rubric: str = ""
    by_cosine: bool = False
    """Whether an embedder's cosines are the scores: the baseline of judging every memory."""

    def settings_over(self, loaded: LoadedSettings) -> Settings:
        """Return the settings with what only Python may vary."""
        settings = loaded.settings
        if self.draws == 1:
            settings = replace(settings, selection=replace(settings.selection, most_redrawn=0))
        if self.rubric:
            settings = replace(settings, judge=replace(settings.judge, rubric=self.rubric))
        return settings

    def judge(self, judge: JudgeDescription) -> JudgeDescription:
        """Return the judge under a name of its own where its scores are not those of a turn.

        The size of packs and the number of draws are not part of a judge's identity, since a user
        has one of each; two variants would otherwise read each other's judgments.
        """
        if self.by_cosine:
            return _cosine_judge(judge)
        if not judge.stored:
            return judge
        marks: list[str] = []
        pack_size = self.overrides.get("judge.pack_size")
        if pack_size is not None and pack_size != "1":
            marks.append(f"/packs-of-{pack_size}")
        if self.draws == 1 and judge.identity.is_decision:
            marks.append("/one-draw")
        return judge.marked("".join(marks))


def parse_variant(text: str) -> Variant:
    """Return the variant. Raises UsageError for an unknown name."""
    name = text.strip()
    if name == UNCHANGED:
        return Variant(name=name)
    overrides: dict[str, str] = {}
    written: dict[str, str] = {}
    of_python: dict[str, str] = {}
    by_cosine = False
    for part in name.split(","):
        if part.strip() == COSINE:
            by_cosine = True
            overrides |= OF_COSINE
            continue
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not (key and equals and value):
            raise UsageError(f"`{text}` is neither a variant nor a file", hint=VARIANT_EXAMPLE)
        if key in OF_PYTHON:
            of_python[key] = value
            continue
        setting = SHORT_NAMES.get(key, key)
        if setting not in setting_names():
            raise _unknown(key)
        value_or_none = _SWITCHES.get((setting, value.lower()), value)
        if value_or_none is not None:
            overrides[setting] = value_or_none
            written[setting] = f"{key}="
    return Variant(
        name=name,
        overrides=overrides,
        written=written,
        draws=_draws(of_python),
        rubric=_rubric(of_python),
        by_cosine=by_cosine,
    )


def _cosine_judge(judge: JudgeDescription) -> JudgeDescription:
    """Return the judge that scores by an embedder's cosines.

    Raises UsageError where no embedder is set.
    """
    embedding = judge.settings.embedding
    if not embedding.by_model:
        raise UsageError(
            f"the variant `{COSINE}` needs an embedder, and embedding.model is `terms`",
            hint=f"Write {COSINE},embedding.model=openai:MODEL, or set it.",
        )
    identity = replace(judge.identity, provider=COSINE, model=embedding.model.strip())
    return replace(
        judge,
        identity=identity,
        scale=Scale.COSINE,
        thresholds=Thresholds(0.0),
        words_weight=0.0,
    )


def _draws(of_python: Mapping[str, str]) -> int | None:
    text = of_python.get("draws")
    if text is None:
        return None
    if text not in ("1", "2"):
        raise UsageError(f"draws={text}: a memory is judged once or twice", hint="Give 1 or 2.")
    return int(text)


def _rubric(of_python: Mapping[str, str]) -> str:
    text = of_python.get("rubric", "")
    if text and text not in RUBRICS:
        raise UsageError(f"there is no rubric `{text}`", hint=f"One of: {', '.join(RUBRICS)}.")
    return text


def _unknown(key: str) -> UsageError:
    names = [*SHORT_NAMES, *OF_PYTHON, *setting_names()]
    (nearest,) = nearest_names(key, names, limit=1, likeness=0.0)
    return UsageError(
        f"a variant has no setting `{key}`",
        hint=f"The nearest is `{nearest}`. {VARIANT_EXAMPLE}",
    )


def judge_of(
    variant: Variant, recording: "Recording | None"
) -> Callable[[JudgeDescription], JudgeDescription]:
    """Return how a judge is described for a variant, recorded or not."""

    def adapt(judge: JudgeDescription) -> JudgeDescription:
        named = variant.judge(judge)
        if recording is None:
            return named
        return recording.judge(named)

    return adapt
