"""An exchange in words, and its answer out of them again: one pair for live turns and past sessions.

A task may hold the very words that begin an answer; there they are set off by a blank, so that the first such words of
a text are always its own. Trade-off: that blank stays in the task as it is remembered.
"""

_ANSWER = "\n\nAnswer: "
_SET_OFF = "\n\n Answer: "


def exchange_text(task: str, answer: str, *more: str) -> str:
    """Return the text of an exchange: the task, the answer where there is one, and what else is told of it."""
    asked = f"Task: {task}".replace(_ANSWER, _SET_OFF)
    return "\n\n".join([asked + (_ANSWER + answer if answer else ""), *filter(None, more)])


def answer_in(text: str) -> str:
    """Return the answer of an exchange, and what was told after it; empty where there is none."""
    return text.partition(_ANSWER)[2]
