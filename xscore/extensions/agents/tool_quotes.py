"""Quote what an agent's failed tool call ran and printed: redacted, on one line, shortened, unable
to close its fence.

Whatever of a call is stored or said goes through here. Trade-off: only the last lines of an
error are quoted, where tools say what failed.
"""

from xscore.extensions.agents.agent_bundle import quoted
from xscore.store.personal_data import redact_said

COMMAND_CHARS, LINE_CHARS = 200, 160
ERROR_LINES = 4
ERROR_CHARS = 40_000
"""Characters looked at of the end of an error, or the beginning of a command."""
_CUT_CHARS = 4_000
"""Characters left out at a cut, since half a secret would not be recognized as one."""


def shown_command(command: str, *, allow_pii: bool = False) -> str:
    """Return a command or a path as it may be quoted: redacted, on one line, shortened."""
    # Only its beginning is shown, far from where it is cut here.
    clean = redact_said(command[:ERROR_CHARS], allow_pii=allow_pii).text
    return f"`{quoted(clean.replace('`', chr(39)), COMMAND_CHARS)}`"


def holds_secret(request: str, *, allow_pii: bool) -> bool:
    """Whether something in a command or an edit is redacted; what is too long to tell counts."""
    is_told = len(request) <= ERROR_CHARS
    return not is_told or redact_said(request, allow_pii=allow_pii).text != request


def error_end(error: str) -> str:
    """Return the part of an error that is looked at."""
    if len(error) <= ERROR_CHARS:
        return error
    return error[_CUT_CHARS - ERROR_CHARS :]


def shown_error(error: str, *, allow_pii: bool) -> str:
    """Return the last lines of an error, where tools say what failed, redacted."""
    clean = redact_said(error_end(error), allow_pii=allow_pii).text
    lines = [line.strip() for line in clean.splitlines() if line.strip()]
    return " | ".join(quoted(line, LINE_CHARS) for line in lines[-ERROR_LINES:])
