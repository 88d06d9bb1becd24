"""The script file of `ScriptedProvider`: JSON, or JSON Lines with one rule or one set of options a line.

    {"default": 0.03,
     "rules": [{"path": "*/cache/*", "text": "INSERT INTO judgment", "score": 0.92, "reason": "writes it"}],
     "answer": "Judgments are written in …", "latency_s": 0.1, "noise": 0.02, "seed": 7,
     "errors": [{"at": 3, "kind": "rate_limited", "retry_after_s": 0.5}]}

In JSON Lines a line with `score` or `refuse` is a rule and any other line sets options. The first rule whose every
given pattern fits decides; a pattern with `*` or `?` is a glob over the whole, any other a part. Unknown names are
refused. It runs no code.
"""

import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from xscore.errors import ProviderError, UsageError

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Rule(_Part):
    """What to say of memories that fit; an empty pattern fits all."""

    path: str = ""
    entity: str = ""
    text: str = ""
    task: str = ""
    """Compared with everything around the memories: the turn."""
    score: Share = 0.0
    reason: str = "scripted"
    refuse: bool = False
    """Decline every prompt that shows such a memory."""


class PlannedError(_Part):
    """An error that one call meets."""

    at: int = Field(ge=1)
    """Which call, counted from 1."""
    kind: str
    """`kind` of a provider error: `rate_limited`, `overloaded`, `timeout`, `quota`, …"""
    retry_after_s: Seconds | None = None

    @field_validator("kind")
    @classmethod
    def _known(cls, kind: str) -> str:
        if kind not in error_kinds():
            raise ValueError(f"there is no provider error of kind {kind!r}")
        return kind

    def error(self) -> ProviderError:
        """Return the error to raise."""
        return error_kinds()[self.kind](f"scripted: call {self.at} fails so", retry_after_s=self.retry_after_s)


class Script(_Part):
    """A whole script."""

    default: Share = 0.03
    """Score of a memory that no rule fits."""
    rules: tuple[Rule, ...] = ()
    answer: str = "A scripted answer."
    """Reply to what is not a judging request."""
    latency_s: Seconds = 0.0
    noise: Share = 0.0
    """Added to rules' and default scores, at most so much up or down, fixed for each memory and seed."""
    seed: int = 0
    errors: tuple[PlannedError, ...] = ()


def error_kinds() -> dict[str, type[ProviderError]]:
    """Return the leaves of ProviderError by their kind."""
    kinds: dict[str, type[ProviderError]] = {}
    waiting: list[type[ProviderError]] = [ProviderError]
    while waiting:
        found = waiting.pop()
        kinds[found.kind] = found
        waiting += found.__subclasses__()
    return kinds


def read_script(path: Path) -> Script:
    """Read a script file; raise UsageError, naming file and place, for anything that is not one."""
    hint = "docs/providers.md shows the format."
    try:
        if path.exists() and not path.is_file():  # a pipe would be waited for
            raise UsageError(f"the script {path} is no plain file", hint=hint)
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the script {path} cannot be read: {error}", hint=hint) from error
    try:
        return Script.model_validate(_load(text))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"the script {path}: {place}: {first['msg']}", hint=hint) from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the script {path} is not JSON: {error}", hint=hint) from error


def _load(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        lines = [line for line in text.splitlines() if line.strip()]
        if len(lines) < 2:
            raise
        return _merge([json.loads(line) for line in lines])


def _merge(lines: list[Any]) -> dict[str, Any]:
    merged: dict[str, Any] = {"rules": []}
    for line in lines:
        if not isinstance(line, dict):
            raise ValueError("a line that is no object")
        if "score" in line or "refuse" in line:
            merged["rules"].append(line)
        else:
            merged |= {name: value for name, value in line.items() if name != "rules"}
            merged["rules"] += line.get("rules", [])
    return merged
