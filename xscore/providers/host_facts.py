"""What is read of every reply, whatever the dialect: its JSON, and the numbers that a host states. Pure.

It trusts nothing: HTML at 200, JSON made to break its reader, and counts that cannot be are all met in the field. It
names no field; a dialect knows its own. The trade-off: a number that makes no sense counts as not stated.

Whether a host read the whole prompt: its count of tokens against the text that was sent. Pure.

Servers cut in silence what their loaded context does not hold (Ollama past `num_ctx`, LM Studio in the middle), and a
judgment of memories that the model never saw is worse than none. Two signs: a context that is full to the brim, where
it is known; and text that would need more characters a token than text has, as a whole or beyond the shortest prompt
of this host, whose count holds the host's own additions. The ratio learned from a host's usage makes that stricter,
never laxer, because a host that cuts teaches a wrong one. Trade-off: where the context is not known, a cut of less
than a third goes unseen.

How many tokens a host's model holds at once, out of what hosts tell of their models. Pure.

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

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from xscore.platform.tokens import MIXED, size
from xscore.providers.wire_errors import DialectProfile
from xscore.records import Request, Usage

OUTPUT_CHARS_PER_TOKEN = 4
MAX_COUNT = 1_000_000_000_000
"""A count above this counts nothing, and would not fit into the ledger."""
UNIT_S = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 0.001, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
"""As Go writes durations, and after it the hosts."""
MAX_DURATION_CHARS = 32

_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|us|µs|ns|[dhms])")
_TIME = re.compile(rf"(?:{_PART.pattern})+")


def json_object(
    data: bytes, headers: Mapping[str, str], *, words: DialectProfile, host: str, model: str
) -> dict[str, Any]:
    """Return the JSON object of a 200 reply, or raise UnreadableResponse without showing the body."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        kind = headers.get("content-type", "").split(";", maxsplit=1)[0].strip() or "no content type"
        what = f"{len(data)} bytes of {kind} that are not JSON"
        raise words.unreadable(what, host=host, model=model) from error
    if not isinstance(found, dict):
        raise words.unreadable(f"a JSON {type(found).__name__} where an object belongs", host=host, model=model)
    return found


def token_count(value: object) -> int | None:
    """Return a number of tokens; None for what cannot be one."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT else None


def header_count(value: str | None) -> int | None:
    """Return a limit stated in a header; None for what cannot be one."""
    return int(value) if value and len(value) <= len(str(MAX_COUNT)) and value.isdecimal() and int(value) > 0 else None


def duration_s(value: str | None) -> float | None:
    """Return a time stated as `6m0s`, `2m59.56s` or `120ms`; None for all else, such as a date or bare number."""
    if not value or len(value) > MAX_DURATION_CHARS or not _TIME.fullmatch(value):
        return None
    return sum(float(number) * UNIT_S[unit] for number, unit in _PART.findall(value))


def sub_object(found: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the object under this name, empty where there is none."""
    inner = found.get(name)
    return inner if isinstance(inner, Mapping) else {}


