"""`provider:model` or a bare model name, the provider behind it, and the import of the HTTP client.

Our own providers are found by name; others through entry points of group `xscore.providers`,
functions that take (model, settings) and return a Provider. Installed packages are searched only
for names that are not ours. The HTTP client takes 0.2 s of CPU to import, so that is done in a
daemon thread that need not be joined. Trade-off: the thread shares the interpreter, so other work
is slower meanwhile.
"""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from msgspec import Struct

from xscore.extension import installed, load_plugin, plugin_errors
from xscore.platform.errors import RequestRejected, UsageError
from xscore.platform.hashing import file_digest
from xscore.providers.catalog import vendor_by_family
from xscore.providers.decision_hosts import (
    CHAT_OF_OPENAI,
    DECISION_HOSTS,
    base_url_setting,
    decision_access,
)
from xscore.providers.hosts import host_of, usable_key, vendor_access
from xscore.providers.provider import OnText, Provider, ProviderWrapper
from xscore.records.calls import Completion, Request
from xscore.settings import HostAccess, Settings
from xscore.settings.load import VENDORS

_MODEL_SETTINGS = "judge.model or primary.model"
"""Where another package's model is named, in the words of messages."""
BUILT_IN = {name: f"xscore.providers.{name}:connect" for name in (*VENDORS, "scripted")}
"""Our own providers, with the names and places of the package's entry points."""
BY_HTTP = (*VENDORS, *DECISION_HOSTS)
"""Our own providers that call a host."""
HTTP_CLIENT = "aiohttp"
"""The module that their first call imports."""
LEXICAL = "lexical"
"""The judge without a model; needs no provider."""
CHAT_MODEL_HINT = "Name a chat model, or `none`."
"""The hint of a setting that names a chat model."""

FILE_HEAD_BYTES = 1 << 20
"""How much of a file is read: all of a script; of a model its name, layers and vocabulary."""

Connect = Callable[[str, Settings], Provider]

_finished: set[str] = set()
"""Modules whose import is over; what is in `sys.modules` may still be half made."""


class ModelSpec(Struct, frozen=True):
    """A provider and one of its models."""

    provider: str
    model: str
    """Name of the model; empty for `lexical`; a file for `scripted`."""

    @property
    def is_decision(self) -> bool:
        """Whether it is a decision model: asked for probabilities, in requests without packs."""
        return self.provider in DECISION_HOSTS

    def __str__(self) -> str:
        if self.model:
            return f"{self.provider}:{self.model}"
        return self.provider


def parse_model_spec(text: str) -> ModelSpec:
    """Read `provider:model`, `lexical`, or a bare name: that of a model that tells its
    provider, or of a decision vendor.

    After `provider:` may be colons. A decision vendor alone means its pinned model.
    Raises UsageError for an unknown provider or a missing model.
    """
    provider, colon, model = text.strip().partition(":")
    if provider == LEXICAL and not model:
        return ModelSpec(LEXICAL, "")
    declared = DECISION_HOSTS.get(provider)
    if not colon and declared is not None and declared.model:
        return ModelSpec(provider, declared.model)
    if not colon and provider not in BUILT_IN and (vendor := _vendor_of(provider)):
        return ModelSpec(vendor, provider)
    if not colon:
        hint = "Write provider:model, such as openai:gpt-6-luna, or lexical."
        raise UsageError(f"`{text}` is not a known model", hint=hint)
    known_here = {*BUILT_IN, *DECISION_HOSTS, CHAT_OF_OPENAI}
    if provider not in known_here and provider not in (plugins := installed()["providers"]):
        names = ", ".join(sorted({*known_here, *plugins, LEXICAL}))
        raise UsageError(f"there is no provider `{provider}`", hint=f"Known: {names}.")
    if not model:
        raise UsageError(f"`{text}` names no model", hint=f"Write {provider}:MODEL.")
    return ModelSpec(provider, model)


