"""What all groups of settings have in common: frozen, strict about names, and the kinds of numbers that occur."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

REPO: dict[str, Any] = {"repo": True}
"""Marks a setting that a repository's own file may set."""

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[int, Field(ge=1)]
Tolerance = Annotated[float, Field(ge=0, le=1000, allow_inf_nan=False)]
"""A share by which something may grow."""
LayerName = Literal["session", "project", "user", "governance", "graph", "vector"]


class Part(BaseModel):
    """A frozen group of settings; unknown names are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)
