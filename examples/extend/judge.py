"""A judge: a function of a memory and the task, cached, capped and explained like a model.

    [project.entry-points."xscore.providers"]
    by_path = "judge:connect"

Then `xscore ask --judge by_path:1 "…"`. What follows the colon is part of the judge's identity:
change it with the rule.
"""

from xscore.providers.scripted import ScriptedProvider, ShownMemory
from xscore.settings import Settings


def score(memory: ShownMemory, turn: str) -> tuple[float, str]:
    """Score a memory, 0 to 1, and say why."""
    folders = [part for part in memory.path.split("/")[:-1] if len(part) > 2]
    named = [folder for folder in folders if folder in turn.lower()]
    return (0.9, f"the task names {named[0]}") if named else (0.05, "")


def connect(model: str, settings: Settings) -> ScriptedProvider:
    """Return the judge of `by_path:MODEL`."""
    return ScriptedProvider(score=score)