def parse_chat_model(text: str, *, key: str, hint: str) -> ModelSpec:
    """Read the chat model that a setting names.

    key: name of the setting. hint: what to do if it names no chat model.
    Raises UsageError for a judge that answers no prompt, and as `parse_model_spec` does.
    """
    spec = parse_model_spec(text)
    if spec.provider == CHAT_OF_OPENAI:
        return ModelSpec("openai", spec.model)
    if spec.is_decision or spec.provider == LEXICAL:
        raise UsageError(f"{key}: `{text}` is not a chat model", hint=hint)
    return spec


def _vendor_of(model: str) -> str:
    """Return the provider of ours that sells this model; empty where neither its family nor the
    price table tells."""
    if vendor := vendor_by_family(model):
        return vendor
    from xscore.providers.prices import vendor_by_price_table  # most names tell their vendor

    sold_by = ""
    if model:
        sold_by = vendor_by_price_table(model)
    if sold_by in BY_HTTP:
        return sold_by
    return ""


def model_name(spec: ModelSpec) -> str:
    """Name the model; a file's name includes a digest of its content, so that another file is
    another judge."""
    if spec.provider not in ("llama", "scripted"):
        return spec.model
    with Path(spec.model).expanduser().open("rb") as file:
        return f"{spec.model}@{file_digest(file.read(FILE_HEAD_BYTES))[:8]}"


def connect_provider(spec: ModelSpec, settings: Settings) -> Provider:
    """Return the provider of this spec; nothing is sent yet.

    Raises UsageError or AuthenticationFailed where the settings do not suffice.
    """
    if spec.provider in BUILT_IN or spec.provider == "llama":
        connect: Connect = import_module(f"xscore.providers.{spec.provider}").connect
        return connect(spec.model, settings)
    if spec.is_decision:
        from xscore.providers.decisions import DecisionProvider  # only for a decision model

        return DecisionProvider(spec.provider, spec.model, settings)
    if spec.provider == LEXICAL:
        raise UsageError(
            f"`{spec}` is not a model behind a provider", hint="Write provider:model."
        )
    connect = load_plugin("providers", spec.provider, setting=_MODEL_SETTINGS)
    with plugin_errors(spec.provider, setting=_MODEL_SETTINGS):
        return PluginProvider(connect(spec.model, settings))


class PluginProvider(ProviderWrapper):
    """A provider of another package: what it raises other than ProviderError fails the one
    call, and says who it was."""

    async def complete(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Make one attempt."""
        with plugin_errors(self.name, setting=_MODEL_SETTINGS, error=RequestRejected):
            return await self.provider.complete(request, on_text)


def host_with_key(spec: ModelSpec, settings: Settings) -> str:
    """Return the host of this model once its settings and key suffice; loads no vendor's module.

    Raises what `connect_provider` raises.
    """
    access = host_access(spec.provider, settings)
    if access is None:
        return connect_provider(spec, settings).host
    setting = (
        base_url_setting(spec.provider) if spec.is_decision else f"{spec.provider}.base_url"
    )
    host = host_of(access.base_url, setting=setting)
    usable_key(access, host=host, model=spec.model)
    return host


def host_access(provider: str, settings: Settings) -> HostAccess | None:
    """Return base URL and key of one of our vendors or decision hosts; None: another manages its
    own."""
    if provider in DECISION_HOSTS and provider != "llama":
        return decision_access(provider, settings)
    name = "openai" if provider == CHAT_OF_OPENAI else provider
    if name in VENDORS:
        return vendor_access(settings, name)
    return None


async def import_http_client(provider: str) -> None:
    """Import in a thread what calls need; return at once where it is there, or the provider is not
    ours.

    Cancelling it leaves the import running. Raises what the import raises.
    """
    if provider not in BY_HTTP or HTTP_CLIENT in _finished:
        return
    from xscore.providers.import_thread import import_in_thread  # most turns make no call

    await import_in_thread(HTTP_CLIENT)
    _finished.add(HTTP_CLIENT)
