"""Lines that a bundle writes above its parts, by which it is recognized in a prompt or a log.

They have a module of their own because a hook looks for them in every prompt, and few hooks render
a bundle.
"""

from enum import IntEnum

RANKED_BY_WORDS = (
    "No model judged this: matching words alone ranked it, so take it as hints, not findings."
)
"""The remark of a bundle without a judge."""
FAILURES_HEADING, DECISIONS_HEADING = "Known failure patterns:", "Latest decisions:"


class LeftOutCause(IntEnum):
    """Why a memory is only named; the order in which they are listed."""

    NO_ROOM = 0
    NO_PLACE = 1
    BELOW = 2


HEADINGS = {
    LeftOutCause.NO_ROOM: (
        "Chosen, but without room in the budget or in their layer's share; ask for what you need:"
    ),
    LeftOutCause.NO_PLACE: "Passed as well, but all places were taken:",
    LeftOutCause.BELOW: "Near, but below the threshold:",
}
