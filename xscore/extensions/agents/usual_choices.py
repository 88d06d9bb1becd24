"""Tell a new session what its user typically uses and this project has no memory of, with what that
rests on.

It is what `memory suggest` prints: nothing is applied, and `memory mute` silences it. Trade-off: a
choice that the project made without stating it counts, too.
"""

from xscore.extensions.agents.agent_bundle import quoted
from xscore.extensions.agents.data_fence import DATA_NOTE, FENCE
from xscore.extensions.learning.user_preferences import Suggestion, suggest_preferences
from xscore.platform.text import counted
from xscore.store.store import Store

MOST_CHOICES = 3
KEY_CHARS, VALUE_CHARS = 40, 80
HEAD = "xscore knows this user's habits from elsewhere; this project has no memory of these."


def render_usual_choices(store: Store) -> str:
    """Return the surest choices, each with its evidence; "" if there is none."""
    suggested = suggest_preferences(store, at_least=store.settings.inferred_confidence)
    lines = [_line(suggestion) for suggestion in suggested.suggestions[:MOST_CHOICES]]
    if not lines:
        return ""
    return "\n".join([HEAD, DATA_NOTE, f"<{FENCE}>", *lines, f"</{FENCE}>"])


def _line(suggestion: Suggestion) -> str:
    verb = "You typically use" if suggestion.is_name else "You usually hold that"
    rests_on = "stated by the user"
    if suggestion.projects:
        rests_on = f"in {counted(suggestion.projects, 'project')}"
    value = quoted(suggestion.value, VALUE_CHARS)
    key = quoted(suggestion.key, KEY_CHARS)
    return (
        f"- {verb} “{value}” ({key}): {rests_on},"
        f" confidence {suggestion.confidence:.2f} [{suggestion.memory_id}]"
    )