def estimated_usage(request: Request, text: str) -> Usage:
    """Return our estimate of a call whose host reports no usage."""
    return Usage(input_tokens=request.input_tokens, output_tokens=-(-len(text) // OUTPUT_CHARS_PER_TOKEN))


MIN_SEEN_SHARE = 0.65
"""Share of the estimate that a whole prompt counts at least. Single texts are off by 11–23 %, and a large vocabulary
counts a tenth fewer tokens than the one estimates are made by; a prompt of many texts is off by less."""
MIN_CHECKED_TOKENS = 400
"""Shorter text fits every context, and its estimate is the worst."""
FULL_CONTEXT_MARGIN_TOKENS = 8
"""A prompt that leaves no more of the context than this was cut to it: it leaves no room for a reply."""

_RUN = re.compile(r"(.)\1{3,}", re.DOTALL)
"""Runs of one character, such as rules and indentation, are a token or two however long they are."""
_INDENTATION = (" " * 16, " " * 8, " " * 4)
"""What most runs are; replacing them takes a tenth of the time that looking for every run does."""


class PromptCount(Struct, frozen=True):
    """A prompt that a host read: what was sent, and what it counted."""

    chars: int
    tokens: int


def count_prompt(request: Request, tokens: int) -> PromptCount:
    """Measure a prompt of which the host counted so many tokens."""
    return PromptCount(size(request.system, *request.content), tokens)


def is_prompt_cut(
    request: Request, found: PromptCount, *, context_tokens: int | None = None, shortest: PromptCount | None = None
) -> bool:
    """Whether the host has cut this request. shortest: the shortest prompt that it has read; None: not known."""
    if found.chars / MIXED < MIN_CHECKED_TOKENS:
        return False
    if context_tokens is not None and found.tokens >= context_tokens - FULL_CONTEXT_MARGIN_TOKENS:
        return True
    ratio = min(MIXED, found.chars / max(1, request.input_tokens))
    if not _is_too_dense(found, ratio, shortest):
        return False
    texts = (request.system, *request.content)
    for indentation in _INDENTATION:
        texts = tuple(text.replace(indentation, "   ") for text in texts)
    if not _is_too_dense(PromptCount(size(*texts), found.tokens), ratio, shortest):
        return False
    packed = size(*(_RUN.sub(r"\1\1\1", text) for text in texts))
    return _is_too_dense(PromptCount(packed, found.tokens), ratio, shortest)


def _is_too_dense(found: PromptCount, ratio: float, shortest: PromptCount | None) -> bool:
    """Whether so few tokens cannot hold so many characters, at this many characters a token and some grace."""
    most = ratio / MIN_SEEN_SHARE
    if found.chars > most * found.tokens:
        return True
    if shortest is None:
        return False
    more, counted = found.chars - shortest.chars, found.tokens - shortest.tokens
    return more / MIXED >= MIN_CHECKED_TOKENS and more > most * counted


LOCAL_PATHS = ("/props", "/api/ps", "/api/v1/models", "/api/v0/models")
"""Where servers on this machine or network tell what they have loaded, beside `/v1`."""
SERVED_FIELDS = (
    "loaded_context_length",
    "max_model_len",
    "context_length",
    "context_window",
    "inputTokenLimit",
    "n_ctx",
)
TRAINED_FIELDS = ("max_context_length", "n_ctx_train")
NESTED_FIELDS = ("meta", "top_provider", "config")
"""Parts of an entry that hold such numbers as well."""
MIN_CONTEXT, MAX_CONTEXT = 128, 1_000_000_000


def listed_model_names(listing: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the models in a listing, as the host writes them."""
    return tuple(str(entry["id"]) for entry in _entries(listing) if "id" in entry)


def is_model_listed(model: str, listed: tuple[str, ...]) -> bool:
    """Whether one of these names means this model: `models/gemini-3` is `gemini-3`, `llama3.2:latest` is `llama3.2`."""
    return any(_plain(name) == _plain(model) for name in listed)


def served_context(listing: Mapping[str, Any], model: str) -> int | None:
    """Return the context that the host serves the model with; None: it does not tell."""
    return _least(_entry(listing, model), SERVED_FIELDS)


def trained_context(listing: Mapping[str, Any], model: str) -> int | None:
    """Return the context that the model was made for, which may be more than is served."""
    return _least(_entry(listing, model), TRAINED_FIELDS)


def loaded_context(told: Mapping[str, Any], model: str) -> int | None:
    """Return the context that a server has loaded the model with, from one of `LOCAL_PATHS`."""
    defaults = told.get("default_generation_settings")
    if isinstance(defaults, Mapping):
        return _count(defaults.get("n_ctx"))
    return served_context(told, model)


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
            yield from (part for name in NESTED_FIELDS if isinstance(part := whole.get(name), Mapping))


def _count(value: object) -> int | None:
    return (
        value
        if isinstance(value, int) and not isinstance(value, bool) and MIN_CONTEXT <= value <= MAX_CONTEXT
        else None
    )


def _plain(name: str) -> str:
    return name.lower().removeprefix("models/").removesuffix(":latest")
