"""Take out of a commit message what gives its answer away.

What a gold or a new entity is called becomes `<symbol>`; a path, the name of a file or of a module
`<file>`; trailers, addresses, numbers of issues and hashes go. A name that is an everyday word
(`close`, `set`) is only taken out where it is written as code: `res.set`, `` `close` ``,
`close()`. Pure. Trade-off: a name that is described in words stays, since that is how people ask.
"""

import re
from collections.abc import Collection, Iterable

SYMBOL = "<symbol>"
FILE = "<file>"
_TRAILERS = re.compile(
    r"(?im)^[ \t]*(?:[\w-]{1,40}-by|cc|change-id|git-svn-id|message-id|pr-url|reviewed-on|bug"
    r"|issue|refs?|closes|fixes|resolves|see[ -]also|link|backport[\w-]{0,20}"
    r"|cherry[ -]picked[^:\n]{0,40}|original-commit)[ \t]*:.*$"
)
_ADDRESSES = re.compile(
    r"(?i)<?\b(?:[a-z][a-z0-9+.-]{1,20}://|www\.)[^\s<>()\[\]]+>?"
    r"|<?(?<![\w.+-])[\w.+-]{1,80}@[\w-]+(?:\.[\w-]+)+>?"
)
_ISSUES = re.compile(
    r"(?i)\(?(?:\b(?:fix(?:es|ed)?|close[sd]?|resolve[sd]?|refs?|see|issues?|pr|bug|gh)\b"
    r"[ :]{0,2})?"
    r"(?:(?<![\w.-])[\w.-]{1,60}/[\w.-]{1,60})?(?:\#|\bgh-)\d+\)?"
)
_HASH = re.compile(r"\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*[0-9])[0-9a-f]{7,64}\b")
_SUFFIXES = (
    "py pyi pyx pxd js mjs cjs jsx ts mts cts tsx go rs c h cc cpp cxx hpp hh java kt kts scala rb"
    " php cs swift m mm ex exs erl lua pl sh bash zsh ps1 sql md mdx rst txt toml yaml yml json ini"
    " cfg lock html css scss vue svelte xml gradle proto ipynb"
).replace(" ", "|")
_FILES = re.compile(
    rf"`?(?<![\w./@-])(?:\.{{0,2}}/)?(?:[\w.@+-]{{1,80}}/){{0,12}}[\w@+-][\w.@+-]{{0,80}}"
    rf"\.(?:{_SUFFIXES})\b(?:::[\w.\[\]]+|:\d+)?`?"
)
_EVERYDAY = re.compile(r"[a-z]+|[A-Z]{2,5}")
"""Matches a word that prose may contain as well, or an abbreviation."""
_EMPTY_BRACKETS = re.compile(r"\([\s,;&]*\)|\[[\s,;&]*\]")


def without_leaks(message: str, *, symbols: Iterable[str], paths: Collection[str]) -> str:
    """Return a message as a task.

    symbols: names of gold and new entities, qualified or not, `#n` included.
    paths: paths of the files that the commit touched.
    """
    text = _TRAILERS.sub("", message)
    text = _ADDRESSES.sub("", text)
    text = _without_files(text, paths)
    text = _without_symbols(text, symbols)
    text = _ISSUES.sub("", text)
    text = _HASH.sub("", text)
    text = _EMPTY_BRACKETS.sub("", text)
    return _tidy(text)


def symbol_names(entity: str) -> set[str]:
    """Return the names by which a message may mean an entity: its own, and its class's."""
    plain = entity.partition("#")[0].replace("::", ".")
    return {part for part in plain.split(".") if len(part) > 1}


def _without_symbols(text: str, symbols: Iterable[str]) -> str:
    names: set[str] = set()
    for symbol in symbols:
        names |= symbol_names(symbol)
    # The longest first, so that no name is taken for a part of another.
    for name in sorted(names, key=lambda name: (-len(name), name)):
        text = re.sub(_symbol_pattern(name), SYMBOL, text)
    return text


def _symbol_pattern(name: str) -> str:
    word = re.escape(name)
    prefix = r"(?<![\w$])(?:[\w$]{1,80}(?:\.|::|->)){1,8}"
    called = r"(?:\(\))?"
    if _EVERYDAY.fullmatch(name):
        written = rf"`(?:{prefix}|\.)?{word}{called}`|{prefix}{word}{called}|\b{word}\(\)?"
    else:
        written = rf"`(?:{prefix}|\.)?{word}{called}`|(?:{prefix})?(?<![\w$]){word}{called}"
    return rf"(?:{written})(?![\w$])"


def _without_files(text: str, paths: Collection[str]) -> str:
    text = _FILES.sub(FILE, text)
    forms: set[str] = set()
    for path in paths:
        forms |= _forms_of_path(path)
    # The longest first, so that no form is taken for a part of another.
    for form in sorted(forms, key=lambda form: (-len(form), form)):
        text = re.sub(rf"`?(?<![\w./$]){re.escape(form)}(?![\w$/])`?", FILE, text)
    return text


def _forms_of_path(path: str) -> set[str]:
    """Return how a message may write a file without its ending: as a path or a module, or by a name
    that no prose has."""
    parts = (path.rpartition(".")[0] or path).split("/")
    forms: set[str] = set()
    for first in range(len(parts) - 1):
        forms.add("/".join(parts[first:]))
        forms.add(".".join(parts[first:]))
    stem = parts[-1]
    if not _EVERYDAY.fullmatch(stem) and len(stem) > 3:
        forms.add(stem)
    return forms


def _tidy(text: str) -> str:
    """Return it without what the removals have left: double blanks, empty lines, lone marks."""
    lines: list[str] = []
    for line in text.split("\n"):
        tidied = re.sub(r"[ \t]+", " ", line).strip()
        tidied = re.sub(r" ([,.;:])", r"\1", tidied)
        if not re.search(r"[^\W\d]", tidied):
            tidied = ""
        if tidied or (lines and lines[-1]):
            lines.append(tidied)
    return "\n".join(lines).strip()
