"""Read what every dialect's reply has: its JSON, the numbers a host states, and whether the host
read the whole prompt.

Servers cut silently what their loaded context does not hold (Ollama past `num_ctx`, LM Studio in
the middle). Two signs show it: a context full to the brim, where it is known, and text that would
need more characters a token than text has. Nothing a host states is trusted: a number that makes no
sense counts as not stated. Pure. Trade-off: where the context is not known, a cut of less than a
third goes unseen.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from xscore.platform.tokens import MIXED, size
from xscore.providers.hosts import is_loopback
from xscore.providers.wire_errors import CallContext, DialectProfile
from xscore.records.calls import Completion, Finish, RateLimits, Request, Usage

OUTPUT_CHARS_PER_TOKEN = 4
MAX_COUNT = 1_000_000_000_000
"""A higher count is invalid and would not fit into the ledger."""
UNSEEN_TOKENS = 32_768
"""Tokens that may be charged in addition to those we see, each way: a gateway's own prompt and
schema; thoughts beyond the cap."""
MIN_SEEN_SHARE = 0.65
"""Least share of the estimate that a host counts for a whole prompt. Single texts are off by
11–23 %, and a large vocabulary counts a tenth fewer tokens than the one estimates are made by;
a prompt of many texts is off by less."""
MIN_CHECKED_TOKENS = 400
"""Shortest text that is checked: a shorter one fits every context, and its estimate is the
worst."""
FULL_CONTEXT_MARGIN_TOKENS = 8
"""Tokens that a reply needs: a prompt that leaves no more of the context than this was cut to
it."""

LEAST_CONTEXT_TOKENS = 512
"""The shortest context that servers are run with, so a lower count is not of a prompt that was
cut to it."""
CACHED_PLACES = (
    ("prompt_tokens_details", "cached_tokens"),  # OpenAI's chat
    ("input_tokens_details", "cached_tokens"),  # OpenAI's responses and decisions
    ("", "cache_read_input_tokens"),  # Anthropic, and gateways before it
    ("", "prompt_cache_hit_tokens"),  # DeepSeek
    ("", "cached_tokens"),  # Moonshot
)
"""Where hosts say how many tokens of a prompt came from their cache: part of the usage (empty:
the usage itself), and name."""

LOCAL_PATHS = ("/props", "/api/ps", "/api/v1/models", "/api/v0/models")
"""Paths outside `/v1` where servers on this machine or network tell what they have loaded:
llama.cpp, Ollama, LM Studio."""
SERVED_FIELDS = (
    "loaded_context_length",  # LM Studio
    "max_model_len",  # vLLM
    "context_length",  # OpenRouter, Ollama, LM Studio since 0.4
    "context_window",  # Groq
    "inputTokenLimit",  # Google
    "n_ctx",  # llama.cpp
)
TRAINED_FIELDS = ("max_context_length", "n_ctx_train")
NESTED_FIELDS = ("meta", "top_provider", "config")
"""Parts of an entry that contain such numbers too."""
MIN_CONTEXT, MAX_CONTEXT = 128, 1_000_000_000


def json_object(
    data: bytes, headers: Mapping[str, str], profile: DialectProfile, call: CallContext
) -> dict[str, Any]:
    """Return the JSON object of a 200 reply, or raise UnreadableResponse without showing the
    body."""
    try:
        reply = json.loads(data)
    except (ValueError, RecursionError) as error:
        kind = (
            headers.get("content-type", "").split(";", maxsplit=1)[0].strip()
            or "no content type"
        )
        raise profile.unreadable(
            f"{len(data)} bytes of {kind} that are not JSON", call
        ) from error
    if not isinstance(reply, dict):
        raise profile.unreadable(f"a JSON {type(reply).__name__} where an object belongs", call)
    return reply


def make_completion(
    call: CallContext,
    text: str,
    finish: Finish,
    usage: Usage | None,
    *,
    model: str,
    limits: RateLimits,
) -> Completion:
    """Return a completion; usage is our estimate where the host reports none, or more than the call
    can have used."""
    request = call.request
    if usage is not None and request is not None:
        # It may be read once a question.
        times_read = 1
        if request.decision:
            times_read = max(1, len(request.reply_ids))
        prompt_bytes = size(*call.prompt) * times_read
        if is_excessive(
            usage, text, prompt_bytes=prompt_bytes, most_output=request.max_output_tokens
        ):
            usage = None
    input_tokens = 0
    if request:
        input_tokens = request.input_tokens
    # A decision model writes no text: `text` is our own JSON of its probabilities.
    output_tokens = estimated_output_tokens(text)
    if request is not None and request.decision is not None:
        output_tokens = 0
    estimate = Usage(input_tokens=input_tokens, output_tokens=output_tokens)
    return Completion(
        text=text,
        finish=finish,
        usage=usage or estimate,
        model=model,
        usage_reported=usage is not None,
        limits=limits,
    )


def estimated_output_tokens(text: str) -> int:
    """Estimate the tokens of a reply whose host reports none, or nonsense."""
    return -(-len(text) // OUTPUT_CHARS_PER_TOKEN)


def is_excessive(usage: Usage, text: str, *, prompt_bytes: int, most_output: int) -> bool:
    """Return whether it counts more than a token for each byte of the prompt, or more output than
    cap and text."""
    most_written = most_output + size(text) + UNSEEN_TOKENS
    return (
        usage.input_tokens > prompt_bytes + UNSEEN_TOKENS or usage.output_tokens > most_written
    )


def token_count(value: object, *, least: int = 0, highest: int = MAX_COUNT) -> int | None:
    """Return a number of tokens; None if invalid."""
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= highest:
        return value
    return None


def cached_count(usage: Mapping[str, Any]) -> int | None:
    """Return how many tokens the host's cache served, in whichever spelling it says so; None if it
    does not."""
    places = [sub_object(usage, part) if part else usage for part, _ in CACHED_PLACES]
    counts = []
    for place, (_, name) in zip(places, CACHED_PLACES, strict=True):
        counts.append(token_count(place.get(name)))
    return max((count for count in counts if count is not None), default=None)


def whole_input(stated: int, cached: int, *, expected: int = 0) -> int:
    """Return the tokens of a prompt whose host should count its cached ones too, and may not.

    expected: our estimate; 0: none. It decides where both readings are possible.
    """
    if cached > stated:
        return stated + cached
    least = MIN_SEEN_SHARE * expected
    highest = expected / MIN_SEEN_SHARE
    if stated < least <= stated + cached <= highest:
        return stated + cached
    return stated


def header_count(value: str | None) -> int | None:
    """Return a limit stated in a header; None if invalid or 0."""
    is_number = value is not None and len(value) <= len(str(MAX_COUNT)) and value.isdecimal()
    if value and is_number:
        return int(value) or None
    return None


def sub_object(parent: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the object under this name, empty where there is none."""
    inner = parent.get(name)
    if isinstance(inner, Mapping):
        return inner
    return {}


