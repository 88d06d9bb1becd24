"""What `eval probe` takes away: a layer, a kind of memory, a checkpoint, or the brief of an agent.

A part is named as users name it; `commits` and `sessions` mean the kind and the layer. Both
arms see every layer, past exchanges included, so that they differ in the one part alone.
"""

from msgspec import Struct
from msgspec.structs import replace

from xscore.platform.errors import UsageError
from xscore.platform.near_names import nearest_names
from xscore.records.memory import Kind, Layer
from xscore.records.turn import Scope

CHECKPOINT = "checkpoint"
BRIEF = "brief"
"""The brief of earlier work that an agent's session gets with its first prompt."""
_USUAL_NAMES = {
    "commits": Kind.COMMIT.value,
    "decisions": Kind.DECISION.value,
    "failures": Kind.FAILURE.value,
    "preferences": Kind.PREFERENCE.value,
    "sessions": Layer.SESSION.value,
    "tests": Kind.TEST.value,
}
"""How users call a part -> the kind or layer."""
PART_NAMES = tuple(
    sorted({*_USUAL_NAMES, *map(str, Kind), *map(str, Layer), BRIEF, CHECKPOINT})
)


class Arm(Struct, frozen=True, kw_only=True):
    """One way to ask the tasks."""

    name: str
    scope: Scope
    checkpoint: str = ""
    has_brief: bool = False
    """Whether the brief is shown, where briefs are compared."""


class Arms(Struct, frozen=True, kw_only=True):
    """The two ways that a probe compares."""

    part: str
    """The part that one of the arms lacks, as the user named it."""
    with_part: Arm
    without_part: Arm

    @property
    def compares_briefs(self) -> bool:
        """Whether both are shown what a hook adds to an agent's prompt, one without the brief."""
        return self.with_part.has_brief


def arms_of(part: str, scope: Scope, *, checkpoint: str = "") -> Arms:
    """Return the arm with a part and the arm without.

    scope: what the user admits; both arms stay within it.
    checkpoint: the name of one, where the part is `checkpoint`.
    Raises UsageError for an unknown part, one that the scope leaves out anyway, and a checkpoint
    without a name.
    """
    name = _USUAL_NAMES.get(part, part)
    if name == BRIEF:
        return _arms_of_brief(scope, checkpoint=checkpoint)
    if name == CHECKPOINT:
        if not checkpoint:
            raise UsageError(
                "a probe of a checkpoint needs its name",
                hint="Add --checkpoint NAME; `xscore session list` lists them.",
            )
        return Arms(
            part=f"checkpoint {checkpoint}",
            with_part=Arm(name="with", scope=scope, checkpoint=checkpoint),
            without_part=Arm(name="without", scope=scope),
        )
    if name not in {*Kind, *Layer}:
        (nearest,) = nearest_names(part, PART_NAMES, limit=1, likeness=0.0)
        raise UsageError(
            f"a probe has no part `{part}`",
            hint=f"The nearest is `{nearest}`. One of: {', '.join(PART_NAMES)}.",
        )
    layers = scope.layers or tuple(map(str, Layer))
    kinds = scope.kinds or tuple(map(str, Kind))
    if name not in {*layers, *kinds}:
        raise UsageError(
            f"--layer and --kind leave out `{part}`, so both arms would be the same",
            hint="Choose a part that they include.",
        )
    everything = replace(scope, layers=layers)
    rest = replace(
        everything,
        layers=tuple(layer for layer in layers if layer != name),
        kinds=tuple(kind for kind in kinds if kind != name),
    )
    return Arms(
        part=part,
        with_part=Arm(name="with", scope=everything, checkpoint=checkpoint),
        without_part=Arm(name="without", scope=rest, checkpoint=checkpoint),
    )


def _arms_of_brief(scope: Scope, *, checkpoint: str) -> Arms:
    """Return two arms that judge the same, of which one is shown the brief."""
    if checkpoint:
        raise UsageError(
            "an agent's session has no checkpoint, so its brief is probed without one",
            hint="Leave out --checkpoint.",
        )
    layers = scope.layers or tuple(map(str, Layer))
    if all(Layer(layer).is_indexed for layer in layers):
        raise UsageError(
            "--layer leaves out all that a brief is made of, so both arms would be the same",
            hint="Leave out --layer, or add governance, project or session.",
        )
    everything = replace(scope, layers=layers)
    return Arms(
        part=f"the {BRIEF}",
        with_part=Arm(name="with", scope=everything, has_brief=True),
        without_part=Arm(name="without", scope=everything),
    )
