"""What is said in the machine of the layers: each topic has a word that stands nowhere else, to be searched for.

Each topic can be said in two ways that say the same, as consolidation is to find out.
"""

TOPICS = {
    "quartzlamp": "Use quartzlamp for the harbour lights",
    "bramblefox": "Every bramblefox is fed before noon in the north wing",
    "tidewagon": "Releases leave by tidewagon once the moon is full",
    "mossanchor": "Use mossanchor",
}
AFTERTHOUGHT = ". It was agreed on Monday."
SENTENCES = tuple(said + end for said in TOPICS.values() for end in ("", AFTERTHOUGHT))
ERRORS = ("TypeError: the pewterhook has no handle", "OSError: saltlantern went out")
WORDS = (*TOPICS, "pewterhook", "saltlantern")
KEYS = ("", "", "orm", "lights")


def words_in(text: str) -> set[str]:
    """Return the telling words of a text."""
    return {word for word in WORDS if word in text.lower()}


def word_in(text: str) -> str:
    """Return the telling word of a sentence."""
    return next(iter(sorted(words_in(text))), "")
