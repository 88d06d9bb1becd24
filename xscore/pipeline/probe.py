"""Find out what a host can do, with a small call that contains no repository text.

Hosts that speak a vendor's dialect differ: some refuse a strict schema,
some accept it and answer prose, some report no usage. Reply forms are tried from the strictest, and
the first that gives readable scores for both memories is kept. A host that fails in every form is
asked once more: replies are drawn by chance, and one that came out badly must not end a turn.
Independent questions (decisions) add up over the tries. The vendor's own host is never probed. What
later replies show is learned as well (`remember_host`). It decides nothing about packs or limits.
Trade-off: one reply decides about a form, so a model that failed once by chance is asked in a
weaker form until the record expires.
"""

from collections.abc import Mapping, Sequence
from math import ceil, inf
from sqlite3 import Connection
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from xscore.cache import capabilities
from xscore.platform.errors import NoUsableModel, RequestRejected, XscoreError
from xscore.prompts.judge import PackEntry, PromptOptions
from xscore.prompts.turn_text import turn_block
from xscore.providers.hosts import is_loopback
from xscore.providers.provider import Adaptable, Provider
from xscore.records.calls import Capability, Completion, Finish, Request, Stage, Usage
from xscore.records.turn import Turn

if TYPE_CHECKING:
    from xscore.pipeline.model_factory import ModelJudgeFactory
    from xscore.scorer.drafts import PromptDrafts

PROBE_PACK = (
    PackEntry("ka", "function", "probe/add.py", "add", "def add(a, b):\n    return a + b"),
    PackEntry(
        "qe", "function", "probe/greet.py", "greet", "def greet(name):\n    return f'hello {name}'"
    ),
)
PROBE_TASK = Turn(task="Make `add` accept any number of numbers.")
PROBE_OUTPUT_TOKENS = 2_000
"""Output cap; enough to see how much a model reasons before it answers."""
PROBE_CACHE_KEY = "probe"
"""Sent like a pack's, so that a host that refuses the field shows it."""
REMEMBERED_S = 30 * 86_400.0
REMEMBERED_HERE_S = 86_400.0
"""A local server may be reloaded with another context from one day to the next."""
END_OF_THINKING = "</think>"
NO_DECISIONS = "decisions"
"""Stands in `Capability.without` for the route itself."""
PROBE_ROUNDS = 2
"""How often every reply form is tried before a host counts as one that cannot judge."""
SEPARATE_TRIES = 3
"""How often a decision host is asked, each open question alone, after both were asked together. A
host that leaves out one answer in three fails to answer at all once in two thousand probes."""
SHARE_OF_DEADLINE = 1 / 4
"""Most of the time left for judging that a probe may take; then the host is judged with as it
is."""


class ProbeResult(Struct, frozen=True, kw_only=True):
    """What a probe found."""

    capability: Capability
    scores: tuple[int, ...]
    """Of the two memories, 0..100; a decision host that left one out has one."""
    usage: Usage
    """Of the call that was readable."""
    took_s: float
    """All calls of the probe together."""


class ReadProbe(NamedTuple):
    """A reply to the probe, and what of it is valid."""

    completion: Completion
    scores: Mapping[str, int]
    """Id of a probe's memory -> 0..100."""


async def adopt_capability(
    judge: "ModelJudgeFactory", wrapped: Provider, *, left_s: float = inf
) -> Capability | None:
    """Adapt the judge's provider to what its host supports: from the stored record, else by a probe
    (`judge.probe`).

    wrapped: the same provider with limits, budget and ledger around it.
    left_s: seconds left for judging, of which the probe takes a share. Returns what holds now; None
        if nothing is known or can be, or in time. Raises what `probe_host` raises, before
        repository text is sent.
    """
    provider = judge.provider
    if not isinstance(provider, Adaptable):
        return None
    known = known_capability(
        judge.store.connection, provider, judge.drafts.model.name, now=judge.store.clock()
    )
    if known is not None:
        provider.adopt(known)
    if (
        provider.is_vendors_own
        or not judge.settings.judge.probe
        or (known is not None and known.probed_at > 0)
    ):
        return known
    import asyncio  # a turn that is all cached looks up what is known, and no more

    try:
        async with asyncio.timeout(SHARE_OF_DEADLINE * left_s):
            return (await probe_host(judge, wrapped)).capability
    except TimeoutError:
        return known


