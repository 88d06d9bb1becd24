"""llm: `llm -f 'xscore:why is a store refused?' 'Explain it'` adds what the repository around this
folder says about it.

A plugin of Simon Willison's `llm`, which imports it at every start; `import xscore` costs next to
nothing.
Trade-off: a fragment is text alone, so a warning reports memories left unjudged.
"""

from collections.abc import Callable

import llm

import xscore
from xscore.extensions.integrations.keeping import warn_of_unjudged


@llm.hookimpl
def register_fragment_loaders(
    register: Callable[[str, Callable[[str], llm.Fragment]], None],
) -> None:
    """Register the prefix."""
    register("xscore", load_context)


def load_context(argument: str) -> llm.Fragment:
    """Return the context that xscore chooses for a task."""
    with xscore.open(".") as folder:
        answer = folder.context(argument)
    warn_of_unjudged(answer)
    return llm.Fragment(answer.bundle or "", f"xscore:{answer.turn_id}")
