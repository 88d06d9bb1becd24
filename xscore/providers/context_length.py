"""How many tokens a host's model holds at once, out of what hosts tell of their models. Pure.

Every server tells it in a place of its own; what a server has loaded counts before what its model was trained for.
Nothing here is trusted: a number that is none, or none that a context could have, is silence. Sources, November 2026:

- vLLM: `max_model_len` of an entry of `GET /v1/models`.
- OpenRouter: `context_length`, and that of `top_provider` (openrouter.ai/docs/models); Groq: `context_window`.
- llama.cpp: `meta.n_ctx` and `meta.n_ctx_train` of its entry, and `default_generation_settings.n_ctx` of `GET /props`
  (tools/server/README.md; seen of build 11549).
- Ollama: `context_length` of a loaded model in `GET /api/ps` (docs/api.md): its OpenAI dialect says nothing of it.
- LM Studio: `loaded_context_length` and `max_context_length` of `GET /api/v0/models`, and since 0.4
  `loaded_instances[].config.context_length` of `GET /api/v1/models` (lmstudio.ai/docs/developer/rest).
- Google: its native API names `inputTokenLimit`; its OpenAI dialect tells only the names.

Trade-off: a server that is none of these tells nothing, and then the catalogue's cautious length holds.
"""

from collections.abc import Iterator, Mapping
from typing import Any

LOCAL_PATHS = ("/props", "/api/ps", "/api/v1/models", "/api/v0/models")
"""Where servers on this machine or network tell what they have loaded, beside `/v1`."""
SERVED = ("loaded_context_length", "max_model_len", "context_length", "context_window", "inputTokenLimit", "n_ctx")
TRAINED = ("max_context_length", "n_ctx_train")
WITHIN = ("meta", "top_provider", "config")
"""Parts of an entry that hold such numbers as well."""
LEAST, MOST = 128, 1_000_000_000


def names(listing: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the models in a listing, as the host writes them."""
    return tuple(str(entry["id"]) for entry in _entries(listing) if "id" in entry)


def is_listed(model: str, listed: tuple[str, ...]) -> bool:
    """Whether one of these names means this model: `models/gemini-3` is `gemini-3`, `llama3.2:latest` is `llama3.2`."""
    return any(_plain(name) == _plain(model) for name in listed)


def served(listing: Mapping[str, Any], model: str) -> int | None:
    """Return the context that the host serves the model with; None: it does not tell."""
    return _least(_entry(listing, model), SERVED)


def trained(listing: Mapping[str, Any], model: str) -> int | None:
    """Return the context that the model was made for, which may be more than is served."""
    return _least(_entry(listing, model), TRAINED)


def loaded(told: Mapping[str, Any], model: str) -> int | None:
    """Return the context that a server has loaded the model with, from one of `LOCAL_PATHS`."""
    defaults = told.get("default_generation_settings")
    if isinstance(defaults, Mapping):
        return _count(defaults.get("n_ctx"))
    return served(told, model)


def _entry(listing: Mapping[str, Any], model: str) -> Mapping[str, Any]:
    """Return the entry of a model; the only one there is, because llama.cpp takes any name for the model it has."""
    entries = list(_entries(listing))
    for entry in entries:
        called = (entry.get("id"), entry.get("model"), entry.get("key"), entry.get("name"))
        if any(isinstance(name, str) and _plain(name) == _plain(model) for name in called):
            return entry
    return entries[0] if len(entries) == 1 else {}


def _entries(listing: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for key in ("data", "models"):
        found = listing.get(key)
        if isinstance(found, list):
            yield from (entry for entry in found if isinstance(entry, Mapping))
            return


def _least(entry: Mapping[str, Any], fields: tuple[str, ...]) -> int | None:
    counts = [_count(part.get(field)) for part in _parts(entry) for field in fields]
    return min((count for count in counts if count is not None), default=None)


def _parts(entry: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Walk an entry, what it has loaded, and where those two keep their numbers."""
    instances = entry.get("loaded_instances")
    for whole in (entry, *(instances if isinstance(instances, list) else ())):
        if isinstance(whole, Mapping):
            yield whole
            yield from (part for name in WITHIN if isinstance(part := whole.get(name), Mapping))


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and LEAST <= value <= MOST else None


def _plain(name: str) -> str:
    return name.lower().removeprefix("models/").removesuffix(":latest")