class PromptCount(Struct, frozen=True):
    """A prompt that a host read: what was sent, and what it counted."""

    chars: int
    tokens: int


def count_prompt(request: Request, tokens: int) -> PromptCount:
    """Measure a prompt for which the host counted this many tokens."""
    return PromptCount(size(request.system, *request.content), tokens)


def is_prompt_cut(
    request: Request,
    count: PromptCount,
    *,
    context_tokens: int | None = None,
    shortest: PromptCount | None = None,
) -> bool:
    """Whether the host has cut this request.

    shortest: the shortest prompt that it has read, whose count holds the host's own additions;
        None: not known.

    The ratio learned from a host's usage makes the check stricter, never laxer: a host that cuts
    teaches a wrong one.
    """
    if count.chars / MIXED < MIN_CHECKED_TOKENS:
        return False
    if (
        context_tokens is not None
        and count.tokens >= context_tokens - FULL_CONTEXT_MARGIN_TOKENS
    ):
        return True
    ratio = min(MIXED, count.chars / max(1, request.input_tokens))
    if not _is_too_dense(count, ratio, shortest):
        return False
    # Runs of one character (rules, indentation) are a token or two however long: measure again
    # without them.
    runs = re.compile(r"(.)\1{3,}", re.DOTALL)
    packed = size(*(runs.sub(r"\1\1\1", text) for text in (request.system, *request.content)))
    return _is_too_dense(PromptCount(packed, count.tokens), ratio, shortest)


