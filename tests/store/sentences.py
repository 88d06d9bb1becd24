"""Real sentences, from docstrings of installed packages, and edits that keep their meaning."""

import random
import re
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

PACKAGES = (
    "numpy",
    "pydantic",
    "aiohttp",
    "rich",
    "hypothesis",
    "mypy",
    "anyio",
    "openai",
    "pytest",
    "_pytest",
    "click",
)
LEAST_WORDS = 7
ARTICLES = frozenset({"a", "an", "the"})


@cache
def sentences(count: int) -> tuple[str, ...]:
    """Return the first paragraphs of N docstrings, no two with the same word beginnings except
    articles."""
    sentence_by_words: dict[str, str] = {}
    for text in _docstrings():
        plain = " ".join(text.split())
        words = re.findall(r"[A-Za-z0-9]+", plain)
        if len(words) >= LEAST_WORDS and len(plain) < 400 and not re.search(r">>>|[?]", plain):
            sentence_by_words.setdefault(
                " ".join(sorted({word.lower()[:4] for word in words} - ARTICLES)), plain
            )
        if len(sentence_by_words) == count:
            break
    assert len(sentence_by_words) == count, len(sentence_by_words)
    return tuple(sentence_by_words.values())


def _docstrings() -> Iterator[str]:
    for package in PACKAGES:
        spec = find_spec(package)
        assert spec is not None and spec.origin is not None
        for path in sorted(Path(spec.origin).parent.rglob("*.py")):
            for docstring in re.findall(
                r'(?:def|class) [^"]{,300}:\n\s+"""(.*?)"""', path.read_text("utf-8"), re.DOTALL
            ):
                yield docstring.strip().split("\n\n")[0]


SWAPS = {
    "use": "utilize",
    "uses": "utilizes",
    "used": "employed",
    "remove": "delete",
    "removes": "deletes",
    "show": "display",
    "shows": "displays",
    "keep": "retain",
    "because": "due to the fact that",
    "big": "large",
    "large": "huge",
    "small": "little",
    "fast": "quick",
    "allow": "permit",
    "allows": "permits",
    "find": "locate",
    "convert": "transform",
    "converts": "transforms",
    "multiple": "several",
    "several": "multiple",
    "many": "numerous",
    "main": "primary",
    "easy": "simple",
    "wrong": "incorrect",
    "extra": "additional",
    "previous": "prior",
    "next": "following",
    "argument": "parameter",
    "arguments": "parameters",
    "directory": "folder",
    "same": "identical",
    "until": "till",
    "result": "outcome",
    "occurs": "happens",
    "whole": "entire",
    "exactly": "precisely",
}
"""Written for the test, word by word, with inflections."""


def _case(text: str, chance: random.Random) -> str:
    return text.upper() if chance.random() < 0.5 else text.lower()


def _space(text: str, chance: random.Random) -> str:
    return "\n  " + re.sub(r" ", lambda _: chance.choice([" ", "  ", "\t"]), text) + "  "


def _punctuation(text: str, chance: random.Random) -> str:
    return re.sub(r"[,;:](?= )", "", text).rstrip(".") + chance.choice(["", ".", "!", " …"])


def _insertion(text: str, chance: random.Random) -> str:
    return (
        chance.choice(
            ["Please note that ", "Remember: ", "In this project, ", "We agreed to ", "Always "]
        )
        + text
    )


def _afterthought(text: str, chance: random.Random) -> str:
    remarks = [
        "It was agreed on Monday.",
        "This keeps things simple.",
        "See the wiki for more.",
        "Everyone agreed to this.",
    ]
    return text.rstrip(".!") + ". " + chance.choice(remarks)


def _synonym(text: str, chance: random.Random) -> str:
    words = text.split(" ")
    places = [at for at, word in enumerate(words) if word.lower() in SWAPS]
    for at in chance.sample(places, min(len(places), max(1, len(words) // 10))):
        words[at] = SWAPS[words[at].lower()]
    return " ".join(words)


def _clauses(text: str, chance: random.Random) -> str:
    """Move a clause that starts at a comma or a marker to the front."""
    body = text.rstrip(".")
    cut = re.search(
        r",? (?=(?:when|if|because|while|before|after|unless|until|although) )", body
    )
    if (
        cut is None
        or len(body[: cut.start()].split()) < 3
        or re.search(r"[,.;:!?()\[\]`]", body)
    ):
        return text
    return f"{body[cut.end() :]}, {body[: cut.start()]}"


EDITS: dict[str, Callable[[str, random.Random], str]] = {
    "case": _case,
    "space": _space,
    "punctuation": _punctuation,
    "insertion": _insertion,
    "afterthought": _afterthought,
    "synonym": _synonym,
    "clauses": _clauses,
}


def edited(text: str, edits: list[str], chance: random.Random) -> str:
    """Return the text after these edits."""
    for edit in edits:
        text = EDITS[edit](text, chance)
    return text
