"""Every fault of a judging host, and how a turn ends if it persists: the table that the proofs use.

`LASTING` strikes all requests about one memory for as long as it is asked for, or all requests of
the judge; `PASSING` strikes once and is gone. A row says the exit code, the cause of what is lost,
how much of it may be lost, the words that must be among what the user reads, and how many requests
at most the host may see.
"""

from msgspec import Struct

from tests.servers import Fault

PACK = 3
PACKS = 4
MEMORIES = PACK * PACKS
LADDER = 1 + 2 + PACK
"""The maximum number of requests for one pack: whole, in halves, one by one."""


class End(Struct, frozen=True, kw_only=True):
    """How a turn ends."""

    exit_code: int
    says: str
    """Words that warnings or details contain, in lower case."""
    cause: str = "provider"
    lost: tuple[int, int] = (1, PACK)
    """Minimum and maximum number of unjudged candidates."""
    calls: int = PACKS
    """Maximum number of requests."""
    strikes_all: bool = False
    """Affects every judging request, not only those about one memory."""
    timeout_s: float = 4.0
    """`judge.timeout_s`; a loopback host gets five times that."""


def _wire(says: str, *, timeout_s: float = 4.0) -> End:
    """A network fault loses only its own pack, and no other is asked twice."""
    return End(exit_code=1, says=says, timeout_s=timeout_s)


def _first_score(says: str) -> End:
    """An invalid first score loses one memory of each pack, after the whole ladder."""
    return End(
        exit_code=1,
        cause="unreadable",
        says=says,
        lost=(PACKS, PACKS),
        calls=3 * PACKS,
        strikes_all=True,
    )


VOID = "void"
LASTING: dict[Fault, End] = {
    Fault.SERVER_ERROR: _wire("answered 500"),
    Fault.UNAVAILABLE: _wire("answered 503"),
    Fault.OVERLOADED: _wire("answered 529"),
    Fault.RESET: _wire("the connection broke"),
    Fault.CUT: _wire("the connection broke"),
    Fault.SILENCE: _wire("did not finish its reply within 1 s", timeout_s=0.2),
    Fault.DRIP: _wire("did not finish its reply within 1 s", timeout_s=0.2),
    Fault.HTML: _wire("answered 200 with"),
    Fault.EMPTY_OBJECT: _wire("answered 200 with"),
    Fault.NOT_JSON: _wire("answered 200 with"),
    Fault.ECHO: End(exit_code=1, says="is withheld", lost=(1, 1), calls=PACKS + PACK),
    Fault.TOO_LONG: End(
        exit_code=1, cause="too_long", says="prompt_too_long", lost=(1, 1), calls=PACKS + LADDER
    ),
    Fault.REFUSAL: End(
        exit_code=1, cause="refused", says="the model declined", lost=(1, 1), calls=PACKS + PACK
    ),
    Fault.MODERATED: End(
        exit_code=1, cause="refused", says="the model declined", lost=(1, 1), calls=PACKS + PACK
    ),
    Fault.MALFORMED_CONTENT: End(
        exit_code=1,
        cause="unreadable",
        says="no valid score",
        lost=(1, 1),
        calls=PACKS + LADDER,
    ),
    Fault.TRUNCATION: End(
        exit_code=1,
        cause="unreadable",
        says="the reply was cut short",
        lost=(1, MEMORIES),
        calls=PACKS * LADDER,
        strikes_all=True,
    ),
    Fault.MISSING_ID: _first_score("no valid score"),
    Fault.DUPLICATE_ID: _first_score(VOID),
    Fault.NAN: _first_score(VOID),
    Fault.OUT_OF_RANGE: _first_score(VOID),
    Fault.STRING_SCORE: _first_score(VOID),
    Fault.TRUE_SCORE: _first_score(VOID),
    Fault.CUT_PROMPT: End(
        exit_code=3,
        cause="too_long",
        says="cut the prompt",
        lost=(MEMORIES, MEMORIES),
        calls=PACKS * LADDER,
        strikes_all=True,
    ),
    Fault.FOREIGN_ID: End(
        exit_code=0, cause="", says="for unknown ids", lost=(0, 0), strikes_all=True
    ),
    Fault.NO_USAGE: End(exit_code=0, cause="", says="", lost=(0, 0), strikes_all=True),
    Fault.VAST_USAGE: End(exit_code=0, cause="", says="", lost=(0, 0), strikes_all=True),
}
"""Persistent faults."""

STOPS: dict[Fault, str] = {
    Fault.QUOTA: "quota: ",
    Fault.SPEND_LIMIT: "quota: ",
    Fault.PAYMENT: "quota: ",
    Fault.WRONG_KEY: "authentication: ",
    Fault.UNKNOWN_MODEL: "unknown_model: ",
    Fault.REDIRECT: "answered 307",
}
"""Faults that no later call would survive, and how their details begin."""

STORMS = (Fault.RATE_LIMITED, Fault.ERROR_IN_200, Fault.ERROR_IN_STREAM)
"""Proved in `test_faults_storm`: every call waits after one meets them."""

PASSING = tuple(fault for fault in Fault if fault not in STOPS)
"""Faults that may pass with the next request."""
