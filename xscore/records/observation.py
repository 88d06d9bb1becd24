"""What one project says, as the user's own store notes it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Observation:
    """What one project says about a key."""

    project: str
    """Hashed id of its store (`memory.observations.project_name`)."""
    key: str
    kind: str
    """Kind of the memory that says so."""
    value: str
    """The choice, in one sentence."""
    seen_at: float
    """Unix seconds."""
