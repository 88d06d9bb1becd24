"""Find out what a host can do, with a small call that contains no repository text.

Hosts that speak a vendor's dialect differ: some refuse a strict schema, some accept it and answer
prose, some report no usage. Reply forms are tried from the strictest, and the first that gives
readable scores for both memories is kept. A host that fails in every form is asked once more:
replies are drawn by chance, and one that came out badly must not end a turn. Independent questions
(decisions) add up over the tries. A vendor's own chat host is never probed; a decision host is,
also a vendor's own, since only a reply says whether it has the route and which model answers. What
is found out is remembered (`known_hosts`). It decides nothing about packs or limits. Trade-off: one
reply decides about a form, so a model that failed once by chance is asked in a weaker form until
the record expires.
"""

import asyncio
from collections.abc import Mapping, Sequence
from math import ceil, inf
from time import monotonic
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from xscore.cache import capabilities
from xscore.pipeline.judge_description import JudgeDescription
from xscore.pipeline.judge_prompts import prompt_builder
from xscore.pipeline.known_hosts import known_capability
from xscore.platform.errors import NoUsableModel, RequestRejected, XscoreError
from xscore.prompts.judge import PackEntry, PromptOptions
from xscore.prompts.turn_text import turn_block
from xscore.providers.provider import Adaptable, Provider
from xscore.records.calls import (
    Capability,
    Completion,
    DecisionWire,
    Finish,
    Request,
    Stage,
    Usage,
)
from xscore.records.turn import Turn
from xscore.scorer.prompt_builder import PromptBuilder

PROBE_PACK = (
    PackEntry("ka", "function", "probe/add.py", "add", "def add(a, b):\n    return a + b"),
    PackEntry(
        "qe",
        "function",
        "probe/greet.py",
        "greet",
        "def greet(name):\n    return f'hello {name}'",
    ),
)
PROBE_TASK = Turn(task="Make `add` accept any number of numbers.")
PROBE_OUTPUT_TOKENS = 2_000
"""Output cap of a probe, enough to see how much a model reasons before it answers."""
PROBE_CACHE_KEY = "probe"
"""Cache key of a probe, sent like a pack's, so that a host that refuses the field shows it."""
END_OF_THINKING = "</think>"
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
    """Scores of the two memories, 0..100; if a decision host left one out, there is one."""
    usage: Usage
    """Usage of the call that was readable."""
    took_s: float
    """Seconds of all calls of the probe together."""


class ReadProbe(NamedTuple):
    """A reply to the probe, and what of it is valid."""

    completion: Completion
    scores: Mapping[str, int]
    """Id of a probe's memory -> 0..100."""


async def adopt_capability(
    judge: JudgeDescription, wrapped: Provider, *, left_s: float = inf
) -> Capability | None:
    """Adapt the judge's provider to what its host supports: from the stored record, otherwise
    by a probe (`judge.probe`).

    wrapped: the same provider with limits, budget and ledger around it.
    left_s: seconds left for judging, of which the probe takes a share.
    Returns what holds now; None if nothing is known or can be, or in time. Raises what
    `probe_host` raises, before repository text is sent.
    """
    provider = judge.connected()
    if not isinstance(provider, Adaptable):
        return None
    capability = known_capability(
        judge.store.connection, provider, judge.asked_model, now=judge.store.clock()
    )
    if capability is not None:
        provider.adopt(capability)
    is_probed = capability is not None and capability.probed_at > 0
    if provider.is_vendors_own or is_probed or not judge.settings.judge.probe:
        return capability
    try:
        async with asyncio.timeout(SHARE_OF_DEADLINE * left_s):
            return (await probe_host(judge, wrapped)).capability
    except TimeoutError:
        return capability


async def probe_host(judge: JudgeDescription, wrapped: Provider) -> ProbeResult:
    """Probe the judge's host, adapt the provider, and replace the stored capability.

    Raises NoUsableModel if no reply form gives readable scores, BudgetExhausted, and leaves of
    `ProviderError` that stop any call.
    """
    connection = judge.store.connection
    provider = judge.connected()
    began = monotonic()
    blank = Capability(
        provider=provider.name, host=provider.host, model=judge.asked_model, probed_at=0.0
    )
    # Forgotten first: a probe that is cut off must leave nothing that looks probed.
    capabilities.delete_capability(
        connection, provider=provider.name, host=provider.host, model=judge.asked_model
    )
    prober = _Prober(judge, prompt_builder(judge), wrapped, blank)
    read = await prober.readable_reply()
    scores = [read.scores[entry.code] for entry in PROBE_PACK if entry.code in read.scores]
    capability = replace(
        prober.learned(),
        probed_at=judge.store.clock(),
        reasoning_tokens=ceil(_reasoning_tokens(read.completion) / len(PROBE_PACK)),
    )
    if isinstance(provider, Adaptable):
        context = await provider.context_tokens(judge.asked_model)
        capability = replace(capability, context_tokens=context)
        provider.adopt(capability)
        capabilities.write_capability(connection, capability, at=capability.probed_at)
    return ProbeResult(
        capability=capability,
        scores=tuple(scores),
        usage=read.completion.usage,
        took_s=monotonic() - began,
    )


class _Unreadable(NamedTuple):
    """Why no reply form was readable."""

    failure: XscoreError
    may_be_chance: bool
    """Whether the last reply came to its end and was badly made, so that another may be better."""


