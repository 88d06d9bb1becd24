"""`xscore config show`: every effective setting and where it came from."""

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from xscore.cli.opening import read_settings
from xscore.cli.options import OUTPUT, Flags, options
from xscore.cli.terminal import echo, print_json
from xscore.pipeline.receipt import SCHEMA
from xscore.records import Setting
from xscore.safe_text import one_line
from xscore.shared.address import shown

if TYPE_CHECKING:
    from xscore.settings import Loaded

KEY_TAIL = 4
SHORTEST_KEY_SHOWN = 12


@click.group()
def config() -> None:
    """Show the settings in force. They are set in files, by the environment and by flags, never here."""


@config.command()
@click.option("--origin", is_flag=True, help="Also show where each value came from.")
@options(OUTPUT)
def show(origin: bool, flags: Flags) -> None:
    """Show every effective setting; keys are masked but for their last four characters."""
    terminal = flags.terminal
    loaded = read_settings(flags)
    settings = effective(loaded)
    for warning in loaded.warnings:
        terminal.note(warning)
    if terminal.as_json:
        print_json({"schema": SCHEMA, "settings": [asdict(setting) for setting in settings]})
        return
    name_width = max(len(setting.name) for setting in settings)
    value_width = min(40, max(len(setting.value) for setting in settings))
    for setting in settings:
        value = one_line(setting.value) or "(unset)"
        line = f"{setting.name:<{name_width}}  {value:<{value_width}}"
        echo((f"{line}  {one_line(setting.origin)}" if origin else line).rstrip())


def effective(loaded: "Loaded") -> list[Setting]:
    """Every setting with its value in words and its origin; a key is masked, and a URL shows none."""
    found = []
    for name, origin in loaded.origins.items():
        section, field = name.split(".", 1)
        value = getattr(getattr(loaded.settings, section), field)
        if name == "shared.url" and value.get_secret_value():
            value = shown(value.get_secret_value())
        found.append(Setting(name, in_words(value), origin))
    return found


def in_words(value: object) -> str:
    """Write a value as it would be typed; empty for what is unset."""
    secret = getattr(value, "get_secret_value", None)
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case tuple():
            return ", ".join(map(str, value))
        case dict():
            return ", ".join(f"{key}={part:g}" for key, part in value.items())
        case float():
            return f"{value:.4g}"
    return masked(secret()) if secret is not None else str(value)


def masked(key: str) -> str:
    """Show that a key is there, and its end, so that two keys can be told apart."""
    if not key:
        return ""
    return f"…{key[-KEY_TAIL:]}" if len(key) >= SHORTEST_KEY_SHOWN else "…"
