"""`xscore config`: the settings in force and where each comes from; completion for a shell.

It changes no setting; a key shows only its last characters, and a URL no user or password.
"""

import re

import click
from click.shell_completion import ShellComplete, get_completion_class
from msgspec.structs import asdict

from xscore.cli.flags import Flags, command
from xscore.cli.settings_and_store import read_settings
from xscore.cli.text_layout import render_table
from xscore.platform.text import mask_key, one_line
from xscore.records.reports import EffectiveSetting
from xscore.settings import LoadedSettings
from xscore.store.redaction import redact

_AFTER_SCHEME = re.compile(r"://\S*")
_URLS = ("shared.url", "shared.memories_url", "shared.admin_url")
_QUERY_VALUE = re.compile(r"([?&][^=&#?\s]*=|#)[^&#\s]+")


@command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str, flags: Flags) -> None:
    """Print the completion script of SHELL.

    bash: eval "$(xscore config completion bash)" in ~/.bashrc; zsh: the same in ~/.zshrc; fish:
    save it as ~/.config/fish/completions/xscore.fish.
    """
    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(
        click.get_current_context().find_root().command, {}, "xscore", "_XSCORE_COMPLETE"
    )
    # The class's own checks the installed bash; the script does not need it.
    flags.terminal.data(ShellComplete.source(script))


@command()
@click.option("--origin", is_flag=True, help="Also show where each value came from.")
def show_config(origin: bool, flags: Flags) -> None:
    """Show every effective setting; keys are masked but for their last four characters.

    Set one in your own config.toml, in .xscore.toml of the repository (some only), as
    XSCORE_SECTION_NAME or by an option: docs/reference/settings.md.
    """
    loaded = read_settings(flags)
    settings_in_force = effective_settings(loaded)
    flags.terminal.notes(loaded.warnings)

    def render(_: object) -> str:
        rows = []
        for setting_row in settings_in_force:
            rows.append(
                (
                    setting_row.name,
                    one_line(setting_row.origin),
                    one_line(setting_row.value) or "(unset)",
                )
            )
        return render_table((), [row if origin else row[::2] for row in rows])

    flags.terminal.print_result(
        {"settings": [asdict(setting) for setting in settings_in_force]}, render
    )


def effective_settings(loaded: LoadedSettings) -> list[EffectiveSetting]:
    """Return every setting with its formatted value and origin; keys and what is secret in URLs are
    masked."""
    settings_in_force = []
    for name, origin in loaded.origins.items():
        section, field = name.split(".", 1)
        value = getattr(getattr(loaded.settings, section), field)
        shown = value.reveal() if name in _URLS else format_setting(value)
        if name in _URLS and shown and "://" not in shown:
            shown = "(unreadable)"
        if "://" in shown:
            shown = _without_credentials(shown)
        settings_in_force.append(EffectiveSetting(name, shown, origin))
    return settings_in_force


def _without_credentials(text: str) -> str:
    """Mask the user, password and query values of each URL in a text, and anything else that looks
    like a key."""
    return redact(_QUERY_VALUE.sub(r"\1…", _AFTER_SCHEME.sub(_without_user, text))).text


def _without_user(match: re.Match[str]) -> str:
    user, at, rest = match[0].rpartition("@")
    if user and at:
        return f"://…@{rest}"
    return match[0]


def format_setting(value: object) -> str:
    """Format a value as it would be typed; empty if unset."""
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