class _Prober(Struct):
    """One probe: who is asked, through which provider, and what is known before it."""

    judge: JudgeDescription
    prompts: PromptBuilder
    wrapped: Provider
    blank: Capability

    def adopt(self, capability: Capability) -> None:
        """Have the provider ask in this form."""
        provider = self.judge.connected()
        if isinstance(provider, Adaptable):
            provider.adopt(capability)

    def learned(self) -> Capability:
        """Return what the replies so far have shown."""
        provider = self.judge.connected()
        if isinstance(provider, Adaptable):
            return provider.learned(self.blank.model)
        return self.blank

    async def readable_reply(self) -> ReadProbe:
        """Try the reply forms from the strictest until one is readable, all of them up to
        `PROBE_ROUNDS` times."""
        if self.prompts.layout.is_independent:
            return await self._ask_questions()
        rounds_left = PROBE_ROUNDS
        while True:
            read = await self._try_each_form()
            if isinstance(read, ReadProbe):
                return read
            rounds_left -= 1
            if not (rounds_left and read.may_be_chance):
                raise read.failure

    async def _try_each_form(self) -> ReadProbe | _Unreadable:
        """Try each reply form once, from the strictest."""
        provider = self.judge.connected()
        capability = self.blank
        while True:
            self.adopt(capability)
            try:
                read = await self._ask(PROBE_PACK)
            # Refused without naming a field: a weaker form may still pass.
            except RequestRejected as error:
                unreadable = _Unreadable(error, may_be_chance=False)
            else:
                if len(read.scores) == len(PROBE_PACK):
                    return read
                is_whole = read.completion.finish not in (Finish.LENGTH, Finish.REFUSAL)
                unreadable = _Unreadable(
                    self._unusable(read.completion), may_be_chance=is_whole
                )
            capability = self.learned()
            if (
                not isinstance(provider, Adaptable)
                or capability.reply_form is provider.forms[-1]
            ):
                return unreadable
            weaker = provider.forms.index(capability.reply_form) + 1
            capability = replace(capability, reply_form=provider.forms[weaker])

    async def _ask_questions(self) -> ReadProbe:
        """Ask both questions together, and those without an answer again, each alone.

        Judging asks again for what a reply leaves out, so one answer shows that the host can judge.
        """
        self.adopt(self.blank)
        read = await self._ask(PROBE_PACK)
        for _ in range(SEPARATE_TRIES):
            for entry in PROBE_PACK:
                if entry.code not in read.scores:
                    repeated = await self._ask((entry,))
                    read = ReadProbe(repeated.completion, {**read.scores, **repeated.scores})
        if not read.scores:
            raise self._unusable(read.completion)
        return read

    async def _ask(self, entries: Sequence[PackEntry]) -> ReadProbe:
        """Ask about these memories, and read what is valid in the reply."""
        request = _probe_request(self.prompts, entries)
        completion = await self.wrapped.complete(request)
        if completion.finish is Finish.REFUSAL:
            return ReadProbe(completion, {})
        reply = self.prompts.layout.read(completion.text, frozenset(request.reply_ids))
        scores: dict[str, int] = {}
        # A decision's questions are named by their place, so scores are kept by the memories' ids.
        for entry, reply_id in zip(entries, request.reply_ids, strict=True):
            if reply_id in reply.scores:
                scores[entry.code] = round(reply.scores[reply_id])
        return ReadProbe(completion, scores)

    def _unusable(self, completion: Completion) -> NoUsableModel:
        who = f"`{self.judge.asked_model}` at {self.judge.host}"
        if completion.finish is Finish.REFUSAL:
            return NoUsableModel(f"{who} declines to judge", hint="Use another model.")
        if completion.finish is Finish.LENGTH:
            spent = completion.usage
            return NoUsableModel(
                f"{who} did not finish within {spent.output_tokens:,} tokens,"
                f" {spent.reasoning_tokens:,} of reasoning",
                hint="Use a model that works without reasoning, or turn it off at the server.",
            )
        if self.prompts.layout.is_independent:
            wires = ", ".join(f"`{wire.value}:`" for wire in DecisionWire)
            return NoUsableModel(
                f"{who} answers at least one question without a probability",
                hint=f"Check the wire ({wires}), or use another model.",
            )
        return NoUsableModel(
            f"{who} gives no readable scores, neither under a schema nor as JSON nor as text",
            hint=(
                "This model does not follow the judging protocol (docs/internals/protocol.md); use"
                " another."
            ),
        )


def _probe_request(prompts: PromptBuilder, entries: Sequence[PackEntry]) -> Request:
    """Return the probe: built-in memories, judged like any others."""
    options = PromptOptions(
        prompts.model,
        PROBE_OUTPUT_TOKENS + prompts.model.reasoning_reserve,
        cache_key=PROBE_CACHE_KEY,
        is_lasting=False,
    )
    request = prompts.layout.render(entries, turn_block(PROBE_TASK), options)
    return replace(request, stage=Stage.PROBE)


def _reasoning_tokens(completion: Completion) -> int:
    """Count reasoning tokens: as reported, or the output tokens that the answer's characters cannot
    account for.

    Ollama includes reasoning in the output count.
    """
    answer = completion.text.rpartition(END_OF_THINKING)[2]
    usage = completion.usage
    hidden = usage.output_tokens - len(answer) if completion.usage_reported else 0
    return max(0, usage.reasoning_tokens, hidden)
