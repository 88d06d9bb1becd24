"""`provider:model` as a user writes it, and the provider behind it.

Our own providers are found by name; any other through the entry points of group `xscore.providers`, whose functions
take (model, settings) and return a Provider. The installed packages are searched only for names that are not ours,
because the search costs a tenth of a second. Which provider judges or answers is not decided here.

Import a vendor's SDK without holding the event loop: 0.6 to 1.6 s of CPU in which a deadline may pass.

It runs in a daemon thread of its own, which an abandoned import goes on in; the process need not wait for it
(`cli.main` ends without it). Which modules a dialect needs is a table here, because this happens before the dialect is
called for the first time. Trade-off: the thread shares the interpreter, so what goes on meanwhile is slower.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module

from msgspec import Struct

from xscore.platform.errors import UsageError
from xscore.providers.provider import Provider
from xscore.settings import Settings

ENTRY_POINT_GROUP = "xscore.providers"
BUILT_IN = {
    "anthropic": "xscore.providers.anthropic:connect",
    "openai": "xscore.providers.openai:connect",
    "scripted": "xscore.providers.scripted:connect",
}
"""Same names and places as the package's own entry points."""
LEXICAL = "lexical"
"""The judge without a model; needs no provider."""

Connect = Callable[[str, Settings], Provider]


class ModelSpec(Struct, frozen=True):
    """A provider and one of its models."""

    provider: str
    model: str
    """Empty for `lexical`; a file for `scripted`."""

    def __str__(self) -> str:
        return f"{self.provider}:{self.model}" if self.model else self.provider


def parse_model_spec(text: str) -> ModelSpec:
    """Read `provider:model`, or `lexical`; the model may contain colons.

    Raises UsageError for an unknown provider or a missing model.
    """
    provider, colon, model = text.strip().partition(":")
    if provider == LEXICAL and not model:
        return ModelSpec(LEXICAL, "")
    if not colon:
        raise UsageError(
            f"`{text}` names no provider", hint=f"Write provider:model, such as openai:{text or 'MODEL'}, or lexical."
        )
    if provider not in BUILT_IN and provider not in _installed():
        known = ", ".join(sorted({*BUILT_IN, *_installed(), LEXICAL}))
        raise UsageError(f"there is no provider `{provider}`", hint=f"Known: {known}.")
    if not model:
        raise UsageError(f"`{text}` names no model", hint=f"Write {provider}:MODEL.")
    return ModelSpec(provider, model)


def connect_provider(spec: ModelSpec, settings: Settings) -> Provider:
    """Return the provider of this spec; nothing is sent yet.

    Raises UsageError or AuthenticationFailed where the settings do not suffice.
    """
    if spec.provider in BUILT_IN:
        module, _, function = BUILT_IN[spec.provider].partition(":")
        ours: Connect = getattr(import_module(module), function)
        return ours(spec.model, settings)
    found = _installed().get(spec.provider)
    if found is None:
        raise UsageError(f"`{spec}` is not a model behind a provider", hint="Write provider:model.")
    return found()(spec.model, settings)


def _installed() -> dict[str, Callable[[], Connect]]:
    from importlib.metadata import entry_points

    return {entry.name: entry.load for entry in entry_points(group=ENTRY_POINT_GROUP)}


SDKS: dict[str, tuple[str, ...]] = {
    "anthropic": ("aiohttp", "httpx2", "anthropic"),
    "openai": ("aiohttp", "httpx2", "openai"),
}
"""What the first call of our dialects imports."""
_finished: set[str] = set()
"""Dialects whose import is over; what is in `sys.modules` may still be half made."""


async def import_sdk(dialect: str) -> None:
    """Have the modules of this dialect imported; at once where they are, or where it is none of ours.

    Cancelling it leaves the import to itself. Raises what the import raises.
    """
    if dialect not in SDKS or dialect in _finished:
        return
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def tell(error: ImportError | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    def work() -> None:
        failed: ImportError | None = None
        try:
            for name in SDKS[dialect]:
                import_module(name)
            _finished.add(dialect)
        except ImportError as error:
            failed = error
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(tell, failed)

    threading.Thread(target=work, name=f"import {dialect}", daemon=True).start()
    await done
