"""A small model judges every memory of a repository against the task; one strong call gets exactly what matters.

The names below are imported when they are first used: `import xscore` itself costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xscore.pipeline.build import Pipeline, ask_sync
    from xscore.platform.errors import XscoreError
    from xscore.records.receipt import Answer
    from xscore.records.turn import Scope, Turn
    from xscore.settings import Settings

__all__ = ["Answer", "Pipeline", "Scope", "Settings", "Turn", "XscoreError", "ask_sync"]

_HOMES = {
    "Answer": "xscore.records.receipt",
    "Pipeline": "xscore.pipeline.build",
    "Scope": "xscore.records.turn",
    "Settings": "xscore.settings",
    "Turn": "xscore.records.turn",
    "XscoreError": "xscore.platform.errors",
    "ask_sync": "xscore.pipeline.build",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'xscore' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
