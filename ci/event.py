"""What a run is about: the event that started it, and the pull request of this very repository that it belongs to.

A pull request of a fork counts as none here: its run may neither save nor comment. This decides nothing else about
either. Trade-off: a pull request whose fork was deleted is one of a fork.
"""

import json
import os
from pathlib import Path
from typing import Any

from msgspec import Struct


class Event(Struct, frozen=True):
    """What started the run."""

    name: str
    """As GitHub calls it: `push`, `pull_request`, …"""
    own_pull_request: int | None
    """Number of the pull request, where its code is of this repository."""


def event() -> Event:
    """Read it from where the runner put it."""
    payload = json.loads(Path(os.environ["GITHUB_EVENT_PATH"]).read_text("utf-8"))
    return Event(os.environ["GITHUB_EVENT_NAME"], own_pull_request(payload, os.environ["GITHUB_REPOSITORY"]))


def own_pull_request(payload: dict[str, Any], repository: str) -> int | None:
    """Return the number of the pull request; None: there is none, or its code is of another repository."""
    pull = payload.get("pull_request") or {}
    head = (pull.get("head") or {}).get("repo") or {}
    return int(pull["number"]) if repository and head.get("full_name") == repository else None
