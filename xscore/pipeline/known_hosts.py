"""What is remembered of judging hosts from one turn to the next, each for a while.

`probe` finds it out; ordinary replies add to it. Trade-off: a server that changes sooner than it is
asked again is used by what it was.
"""

from sqlite3 import Connection

from xscore.cache import capabilities
from xscore.pipeline.judge_description import JudgeDescription
from xscore.platform.errors import StoreError
from xscore.platform.text import join_sentences
from xscore.providers.hosts import is_loopback
from xscore.providers.provider import Adaptable, Provider
from xscore.records.calls import Capability

REMEMBERED_S = 30 * 86_400.0
REMEMBERED_HERE_S = 86_400.0
"""How long a local server is remembered: it may be reloaded with another context from one day
to the next."""
NO_DECISIONS = "decisions"
"""Means the route itself in `Capability.without`."""


def known_capability(
    connection: Connection, provider: Provider, model: str, *, now: float
) -> Capability | None:
    """Return the stored capability of a judge's host and model if it has not expired. now: Unix
    seconds."""
    capability = capabilities.read_capability(
        connection, provider=provider.name, host=provider.host, model=model
    )
    if capability is None or not capability.probed_at:
        return capability
    is_brief = is_loopback(provider.host) or capability.has_no_steady_name
    longest = REMEMBERED_HERE_S if is_brief else REMEMBERED_S
    if 0 <= now - capability.probed_at < longest:
        return capability
    return None


def remember_host(judge: JudgeDescription) -> None:
    """Store what a turn's replies have shown of the judge's host, when judging ends.

    For a host that was never probed only its limits are stored, since a refusal may not repeat.
    Nothing is stored of a judge without a host.
    """
    if judge.provider is None:
        return
    provider = judge.provider
    connection = judge.store.connection
    if not isinstance(provider, Adaptable):
        return
    learned = provider.learned(judge.asked_model)
    where = {"provider": provider.name, "host": provider.host, "model": judge.asked_model}
    if learned.probed_at:
        # Written only where it changed: most turns learn nothing new.
        if learned != capabilities.read_capability(connection, **where):
            capabilities.write_capability(connection, learned, at=judge.store.clock())
    elif learned.limits:
        capabilities.amend_capability(
            connection, **where, limits=learned.limits, at=judge.store.clock()
        )


def remember_host_or_warn(judge: JudgeDescription) -> list[str]:
    """Call `remember_host`; where that fails, return a warning: the host can be probed again."""
    try:
        remember_host(judge)
    except StoreError as error:  # the judgments are worth more
        warning = f"the host's capabilities could not be stored: {error.message}"
        return [join_sentences(warning, error.hint)]
    return []


def remember_no_decisions(
    connection: Connection, provider: Provider, model: str, *, at: float
) -> None:
    """Store that this host has no route for decisions. at: Unix seconds."""
    capability = Capability(
        provider=provider.name,
        host=provider.host,
        model=model,
        probed_at=at,
        without=(NO_DECISIONS,),
    )
    capabilities.write_capability(connection, capability, at=at)


def takes_decisions(
    connection: Connection, provider: Provider, model: str, *, now: float
) -> bool:
    """Whether nothing speaks against sending decisions to this host. now: Unix seconds."""
    capability = known_capability(connection, provider, model, now=now)
    return capability is None or NO_DECISIONS not in capability.without
