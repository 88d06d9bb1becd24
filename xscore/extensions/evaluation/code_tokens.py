"""The tokens of code without comments and docstrings, which tell a change of code from a change of
comments.

A lexer of one pattern for each family of comment marks: it knows strings, so that `"# no comment"`
stays, and reads each character once. Trade-off: it knows no grammar, so a division that looks like
the start of a regular expression is read as operators, which compares as well.
"""

import re
from functools import cache

_STRINGS = r"""
    [A-Za-z]{0,2}(?:\"\"\"(?:[^\\]|\\.)*?(?:\"\"\"|\Z)|'''(?:[^\\]|\\.)*?(?:'''|\Z))
  | "(?:[^"\\\n]|\\.)*"?
  | '(?:[^'\\\n]|\\.)*'?
  | `(?:[^`\\]|\\.)*`?
"""
_REST = r"(?P<token>[^\W\d][\w$]*|\d[\w.]*|[^\w\s])"
_HASH = r"\#[^\n]*"
_SLASHES = r"//[^\n]*|/\*.*?(?:\*/|\Z)"
_DASHES = r"--\[\[.*?(?:\]\]|\Z)|--[^\n]*"
_MARKS = {
    **dict.fromkeys("python ruby shell elixir toml yaml r perl".split(), _HASH),
    **dict.fromkeys("lua sql haskell".split(), _DASHES),
    "php": f"{_SLASHES}|{_HASH}",
}
"""Signs of comments by language; the others write `//` and `/* */`."""
_OPENS_BLOCK = frozenset({":", "{", "}", ";"})


@cache
def _lexer(language: str) -> "re.Pattern[str]":
    comment = _MARKS.get(language, _SLASHES)
    return re.compile(
        f"(?P<comment>{comment})|(?P<string>{_STRINGS})|{_REST}", re.DOTALL | re.VERBOSE
    )


def code_tokens(text: str, language: str) -> tuple[str, ...]:
    """Return what of a text is code: words, numbers, strings and signs, in their order."""
    tokens: list[str] = []
    for match in _lexer(language).finditer(text):
        if match.lastgroup == "comment":
            continue
        token = match[0]
        if match.lastgroup == "string" and language == "python":
            starts_line = text.rfind("\n", 0, match.start()) + 1
            is_first = not text[starts_line : match.start()].strip()
            # A string alone after the head of a block says what it is for.
            if is_first and (not tokens or tokens[-1] in _OPENS_BLOCK):
                continue
        tokens.append(token)
    return tuple(tokens)
