"""`provider:model` as a user writes it, and the provider behind it.

Our own providers are found by name; any other through the entry points of group `xscore.providers`, whose functions
take (model, settings) and return a Provider. The installed packages are searched only for names that are not ours,
because the search costs a tenth of a second. Which provider judges or answers is not decided here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from xscore.errors import UsageError
from xscore.providers.provider import Provider
from xscore.settings import Settings

GROUP = "xscore.providers"
OURS = {
    "anthropic": "xscore.providers.anthropic:connect",
    "openai": "xscore.providers.openai:connect",
    "scripted": "xscore.providers.scripted:connect",
}
"""Same names and places as the package's own entry points."""
LEXICAL = "lexical"
"""The judge without a model; needs no provider."""

Connect = Callable[[str, Settings], Provider]


@dataclass(frozen=True, slots=True)
class Spec:
    """A provider and one of its models."""

    provider: str
    model: str
    """Empty for `lexical`; a file for `scripted`."""

    def __str__(self) -> str:
        return f"{self.provider}:{self.model}" if self.model else self.provider


def parse(text: str) -> Spec:
    """Read `provider:model`, or `lexical`; the model may contain colons.

    Raises UsageError for an unknown provider or a missing model.
    """
    provider, colon, model = text.strip().partition(":")
    if provider == LEXICAL and not model:
        return Spec(LEXICAL, "")
    if not colon:
        raise UsageError(
            f"`{text}` names no provider", hint=f"Write provider:model, such as openai:{text or 'MODEL'}, or lexical."
        )
    if provider not in OURS and provider not in _installed():
        known = ", ".join(sorted({*OURS, *_installed(), LEXICAL}))
        raise UsageError(f"there is no provider `{provider}`", hint=f"Known: {known}.")
    if not model:
        raise UsageError(f"`{text}` names no model", hint=f"Write {provider}:MODEL.")
    return Spec(provider, model)


def connect(spec: Spec, settings: Settings) -> Provider:
    """Return the provider of this spec; nothing is sent yet.

    Raises UsageError or AuthenticationFailed where the settings do not suffice.
    """
    if spec.provider in OURS:
        module, _, function = OURS[spec.provider].partition(":")
        ours: Connect = getattr(import_module(module), function)
        return ours(spec.model, settings)
    found = _installed().get(spec.provider)
    if found is None:
        raise UsageError(f"`{spec}` is not a model behind a provider", hint="Write provider:model.")
    return found()(spec.model, settings)


def _installed() -> dict[str, Callable[[], Connect]]:
    from importlib.metadata import entry_points

    return {entry.name: entry.load for entry in entry_points(group=GROUP)}
