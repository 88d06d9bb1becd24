"""Which function does the work of which hook event; it is imported when its event comes.

An event adds its text as soon as it has it; streams, time and failures are the guard's. What cannot
be done in time is left to the background process. Trade-off: an event's function is named by a
text, so that mypy does not see its type; `tests/extensions/agents` calls each.
"""

from collections.abc import Callable, Mapping
from importlib import import_module

from xscore.extensions.agents.hook_call import HookCall

_HERE = __name__.rpartition(".")[0]
EVENTS: Mapping[str, str] = {
    "prompt": "prompt_event:before_prompt",
    "session-start": "session_events:at_session_start",
    "subagent-start": "session_events:at_subagent_start",
    "pre-compact": "exchange_events:before_compaction",
    "stop": "exchange_events:at_stop",
    "session-end": "session_events:at_session_end",
    "post-edit": "tool_events:after_edit",
    "post-tool": "tool_events:after_failure",
    "tool-failed": "tool_events:after_failure",
}
"""`module:function` of this package, by event."""


def event_function(event: str) -> Callable[[HookCall], str]:
    """Import what an event runs; it returns what it could not do, which is no error: the agent got
    its answer."""
    module, _, name = EVENTS[event].partition(":")
    function: Callable[[HookCall], str] = getattr(import_module(f"{_HERE}.{module}"), name)
    return function
