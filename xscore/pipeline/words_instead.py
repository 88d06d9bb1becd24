"""Whether words rank a turn which its model could not judge, and what its end then is.

An unknown model and a refused request are mistakes in the settings: a ranking would hide them, so
they stay errors.
"""

from msgspec import Struct

from xscore.pipeline.judge_description import Scale
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.turn_stages import Judged
from xscore.platform.errors import (
    AuthenticationFailed,
    CallTimedOut,
    ConnectionFailed,
    ExitCode,
    NoUsableModel,
    Overloaded,
    QuotaExhausted,
    RateLimited,
    TlsFailed,
    Unreachable,
    UnreadableResponse,
)
from xscore.providers.spec import LEXICAL
from xscore.records.judgment import Unjudged, UnjudgedCause

FAILURES = frozenset({
    UnjudgedCause.PROVIDER, UnjudgedCause.REFUSED, UnjudgedCause.UNREADABLE, UnjudgedCause.TOO_LONG
})  # fmt: skip
"""Causes that another judge may avoid. A cap, a deadline or Ctrl-C stops every judge."""
OFFLINE = (ConnectionFailed.kind, Unreachable.kind, TlsFailed.kind, CallTimedOut.kind)
"""Kinds of errors that mean the host was not reached."""
WHY_WORDS_RANK: dict[str, str] = {
    **dict.fromkeys(OFFLINE, "could not be reached"),
    Overloaded.kind: "is overloaded",
    RateLimited.kind: "accepts no more calls for now",
    UnreadableResponse.kind: "returns no readable reply",
    NoUsableModel.kind: "returns no usable scores",
    QuotaExhausted.kind: "has no credit left for this account",
    AuthenticationFailed.kind: "does not accept the key",
}
"""Kinds of errors after which words rank, and what they say about the host."""


class WordsInstead(Struct, frozen=True):
    """That words rank a turn which no model judged."""

    why: str
    exit_code: ExitCode
    """Partly done if the host may answer the next time; as before the ranking, if someone has to
    mend something."""


def words_instead(parts: PipelineParts, judged: Judged) -> WordsInstead | None:
    """Return why no model judged anything, if words should rank this turn instead."""
    judge = parts.judge
    if judge.scale is Scale.WORDS or LEXICAL not in parts.settings.judge.fallback:
        return None
    causes = {
        outcome.result.cause
        for outcome in judged.outcomes
        if isinstance(outcome.result, Unjudged)
    }
    if causes == {UnjudgedCause.DEADLINE}:
        return WordsInstead("the deadline came before anything was judged", ExitCode.PARTLY)
    if not causes <= FAILURES:
        return None
    kinds = set(judged.failures)
    if judged.no_judge:
        kinds = {judged.no_judge}
    elif UnjudgedCause.UNREADABLE in causes:
        kinds.add(NoUsableModel.kind)
    # the last of these says most: a refused key rather than a call before it that was not answered
    telling = [kind for kind in WHY_WORDS_RANK if kind in kinds]
    if not telling:
        return None
    exit_code = ExitCode.PARTLY if telling[-1] in OFFLINE else ExitCode.NOTHING_JUDGED
    return WordsInstead(f"{judged.judge.host} {WHY_WORDS_RANK[telling[-1]]}", exit_code)