def known_capability(
    connection: Connection, provider: Provider, model: str, *, now: float
) -> Capability | None:
    """Return the stored capability of a judge's host and model if it has not expired. now: Unix
    seconds."""
    known = capabilities.read_capability(
        connection, provider=provider.name, host=provider.host, model=model
    )
    if known is None or not known.probed_at:
        return known
    is_brief = is_loopback(provider.host) or known.has_no_steady_name
    longest = REMEMBERED_HERE_S if is_brief else REMEMBERED_S
    return known if 0 <= now - known.probed_at < longest else None


async def probe_host(judge: "ModelJudgeFactory", wrapped: Provider) -> ProbeResult:
    """Probe the judge's host, adapt the provider, and replace the stored capability.

    Raises NoUsableModel if no reply form gives readable scores, BudgetExhausted, and leaves of
    `ProviderError` that stop any call.
    """
    connection, provider, model, began = (
        judge.store.connection,
        judge.provider,
        judge.drafts.model.name,
        monotonic(),
    )
    blank = Capability(provider=provider.name, host=provider.host, model=model, probed_at=0.0)
    capabilities.delete_capability(
        connection, provider=provider.name, host=provider.host, model=model
    )
    read = await _try_forms(judge, wrapped, blank)
    completion = read.completion
    scores = tuple(
        read.scores[entry.code_id] for entry in PROBE_PACK if entry.code_id in read.scores
    )
    found = _learned(provider, blank)
    if isinstance(provider, Adaptable):
        context = await provider.context_tokens(model)
        found = replace(found, context_tokens=context)
    found = replace(
        found,
        probed_at=judge.store.clock(),
        reasoning_tokens=ceil(_reasoning_tokens(completion) / len(PROBE_PACK)),
    )
    if isinstance(provider, Adaptable):
        provider.adopt(found)
        capabilities.write_capability(connection, found, at=found.probed_at)
    return ProbeResult(
        capability=found, scores=scores, usage=completion.usage, took_s=monotonic() - began
    )


def remember_host(judge: "ModelJudgeFactory") -> None:
    """Store what a turn's replies have shown of the judge's host, when judging ends.

    For a host that was never probed only its limits are stored, since a refusal may not repeat.
    """
    connection, provider, model = judge.store.connection, judge.provider, judge.drafts.model.name
    if not isinstance(provider, Adaptable):
        return
    learned, where = (
        provider.learned(model),
        {"provider": provider.name, "host": provider.host, "model": model},
    )
    if learned.probed_at:
        if learned != capabilities.read_capability(connection, **where):
            capabilities.write_capability(connection, learned, at=judge.store.clock())
    elif learned.limits:
        capabilities.amend_capability(
            connection, **where, limits=learned.limits, at=judge.store.clock()
        )


def remember_no_decisions(
    connection: Connection, provider: Provider, model: str, *, at: float
) -> None:
    """Store that this host has no route for decisions. at: Unix seconds."""
    found = Capability(
        provider=provider.name,
        host=provider.host,
        model=model,
        probed_at=at,
        without=(NO_DECISIONS,),
    )
    capabilities.write_capability(connection, found, at=at)


def takes_decisions(connection: Connection, provider: Provider, model: str, *, now: float) -> bool:
    """Whether nothing speaks against sending decisions to this host. now: Unix seconds."""
    known = known_capability(connection, provider, model, now=now)
    return known is None or NO_DECISIONS not in known.without


def _probe_request(drafts: "PromptDrafts", entries: Sequence[PackEntry] = PROBE_PACK) -> Request:
    """Return the probe: built-in memories, judged like any others."""
    model = drafts.model
    judging = drafts.layout.render(
        entries,
        turn_block(PROBE_TASK),
        PromptOptions(
            model,
            PROBE_OUTPUT_TOKENS + model.reasoning_reserve,
            cache_key=PROBE_CACHE_KEY,
            is_kept=False,
        ),
    )
    return replace(judging, stage=Stage.PROBE)


class _Unreadable(NamedTuple):
    """Why no reply form was readable."""

    failure: XscoreError
    may_be_chance: bool
    """Whether the last reply came to its end and was badly made, so that another may be better."""


async def _try_forms(judge: "ModelJudgeFactory", wrapped: Provider, blank: Capability) -> ReadProbe:
    """Try the reply forms from the strictest until one is readable, all of them up to
    `PROBE_ROUNDS` times."""
    if judge.drafts.layout.is_independent:
        return await _try_questions(judge, wrapped, blank)
    rounds_left = PROBE_ROUNDS
    while True:
        read = await _try_each_form(judge, wrapped, blank)
        if isinstance(read, ReadProbe):
            return read
        rounds_left -= 1
        if not (rounds_left and read.may_be_chance):
            raise read.failure


