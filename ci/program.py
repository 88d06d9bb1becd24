"""xscore as a process of the action: which program, and what of the job's environment it sees.

It starts with the keys that hold something, since a secret that is not there comes as an empty text, and without the
path of the action's own modules. It starts nothing. Trade-off: whatever else the job set is handed on.
"""

import os

KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY")


def xscore(*arguments: str) -> list[str]:
    """Return the words to start it with."""
    return [os.environ["XSCORE"], *arguments]


def environment() -> dict[str, str]:
    """Return what it sees."""
    return {
        name: value
        for name, value in os.environ.items()
        if name != "PYTHONPATH" and not (name in KEYS and not value.strip())
    }
