"""Plain words for the stages of a turn and what calls are for, as pages show them.

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
CALL_WORDS = {
    Stage.JUDGE: "judging",
    Stage.PRIMARY: "the answer",
    Stage.PROBE: "trying out the host",
    Stage.EMBED: "embedding",
    Stage.REASON: "reasons",
}
"""What calls are for; other stages have names that say it."""


def call_words(stage: Stage) -> str:
    """Say what a call is for."""
    return CALL_WORDS.get(stage, str(stage))


def stage_words(of: str, stage: str) -> str:
    """Say what a stage of a turn, or a call, is for. of: `turn` or `call`."""
    if of == "turn":
        return STAGE_WORDS.get(stage, stage)
    if stage in set(Stage):
        return call_words(Stage(stage))
    return stage
