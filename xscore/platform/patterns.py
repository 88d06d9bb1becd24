"""Regular expressions that are compiled when they are first used.

Compiling all that the modules of a hook define took 6 ms before each prompt, and most prompts need
a third of them. Trade-off: such a pattern is used by its own methods, not handed to `re`.
"""

import re
from typing import Any, AnyStr, Generic, cast


class _LatePattern(Generic[AnyStr]):
    """Takes the place of a pattern until something of it is asked for."""

    def __init__(self, pattern: AnyStr, flags: int) -> None:
        self._source: tuple[AnyStr, int] = (pattern, flags)

    def __getattr__(self, name: str) -> Any:
        # Whoever looks before it is made, as a tracer does, would be led here for `_source`.
        if name.startswith("_"):
            raise AttributeError(name)
        # `re` keeps what it compiled. Kept here too, so that only the first look comes this way.
        value = getattr(re.compile(*self._source), name)
        setattr(self, name, value)
        return value


def compiled_late(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a pattern that is compiled when it is first used. A wrong one raises `re.error` only
    then."""
    return cast("re.Pattern[AnyStr]", _LatePattern(pattern, flags))
