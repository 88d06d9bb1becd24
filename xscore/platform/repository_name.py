"""The name of a repository from its origin: `github.com/acme/pay`, however it was cloned.

Pure. A clone in a folder, or without an origin, has no name of its own; its user gives one.
Trade-off: a mirror at another host is another repository, unless its user says otherwise.
"""

import re
from urllib.parse import urlsplit

from xscore.platform.errors import UsageError

_SCP_FORM = re.compile(r"(?:[\w.+-]+@)?([\w.-]+):(?!//)(.+)")
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]*(/[\w.~+-]+)+")
_GIVEN = re.compile(r"[A-Za-z0-9][\w.~+/-]{0,199}")


def repository_name(origin: str) -> str:
    """Return the name in an origin; empty if it has none.

    User, password and port are not part of it, nor is the way to get there (ssh, https).
    """
    host, path = _host_and_path(origin)
    cleaned = path.strip("/").removesuffix(".git")
    name = f"{host.lower()}/{cleaned}"
    if _NAME.fullmatch(name) and ".." not in name:
        return name
    return ""


def short_name(name: str) -> str:
    """Return a name without its host, as people say it: `acme/pay`."""
    return name.partition("/")[2] or name


def _host_and_path(origin: str) -> tuple[str, str]:
    if "://" in origin:
        try:
            parts = urlsplit(origin)
        except ValueError:
            return "", ""
        return parts.hostname or "", parts.path
    match = _SCP_FORM.fullmatch(origin)
    if match:
        return (match[1], match[2])
    return ("", "")


def checked_name(name: str) -> str:
    """Return a name that a user gives. Raises UsageError."""
    cleaned = name.strip().strip("/")
    if not _GIVEN.fullmatch(cleaned) or ".." in cleaned:
        raise UsageError(
            f"{name!r} is not a valid repository name",
            hint="Use letters, digits and ._~+/-, as in github.com/acme/pay.",
        )
    return cleaned