def is_cache_uncounted(
    request: Request,
    completion: Completion,
    *,
    host: str,
    context_tokens: int | None,
    longest: int,
) -> bool:
    """Whether so few tokens mean that the host counts only what its cache did not serve: the prompt
    was read whole.

    For hosts that say nothing about their cache. Every id must be answered. A decoder held to a
    schema answers them all even of a cut prompt, so the prompt must also fit: into the context
    that is known, or by what the host has read before. Where neither is known, a host of this
    machine is suspected and one that sells tokens is not.
    longest: the most tokens that the host has counted for a prompt before; 0: none.
    """
    if completion.finish is not Finish.STOP or any(
        f'"{id_}":' not in completion.text for id_ in request.reply_ids
    ):
        return False
    if context_tokens is not None:
        return request.input_tokens + request.max_output_tokens <= context_tokens
    is_known_to_fit = request.input_tokens <= longest
    return (
        is_known_to_fit
        or completion.usage.input_tokens < LEAST_CONTEXT_TOKENS
        or not is_loopback(host)
    )


def _is_too_dense(count: PromptCount, ratio: float, shortest: PromptCount | None) -> bool:
    """Return whether these tokens are too few for the characters, in total or beyond the shortest
    prompt."""
    highest = ratio / MIN_SEEN_SHARE
    if count.chars > highest * count.tokens:
        return True
    if shortest is None:
        return False
    added_chars = count.chars - shortest.chars
    counted = count.tokens - shortest.tokens
    return added_chars / MIXED >= MIN_CHECKED_TOKENS and added_chars > highest * counted


def listed_model_names(listing: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the models in a listing, as the host writes them."""
    return tuple(str(entry["id"]) for entry in _entries(listing) if "id" in entry)


def is_model_listed(model: str, listed: tuple[str, ...]) -> bool:
    """Whether one of these names means this model: `models/gemini-3` is `gemini-3`,
    `llama3.2:latest` is `llama3.2`."""
    return any(_plain(name) == _plain(model) for name in listed)


def served_context(listing: Mapping[str, Any], model: str) -> int | None:
    """Return the context that the host serves the model with; None if it does not tell."""
    return _lowest_count(_entry(listing, model), SERVED_FIELDS)


def trained_context(listing: Mapping[str, Any], model: str) -> int | None:
    """Return the context that the model was made for, which may be more than is served."""
    return _lowest_count(_entry(listing, model), TRAINED_FIELDS)


def _entry(listing: Mapping[str, Any], model: str) -> Mapping[str, Any]:
    """Return the entry of a model; the only one there is, because llama.cpp takes any name for the
    model it has."""
    entries = list(_entries(listing))
    for entry in entries:
        names = (entry.get("id"), entry.get("model"), entry.get("key"), entry.get("name"))
        if any(isinstance(name, str) and _plain(name) == _plain(model) for name in names):
            return entry
    if len(entries) == 1:
        return entries[0]
    return {}


def _entries(listing: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if loaded := sub_object(listing, "default_generation_settings"):  # llama.cpp
        return [loaded]
    entries: list[object] = next(
        (listing[key] for key in ("data", "models") if isinstance(listing.get(key), list)), []
    )
    return [entry for entry in entries if isinstance(entry, Mapping)]


def _lowest_count(entry: Mapping[str, Any], fields: tuple[str, ...]) -> int | None:
    values: list[object] = []
    for part in _parts(entry):
        values += [part.get(field) for field in fields]
    counts = [token_count(value, least=MIN_CONTEXT, highest=MAX_CONTEXT) for value in values]
    return min((count for count in counts if count is not None), default=None)


def _parts(entry: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Walk an entry, what it has loaded, and where those two keep their numbers."""
    instances = entry.get("loaded_instances")
    for instance in (entry, *(instances if isinstance(instances, list) else ())):
        if isinstance(instance, Mapping):
            yield instance
            nested = [instance.get(name) for name in NESTED_FIELDS]
            yield from (part for part in nested if isinstance(part, Mapping))


def _plain(name: str) -> str:
    return name.lower().removeprefix("models/").removesuffix(":latest")