async def _try_each_form(
    judge: "ModelJudgeFactory", wrapped: Provider, blank: Capability
) -> ReadProbe | _Unreadable:
    """Try each reply form once, from the strictest."""
    provider, found = judge.provider, blank
    while True:
        if isinstance(provider, Adaptable):
            provider.adopt(found)
        try:
            read = await _ask_probe(judge, wrapped, PROBE_PACK)
        # Refused without naming a field: a weaker form may still pass.
        except RequestRejected as error:
            unreadable = _Unreadable(error, may_be_chance=False)
        else:
            if len(read.scores) == len(PROBE_PACK):
                return read
            is_whole = read.completion.finish not in (Finish.LENGTH, Finish.REFUSAL)
            unreadable = _Unreadable(_unusable(judge, read.completion), may_be_chance=is_whole)
        found = _learned(provider, blank)
        if not isinstance(provider, Adaptable) or found.reply_form is provider.forms[-1]:
            return unreadable
        found = replace(
            found, reply_form=provider.forms[provider.forms.index(found.reply_form) + 1]
        )


async def _try_questions(
    judge: "ModelJudgeFactory", wrapped: Provider, blank: Capability
) -> ReadProbe:
    """Ask both questions together, and those without an answer again, each alone.

    Judging asks again for what a reply leaves out, so one answer shows that the host can judge.
    """
    if isinstance(judge.provider, Adaptable):
        judge.provider.adopt(blank)
    read = await _ask_probe(judge, wrapped, PROBE_PACK)
    for _ in range(SEPARATE_TRIES):
        for entry in PROBE_PACK:
            if entry.code_id not in read.scores:
                again = await _ask_probe(judge, wrapped, (entry,))
                read = ReadProbe(again.completion, {**read.scores, **again.scores})
    if not read.scores:
        raise _unusable(judge, read.completion)
    return read


async def _ask_probe(
    judge: "ModelJudgeFactory", wrapped: Provider, entries: Sequence[PackEntry]
) -> ReadProbe:
    """Ask about these memories, and read what is valid in the reply."""
    request = _probe_request(judge.drafts, entries)
    completion = await wrapped.complete(request)
    if completion.finish is Finish.REFUSAL:
        return ReadProbe(completion, {})
    scores = judge.drafts.layout.read(completion.text, frozenset(request.reply_ids)).scores
    # a decision's questions are named by their place, so the ids of the probe's own memories are
    # used
    by_entry = zip(entries, request.reply_ids, strict=True)
    return ReadProbe(
        completion, {entry.code_id: round(scores[id_]) for entry, id_ in by_entry if id_ in scores}
    )


def _reasoning_tokens(completion: Completion) -> int:
    """Count reasoning tokens: as reported, or the output tokens that the answer's characters cannot
    account for.

    Ollama includes reasoning in the output count.
    """
    answer = completion.text.rpartition(END_OF_THINKING)[2]
    usage = completion.usage
    hidden = usage.output_tokens - len(answer) if completion.usage_reported else 0
    return max(0, usage.reasoning_tokens, hidden)


def _learned(provider: Provider, blank: Capability) -> Capability:
    return provider.learned(blank.model) if isinstance(provider, Adaptable) else blank


def _unusable(judge: "ModelJudgeFactory", completion: Completion) -> NoUsableModel:
    who = f"`{judge.drafts.model.name}` at {judge.host}"
    if completion.finish is Finish.REFUSAL:
        return NoUsableModel(f"{who} declines to judge", hint="Use another model.")
    if completion.finish is Finish.LENGTH:
        spent = completion.usage
        return NoUsableModel(
            f"{who} did not finish within {spent.output_tokens:,} tokens,"
            f" {spent.reasoning_tokens:,} of reasoning",
            hint="Use a model that works without reasoning, or turn it off at the server.",
        )
    if judge.drafts.layout.is_independent:
        return NoUsableModel(
            f"{who} answers a question or more with no probability",
            hint="Check the wire (`decisions:` or `systemone:`), or use another model.",
        )
    return NoUsableModel(
        f"{who} gives no readable scores, neither under a schema nor as JSON nor as text",
        hint=(
            "This model does not follow the judging protocol (docs/internals/protocol.md); use"
            " another."
        ),
    )
