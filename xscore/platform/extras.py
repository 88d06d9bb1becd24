"""Optional packages: say which extra brings one that is missing.

Nothing is imported here, so a check costs no start-up time. Trade-off: a package that is installed
and broken passes the check and fails at its import.
"""

from importlib.util import find_spec

from xscore.platform.errors import UsageError, install_hint


def has_package(module: str) -> bool:
    """Return whether a top-level module can be found."""
    return find_spec(module) is not None


def require_extra(extra: str, module: str, *, purpose: str) -> None:
    """Raise UsageError with the command that installs the extra, if its module is missing.

    purpose: what needs it, as the beginning of a sentence.
    """
    if not has_package(module):
        raise UsageError(f"{purpose} needs the extra `{extra}`", hint=install_hint(extra))
