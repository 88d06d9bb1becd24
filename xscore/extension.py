"""The single point where the core meets its extensions.

The core asks `implementations(hook, settings)` and imports no extension itself. `HOOKS` lists each
extension with the setting that turns it on; it is imported when a turn first uses it. Commands of
extensions are listed by name in `cli.main`.

What other packages offer is an entry point of the group `xscore.KIND`: providers, boosters,
embedders, languages, sources. It is searched for and imported only if the user's settings name it.
Trade-off: hooks and plugins are looked up by name, so their types are stated in words and checked
where they are called.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from xscore.platform.errors import UsageError, XscoreError
from xscore.platform.text import one_line

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from xscore.settings import Settings


class Hook(NamedTuple):
    """What an extension implements, and when it is used."""

    target: str
    """`module:function`."""
    is_on: "Callable[[Settings], bool]" = lambda _: True


def _shares(settings: "Settings") -> bool:
    return bool(settings.shared.url.reveal()) or settings.shared.require


def _embeds(settings: "Settings") -> bool:
    return settings.embedding.model.strip() != "terms"


_VECTORS = "xscore.extensions.vectors.turn_likeness"

HOOKS: Mapping[str, list[Hook]] = {
    # (settings.shared) -> str, the server and tenant that judgments are shared through
    "shared_server_name": [Hook("xscore.extensions.shared.connect:shared_server_name", _shares)],
    # (settings.shared, requests: server name -> `ErasureRequest`, verify=) -> awaitable list of
    # `ServerErasure`
    "erase_shared": [Hook("xscore.extensions.shared.connect:erase_shared")],
    # (settings, judgments=, budget=, note=, clock=) -> async context of
    # `pipeline.resources.SpendingStores`
    "shared_resources": [Hook("xscore.extensions.shared.connect:open_shared_resources", _shares)],
    # (turn, settings, store=, resources=) -> awaitable `pipeline.likeness.Likeness`, which orders
    # the judging
    "likeness": [Hook(f"{_VECTORS}:turn_likeness", _embeds)],
    # (settings, store=, resources=) -> awaitable warning, after the index was brought up to date
    "after_index": [
        Hook(
            "xscore.extensions.sources:read_sources",
            lambda settings: bool(settings.plugins.enabled),
        ),
        Hook(f"{_VECTORS}:embed_all", _embeds),
    ],
    # (settings) -> awaitable sequence of `DoctorFinding`
    "doctor_findings": [
        Hook(f"{_VECTORS}:check_embedder", _embeds),
        Hook("xscore.extensions.shared.connect:check_shared_server", _shares),
    ],
    # (root of a project) -> iterable of str, what its files set for agents that would redirect
    # xscore
    "environment_warnings": [
        Hook("xscore.extensions.agents.planted_environment:environment_warnings")
    ],
    # (store, path of an agent's log, origin=, thread=, now=) -> str, why it could not be read;
    # empty: it was
    "import_session": [Hook("xscore.extensions.sessions.importing:import_session")],
    # (store, asked, answered, origin=, session=, thread=, now=) -> None, the exchange of a message
    # is remembered
    "remember_exchange": [Hook("xscore.extensions.sessions.importing:remember_exchange")],
    # (path of a store, connection to another, keys) -> None, the rows of the first are in the
    # second as well
    "merge_store": [Hook("xscore.extensions.recovery.salvage:merge_store")],
    # (store, memory ids, now=) -> `Erasure`, whose `missing` names the ids that were not there
    "forget": [Hook("xscore.extensions.privacy.erasure:erase_memories")],
    # a `scorer.prompt_builder.PromptLayout` in which several questions share a prompt
    "shared_prompt_layout": [Hook("xscore.extensions.batch.shared_prompts:QUESTIONS_LAYOUT")],
    # () -> `pipeline.parts.TurnListener`
    "turn_listener": [
        Hook("xscore.extensions.telemetry.notify:otlp_listener", lambda s: s.telemetry.otel)
    ],
    # (connection, cited memory ids, amounts=, now=), in the transaction that is open
    "memories_cited": [Hook("xscore.extensions.learning.feedback:record_adoptions")],
    # (connection, content hashes, `LineMatcher`) -> counts by field of `Erasure`, in the
    # transaction that is open
    "erase": [Hook("xscore.extensions.batch.job_rows:erase_from_jobs")],
    # (connection, name) -> `Checkpoint`; raises NothingMatched
    "load_checkpoint": [Hook("xscore.extensions.exchange.checkpoints:load_checkpoint")],
}


ENABLED_SETTING = "plugins.enabled"
ENABLED_KINDS = ("boosters", "languages", "sources")
"""Kinds that this setting names; providers and embedders are named as part of a model."""
PLUGIN_KINDS = (*ENABLED_KINDS, "providers", "embedders")


def implementations(hook: str, settings: "Settings") -> list[Any]:
    """Import and return the implementations of a hook that these settings turn on, in table
    order."""
    return [load(one.target) for one in HOOKS[hook] if one.is_on(settings)]


def is_used(hook: str, settings: "Settings") -> bool:
    """Return whether these settings turn on an implementation of a hook."""
    return any(implementation.is_on(settings) for implementation in HOOKS[hook])


def load(target: str) -> Any:
    """Import `module:name`."""
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)


def installed() -> "dict[str, dict[str, EntryPoint]]":
    """Return what installed packages offer, by kind and name; the search takes 0.04 s.

    The current folder does not count, even where Python imports from it: it may be a clone.
    """
    from importlib.metadata import distributions

    places = [place for place in sys.path if place and Path(place).resolve() != Path.cwd()]
    found: dict[str, dict[str, EntryPoint]] = {kind: {} for kind in PLUGIN_KINDS}
    for package in distributions(path=places):
        for one in package.entry_points:
            found.get(one.group.removeprefix("xscore."), {})[one.name] = one
    return found


def load_plugin(kind: str, name: str, *, setting: str) -> Any:
    """Import what a setting names.

    Raises UsageError where no package offers it, or its import fails.
    """
    offered = installed()[kind]
    if name not in offered:
        raise UsageError(
            f"{setting}: no package offers `{name}` (`xscore.{kind}`)", hint=_known(offered)
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
    every = installed()
    offered = {name: one for kind in ENABLED_KINDS for name, one in every[kind].items()}
    for name in names:
        if name not in offered:
            raise UsageError(
                f"plugins.enabled names `{name}`, which no package offers", hint=_known(offered)
            )
    return {
        name: _import(every[kind][name], ENABLED_SETTING) for name in names if name in every[kind]
    }


def _known(offered: "Mapping[str, EntryPoint]") -> str:
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
        said = one_line(f"the plugin {plugin} failed: {type(failed).__name__}: {failed}")
        raise error(said, hint=f"Report it to its author, or remove it from {setting}.") from failed
