"""Plain words for the stages of a turn, as pages show them; those for calls are `Stage.words`.

Settings, JSON and the ledger name them by one word each. Trade-off: only pages have room for more.
"""

from xscore.records.calls import Stage

ELSEWHERE = "elsewhere"
STAGE_WORDS = {
    "index": "reading changed files",
    "pool": "gathering candidates",
    "cache": "looking up earlier scores",
    "judge": "judging",
    "select": "choosing",
    "primary": "answering",
    ELSEWHERE: "outside of these: starting, saving",
}
"""The parts of a turn, in their order."""


def stage_words(of: str, stage: str) -> str:
    """Say what a stage of a turn, or a call, is for. of: `turn` or `call`."""
    if of == "turn":
        return STAGE_WORDS.get(stage, stage)
    if stage in set(Stage):
        return Stage(stage).words
    return stage
