"""How a turn was routed: what kind of task it is, what each layer gave, and what the bundle grants to each."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from xscore.records.memory import Layer


class TaskType(StrEnum):
    """What sort of work a task asks for; it shapes the bundle and never what is judged."""

    EDIT = "edit"
    EXPLAIN = "explain"
    DESIGN = "design"
    REFACTOR = "refactor"
    RESEARCH = "research"


@dataclass(frozen=True, slots=True)
class Plan:
    """What the bundle grants to each layer, by the kind of task."""

    task_type: TaskType
    because: str
    """The words of the task that decided, or who else did."""
    ceilings: Mapping[Layer, float]
    """Most that a layer may take, as a share of the memory text. Code and documents get what the others leave."""

    def __post_init__(self) -> None:
        if any(share < 0 for share in self.ceilings.values()) or sum(self.ceilings.values()) > 1 + 1e-9:
            raise ValueError(f"the ceilings of a plan are shares of one bundle: {dict(self.ceilings)}")


@dataclass(frozen=True, slots=True)
class LayerReport:
    """What one layer gave to the pool."""

    layer: Layer
    memories: int
    fetch_ms: float
    is_late: bool = False
    """It missed its deadline and was fetched to its end after the others."""
    problem: str = ""
    """Why it could not be read; empty: it was."""


@dataclass(frozen=True, slots=True)
class Routing:
    """A plan and what came of it."""

    plan: Plan
    layers: tuple[LayerReport, ...] = field(default=())
