"""`xscore completion`: the script a shell sources to complete commands and options.

`xscore config show`: every effective setting and where it came from.
"""

from typing import TYPE_CHECKING

import click
from msgspec.structs import asdict

from xscore.cli.opening import read_settings
from xscore.cli.options import OUTPUT, Flags, options
from xscore.cli.terminal import print_json, write_stdout
from xscore.extension import load
from xscore.pipeline.json_form import SCHEMA
from xscore.platform.text import one_line
from xscore.records import EffectiveSetting

if TYPE_CHECKING:
    from xscore.settings import LoadedSettings


SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script of SHELL.

    bash: eval "$(xscore completion bash)" in ~/.bashrc; zsh: the same in ~/.zshrc; fish: save it as
    ~/.config/fish/completions/xscore.fish.
    """
    from click.shell_completion import ShellComplete, get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(context.find_root().command, {}, "xscore", "_XSCORE_COMPLETE")
    write_stdout(ShellComplete.source(script))  # the class's own checks the installed bash; the script does not need it


KEY_TAIL = 4
SHORTEST_KEY_SHOWN = 12


@click.group()
def config() -> None:
    """Show the settings in force. They are set in files, by the environment and by flags, never here."""


@config.command("show")
@click.option("--origin", is_flag=True, help="Also show where each value came from.")
@options(OUTPUT)
def show_config(origin: bool, flags: Flags) -> None:
    """Show every effective setting; keys are masked but for their last four characters."""
    terminal = flags.terminal
    loaded = read_settings(flags)
    settings = effective_settings(loaded)
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
        write_stdout((f"{line}  {one_line(setting.origin)}" if origin else line).rstrip())


def effective_settings(loaded: "LoadedSettings") -> list[EffectiveSetting]:
    """Every setting with its value in words and its origin; a key is masked, and a URL shows none."""
    found = []
    for name, origin in loaded.origins.items():
        section, field = name.split(".", 1)
        value = getattr(getattr(loaded.settings, section), field)
        if name == "shared.url" and value.reveal():
            value = load("xscore.extensions.shared.server:displayed_url")(value.reveal())
        found.append(EffectiveSetting(name, format_setting(value), origin))
    return found


def format_setting(value: object) -> str:
    """Write a value as it would be typed; empty for what is unset."""
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
    return mask_key(value.reveal()) if hasattr(value, "reveal") else str(value)


def mask_key(key: str) -> str:
    """Show that a key is there, and its end, so that two keys can be told apart."""
    if not key:
        return ""
    return f"…{key[-KEY_TAIL:]}" if len(key) >= SHORTEST_KEY_SHOWN else "…"
