"""Spans of time as a person writes them on the command line; what they mean is for the options that take one."""

import re
from typing import Any

import click


class Stretch(click.ParamType[float]):
    """How far back from now, in seconds: `30s`, `90m`, `24h`, `7d`, `2w`."""

    name = "stretch"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return seconds."""
        found = _STRETCH.fullmatch(str(value).strip())
        if found is None or not int(found[1]):
            self.fail(f"{value!r} is no stretch of time. Write 30s, 90m, 24h, 7d or 2w.", param, ctx)
        return float(int(found[1]) * _SECONDS[found[2]])


class Time(click.ParamType[float]):
    """Seconds, as `30`, `30s`, `1.5m` or `2h`."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return seconds."""
        found = _TIME.fullmatch(str(value).strip())
        if found is None or not float(found[1]):
            self.fail(f"{value!r} is no time. Write 30s, 2m or 1h.", param, ctx)
        return float(found[1]) * _SECONDS[found[2] or "s"]


_TIME = re.compile(r"(\d{1,7}(?:\.\d{1,3})?) ?(s|m|min|h)?")
_STRETCH = re.compile(r"([0-9]{1,6}) ?(s|m|min|h|d|w)")
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400, "w": 604_800}
