"""The single point where settings add to the core: hooks for our extensions, plugins of others.

A hook is a place in the core that calls functions of extensions, those that the settings turn
on. The module that calls them declares it, with the type that all its functions have, where
each is and when it is on:

    AFTER_INDEX: Hook[FinishIndex] = Hook(
        Choice("xscore.extensions.sources:read_sources", lambda settings: ...)
    )
    for finish in AFTER_INDEX.implementations(settings): ...

The core names an extension's function only in such a text, and imports it when it is about to call
it. The function says `@implements(AFTER_INDEX)`, so that mypy checks it against `FinishIndex`, as
it checks the call. Where settings choose nothing, the core imports an extension's function in the
place that needs it; import-linter's first contract (pyproject.toml) lists those places. Commands of
extensions are listed by name in `cli.main`.

What other packages offer is an entry point of the group `xscore.KIND`: providers, boosters,
embedders, languages, searches, sources. It is searched for and imported only if the user's
settings name it.
Trade-off: plugins are looked up by name, so their types are checked where they are called.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from xscore.platform.errors import UsageError, XscoreError
from xscore.platform.text import one_line

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from xscore.settings import Settings

Function = TypeVar("Function")
"""The type that all functions of a hook have: a Protocol with `__call__`, or a Callable."""


class Choice(NamedTuple):
    """A function of an extension, and the settings under which it is called."""

    place: str
    """Where the function is: `module:function`."""
    is_on: "Callable[[Settings], bool]"

    def load(self) -> Any:
        """Import the function."""
        module, _, name = self.place.partition(":")
        return getattr(import_module(module), name)


class Hook(Generic[Function]):
    """The functions of extensions that one place in the core may call."""

    def __init__(self, *choices: Choice) -> None:
        self.choices = choices

    def implementations(self, settings: "Settings") -> list[Function]:
        """Import and return the functions that these settings turn on, in order."""
        return [choice.load() for choice in self.choices if choice.is_on(settings)]


def implements(_hook: Hook[Function]) -> Callable[[Function], Function]:
    """Register a function with this hook; mypy checks that it has the hook's type."""
    return lambda function: function


ENABLED_SETTING = "plugins.enabled"
ENABLED_KINDS = ("boosters", "languages", "searches", "sources")
"""Kinds that this setting names; providers and embedders are named as part of a model."""
PLUGIN_KINDS = (*ENABLED_KINDS, "providers", "embedders")


def installed() -> "dict[str, dict[str, EntryPoint]]":
    """Return what installed packages offer, by kind and name; the search takes 0.04 s.

    The current folder does not count, even where Python imports from it: it may be a clone.
    """
    from importlib.metadata import distributions  # few settings name a plugin

    places = [place for place in sys.path if place and Path(place).resolve() != Path.cwd()]
    plugins: dict[str, dict[str, EntryPoint]] = {kind: {} for kind in PLUGIN_KINDS}
    for package in distributions(path=places):
        for entry_point in package.entry_points:
            kind = entry_point.group.removeprefix("xscore.")
            if kind in plugins:
                plugins[kind][entry_point.name] = entry_point
    return plugins


def load_plugin(kind: str, name: str, *, setting: str) -> Any:
    """Import what a setting names.

    Raises UsageError where no package offers it, or its import fails.
    """
    offered = installed()[kind]
    if name not in offered:
        raise UsageError(
            f"{setting}: no package offers `{name}` (`xscore.{kind}`)", hint=_name_all(offered)
        )
    return _import(offered[name], setting)


def _import(plugin: "EntryPoint", setting: str) -> Any:
    with plugin_errors(f"{plugin.name} ({plugin.value})", setting=setting):
        return plugin.load()


def enabled_plugins(kind: str, settings: "Settings") -> dict[str, Any]:
    """Import the plugins of this kind that `plugins.enabled` names.

    Raises UsageError for an unknown or failing one.
    """
    names = settings.plugins.enabled
    if not names:
        return {}
    by_kind = installed()
    offered: dict[str, EntryPoint] = {}
    for enabled_kind in ENABLED_KINDS:
        offered.update(by_kind[enabled_kind])
    for name in names:
        if name not in offered:
            raise UsageError(
                f"plugins.enabled names `{name}`, which no package offers",
                hint=_name_all(offered),
            )
    plugins = by_kind[kind]
    return {name: _import(plugins[name], ENABLED_SETTING) for name in names if name in plugins}


def _name_all(offered: "Mapping[str, EntryPoint]") -> str:
    return f"Installed: {', '.join(sorted(offered)) or 'none'}."


@contextmanager
def plugin_errors(
    plugin: str, *, setting: str, error: type[XscoreError] = UsageError
) -> Iterator[None]:
    """Turn what another package's code raises into `error`, which names the plugin; errors of ours
    pass unchanged."""
    try:
        yield
    except XscoreError:
        raise
    except Exception as failed:  # the edge to code that is not ours
        message = one_line(f"the plugin {plugin} failed: {type(failed).__name__}: {failed}")
        raise error(
            message, hint=f"Report it to its author, or remove it from {setting}."
        ) from failed
