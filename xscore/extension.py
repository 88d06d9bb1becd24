"""The one place where the core meets its extensions.

The core asks `implementations(hook, settings)` and imports no extension itself. `HOOKS` lists each extension with
the setting that turns it on; it is imported when a turn first uses it. `register` adds one at run time.
Commands of extensions are listed by name in `cli.catalogue`. Trade-off: hooks are looked up by name, so their types are
stated here, in words, and checked where they are called.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
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
    # (settings.shared, requests: server name -> `ErasureRequest`, verify=) -> awaitable list of `ServerErasure`
    "erase_shared": [Hook("xscore.extensions.shared.connect:erase_shared")],
    # (settings, judgments=, budget=, note=, clock=) -> async context of `pipeline.resources.SpendingStores`
    "shared_resources": [Hook("xscore.extensions.shared.connect:open_shared_resources", _shares)],
    # (turn, settings, store=, resources=) -> awaitable `pipeline.parts.Likeness`, which orders the judging
    "likeness": [Hook(f"{_VECTORS}:turn_likeness", _embeds)],
    # (settings) -> str, which becomes part of the lexical judge's identity
    "embedder_label": [Hook(f"{_VECTORS}:embedder_label", _embeds)],
    # (settings, store=, resources=) -> awaitable warning, after the index was brought up to date
    "after_index": [Hook(f"{_VECTORS}:embed_all", _embeds)],
    # (settings) -> awaitable sequence of `DoctorFinding`
    "doctor_findings": [
        Hook(f"{_VECTORS}:check_embedder", _embeds),
        Hook("xscore.extensions.shared.connect:check_shared_server", _shares),
    ],
    # (store, path of an agent's log, origin=, thread=, now=) -> str, why it could not be read; empty: it was
    "import_session": [Hook("xscore.extensions.sessions.importing:import_session")],
    # a `scorer.drafts.PromptLayout` in which several questions share a prompt
    "shared_prompt_layout": [Hook("xscore.extensions.batch.shared_prompts:QUESTIONS_LAYOUT")],
    # () -> `pipeline.parts.TurnListener`
    "turn_listener": [Hook("xscore.extensions.telemetry.notify:otlp_listener", lambda s: s.telemetry.otel)],
    # (connection, cited memory ids, amounts=, now=), in the transaction that is open
    "memories_cited": [Hook("xscore.extensions.learning.feedback:record_adoptions")],
    # (connection, content hashes, `LineMatcher`) -> counts by field of `Erasure`, in the transaction that is open
    "erase": [Hook("xscore.extensions.batch.job_rows:erase_from_jobs")],
    # (connection, name) -> `Checkpoint`; raises NothingMatched
    "load_checkpoint": [Hook("xscore.extensions.exchange.checkpoints:load_checkpoint")],
}


def register(hook: str, target: str) -> None:
    """Add an implementation (`module:function`) of a hook.

    Every `doctor_findings`, `after_index`, `memories_cited` and `erase` is called, in this order; of the others one.
    """
    HOOKS[hook].append(Hook(target))


def implementations(hook: str, settings: "Settings") -> list[Any]:
    """Import and return the implementations of a hook that these settings turn on, in table order."""
    return [load(one.target) for one in HOOKS[hook] if one.is_on(settings)]


def load(target: str) -> Any:
    """Import `module:name`."""
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)
