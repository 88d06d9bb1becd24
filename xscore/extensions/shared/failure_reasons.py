"""Why a shared server could not be asked, in one line that a user reads.

Drivers say it for programmers: each attempt of a connection on a line of its own, with the address
before it, and a server's answer with the statement and the function in which it went wrong.
Trade-off: where the text says more than its first sentence, it is in the server's log alone.
"""

import re
from typing import Any

from xscore.platform.text import one_line

_ATTEMPT = re.compile(
    r"^(?:connection failed: )?(?:connection to server at .*?, port \d+ failed: )?"
)
_NO_REASON = "Is the server running on that host and accepting TCP/IP connections?"
_OWN_CERTIFICATE = (
    "If the certificate is your own organisation's, name its authority in the URL: sslrootcert=FILE"
    " (Redis: ssl_ca_certs=FILE)."
)
_ASK_ADMINISTRATOR = "The server's log says more: tell its administrator."


def failure_reason(error: BaseException) -> str:
    """Return why, in one line."""
    primary = _diagnosis(error, "message_primary")
    if primary:
        return one_line(" ".join(primary.split()))
    # A system's error has its number before its words.
    if isinstance(error, OSError) and error.strerror and str(error).startswith("[Errno"):
        return one_line(error.strerror)
    reasons: list[str] = []
    for line in str(error).splitlines():
        reason = " ".join(_ATTEMPT.sub("", line.strip()).split())
        # The driver tries with TLS and without, and says the same twice.
        if reason not in ("", _NO_REASON, *reasons):
            reasons.append(reason)
    return one_line(" ".join(reasons)) or type(error).__name__


def has_answered(error: BaseException) -> bool:
    """Whether the server itself refused what it was asked, over a connection."""
    return bool(_diagnosis(error, "sqlstate"))


def failure_hint(error: BaseException, hint: str) -> str:
    """Return what to do about it. hint: where nothing more is known."""
    if "certificate verify failed" in str(error):
        return _OWN_CERTIFICATE
    return _ASK_ADMINISTRATOR if has_answered(error) else hint


def _diagnosis(error: BaseException, field: str) -> str:
    """Return a field of PostgreSQL's answer; empty if it is no answer of a server."""
    diagnosis: Any = getattr(error, "diag", None)
    return getattr(diagnosis, field, None) or ""
