"""The rules of redaction (`secrets.toml`, read as JSON), and the checks that a value passes to
count as a secret.

A check looks at the value alone, and refuses placeholders, names, examples, paths and prose. What
depends on the text around a value is in the pattern of its rule. Trade-off: a password that is an
example elsewhere (`tiger`, `changeme`) is not redacted.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from math import log2
from pathlib import Path
from urllib.parse import unquote

import msgspec
from msgspec import Struct

from xscore.platform.patterns import compiled_late

MIXED_BITS = 3.0
"""Shannon entropy, bits per character, of the shortest keys in use; words and identifiers are near
or below it."""

ENTROPY_CHARS = 256
"""How many characters entropy is measured on."""
NAME_CHARS = 80
"""Longest value that may be a name."""

SHORT_WORDS = 2.5
"""Most letters a word, on average, in a text where mixed case is not a name."""


_OPERATORS = "!&*~+-@"
"""Operators that may precede a name in code."""
_DIGIT = compiled_late(r"\d")
_LETTER = compiled_late(r"[^\W\d_]")
_PLACES = ("http://", "https://", "./", "../")
_SPACE = compiled_late(r"\s")
_VERSION = compiled_late(r"[~^<>=v]{0,3}\d+(?:\.[\dx*]+){1,4}\Z")
_WORD = compiled_late(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_IDENTIFIER = compiled_late(r"[A-Za-z_$][\w$]*(?:(?:\.|->|::|\?\.)[A-Za-z_$][\w$]*)*\Z")
_NAME = compiled_late(r"[A-Za-z]\w*(?:[.-][A-Za-z]\w*)*\.[A-Za-z][\w-]*\Z", re.ASCII)
_ALGORITHM = compiled_late(
    r"(?:sha|md|base|utf|aes|rsa|pbkdf|argon|hs|rs|v)[-_]?\d+(?:[-_]\w+)?\Z", re.IGNORECASE
)
_DESCRIBES = compiled_late(r"(?:ed|ing|able|ible)\Z", re.IGNORECASE)

Check = Callable[[str], bool]


class Shape(Struct, frozen=True):
    """A secret that is recognized by its shape."""

    type: str
    literals: tuple[str, ...]
    pattern: str
    check: str
    case: bool = False
    """Whether case matters."""
    needs: str = ""
    """Text that must occur as well, in lower case."""
    back: int = 0
    """Characters before the literal at which the match begins."""
    core: str = ""
    """Pattern that matches the secret alone, whatever comes before it, within one run of token
    characters."""


class ProviderKey(Struct, frozen=True):
    """The form of a key that its vendor marks: `ghp_` and 36 letters and digits."""

    type: str
    starts: tuple[str, ...]
    rest: str
    """Pattern of what follows a mark; marks a part of it as `secret` if the rest stays."""
    check: str = "mixed"
    back: int = 0
    """Characters before the mark that belong to the key."""
    before: str = ""
    """Pattern of one of these characters."""
    glued: str = ""
    """Pattern of what follows a mark directly after a letter or digit; empty if no key is found
    there."""

    def shapes(self) -> tuple[Shape, ...]:
        """Return how this key is found."""
        shape = self._shape("@edge@", self.rest, self.check)
        if not self.glued:
            return (shape,)
        return shape, self._shape("(?<=[A-Za-z0-9])", self.glued, "mixed")

    def _shape(self, edge: str, rest: str, check: str) -> Shape:
        marks = "|".join(map(re.escape, self.starts))
        before = f"{self.before}{{{self.back}}}" if self.back else ""
        secret = f"{before}(?:{marks})(?:{rest})"
        if "(?P<secret>" not in secret:
            secret = f"(?P<secret>{secret})"
        core = secret + "(?![A-Za-z0-9])"
        return Shape(
            self.type, self.starts, edge + core, check, case=True, back=self.back, core=core
        )


class SecretName(Struct, frozen=True):
    """Words that name a secret."""

    type: str
    words: tuple[str, ...]
    after: str = ""
    """Pattern that must precede the word."""
    weak: bool = False
    """Whether the word still counts without that pattern, for values that look like secrets."""
    weak_after: str = ""
    """Pattern that must precede the word in that case."""


class Form(Struct, frozen=True):
    """How a value is written with its name."""

    tail: str
    check: str
    lead: str = ""
    weak_check: str = ""
    upper: bool = False
    prose: bool = False
    """Whether the form is only for text where no code is expected."""

    @property
    def at_line_start(self) -> bool:
        """Whether the lead is the whole line before the name."""
        return self.lead.startswith(("@line@", "^"))


class SecretFiles(Struct, frozen=True):
    """Names of files that hold only secrets."""

    globs: tuple[str, ...]
    ssh: str


class SecretRules(Struct, frozen=True):
    """The content of `secrets.toml` and `provider_keys.toml`."""

    parts: dict[str, str]
    shape: tuple[Shape, ...]
    token: tuple[ProviderKey, ...]
    name: tuple[SecretName, ...]
    form: tuple[Form, ...]
    pem: dict[str, str]
    placeholders: dict[str, frozenset[str]]
    files: SecretFiles


@cache
def secret_rules() -> SecretRules:
    """Read the rules, once."""
    return msgspec.json.decode(
        Path(__file__).with_name("secrets.json").read_bytes(), type=SecretRules
    )


@cache
def compile_rule(pattern: str, *, minds_case: bool = False) -> re.Pattern[str]:
    """Compile a pattern of the rules, with its parts filled in."""
    for name, part in secret_rules().parts.items():
        pattern = pattern.replace(f"@{name}@", part)
    return re.compile(pattern, re.MULTILINE | (0 if minds_case else re.IGNORECASE))


def _is_mixed(value: str) -> bool:
    """Whether a value has letters, digits and the entropy of a key of its length."""
    if not (_DIGIT.search(value) and _LETTER.search(value)):
        return False
    sample = value[:ENTROPY_CHARS]
    bits = -sum(n / len(sample) * log2(n / len(sample)) for n in Counter(sample).values())
    return bits >= min(MIXED_BITS, log2(len(sample)) * 0.8)


def _is_value(value: str) -> bool:
    """Whether a literal can be a secret: no placeholder, name, example, path, file, address or
    prose."""
    lowered = value.lower()
    if len(value) < 4 or len(set(value[:NAME_CHARS])) < 3 or _SPACE.search(value):
        return False
    if _VERSION.match(value) or any(
        map(lowered.__contains__, secret_rules().placeholders["parts"])
    ):
        return False
    if value[0] in "<{$%/[" or value.endswith(("}", ">")) or lowered.startswith(_PLACES):
        return False
    if len(value) > NAME_CHARS or len(_DIGIT.findall(value)) > 1:
        return True
    if _is_name(value):
        return False
    words = set(_words(value))
    return not words or not words <= secret_rules().placeholders["words"]


def _is_name(value: str) -> bool:
    """Whether a value is the name of a file (`last_clean.json`) or of a text
    (`label.change-password`)."""
    if not _NAME.match(value):
        return False
    ending = value.rpartition(".")[2].lower()
    return ending in secret_rules().placeholders["endings"] or bool(
        _telling_words() & set(_words(value))
    )


@cache
def _telling_words() -> frozenset[str]:
    words: set[str] = set()
    for name in secret_rules().name:
        words.update(name.words)
    return frozenset(words)


def _words(value: str) -> Iterator[str]:
    return (word.lower() for word in _WORD.findall(value))


def _is_token(value: str) -> bool:
    return len(value) >= 8 and _is_mixed(value) and _is_value(value) and not _is_dotted(value)


def _is_plain(value: str) -> bool:
    if (
        not _is_value(value)
        or _is_dotted(value)
        or value.lower() in secret_rules().placeholders["types"]
    ):
        return False
    if not _LETTER.search(value) or value.endswith(
        (".", ":", "=", "|", "&", "+", "-", "*", "/")
    ):
        return False
    return not (_IDENTIFIER.match(value) and _telling_words() & set(_words(value)))


def _is_sure(value: str) -> bool:
    """Whether a value of any length is a literal: no reference (`$X`, `{{ x }}`, `%x%`,
    `!vault`), placeholder, type or variable with a telling name."""
    lowered = value.lower()
    if value[0] in "<{$%/[*!" or value.endswith(("}", ">")):
        return False
    placeholders = secret_rules().placeholders
    if lowered in placeholders["types"] or any(
        part in lowered for part in placeholders["parts"]
    ):
        return False
    is_name = _IDENTIFIER.match(value) and not _DIGIT.search(value)
    return not (is_name and _telling_words() & set(_words(value)))


def _is_bare(value: str) -> bool:
    return _is_token(value) and not _is_numbered_name(value)


def _is_numbered_name(value: str) -> bool:
    """Whether a value names a type or variable although it has digits: `Uint8Array`,
    `base64_password`.

    In addition to the known name it may have only words of which such names are made:
    `sha256Hunter` is a password.
    """
    if len(value) > NAME_CHARS or not _IDENTIFIER.match(value.lstrip(_OPERATORS)):
        return False
    module, name = _split_name(value)
    if _DIGIT.search(module):
        return False
    rest, technical_names = _numbered_words().subn(" ", name)
    words = set(_words(rest))
    return (
        technical_names > 0
        and not _DIGIT.search(rest)
        and words <= secret_rules().placeholders["name_words"]
    )


def _split_name(value: str) -> tuple[str, str]:
    """Return the module of a qualified name, and the name in it: `crypto::Key`, `crypto.Key`."""
    last = max(value.rfind(":"), value.rfind("."))
    return value[: last + 1], value[last + 1 :]


@cache
def _numbered_words() -> re.Pattern[str]:
    """Match a known name with digits where a word of an identifier may begin."""
    placeholders = secret_rules().placeholders
    long_names = _any_of(placeholders["numbered"]) + r"(?!\d)"
    short_names = _any_of(placeholders["short_numbered"]) + r"(?![a-z\d])"
    # First what is cheap: hardly any place has letters and a digit before it is worth trying each
    # name.
    begin = r"(?=[A-Za-z]{1,8}\d)(?:(?<![A-Za-z\d])|(?=[A-Z]))"
    return re.compile(f"{begin}(?:{long_names}|{short_names})")


def _any_of(names: Iterable[str]) -> str:
    """Return a pattern of these names in any case, the rest of the pattern minding it."""
    longest_first = sorted(names, key=len, reverse=True)
    return f"(?i:{'|'.join(longest_first)})"


def _is_word(value: str) -> bool:
    if not _is_plain(value) or _is_numbered_name(value):
        return False
    inner_digit = _DIGIT.search(value.rstrip("0123456789")) is not None
    return not _IDENTIFIER.match(value.lstrip(_OPERATORS)) or (
        len(value) >= 8 and (inner_digit or _is_jumbled(value))
    )


def _is_assigned(value: str) -> bool:
    """Whether an unquoted value behind ` = ` is one in code, too: no name of secrets
    (`kXxh3Secrets`)."""
    if not (_is_bare(value) and _is_word(value)):
        return False
    plurals = {f"{word}s" for word in _telling_words()}
    return plurals.isdisjoint(_words(value))


def _is_jumbled(value: str) -> bool:
    """Whether the case changes too often for a name: `paSSeTrVNq` has words of two letters."""
    words = _WORD.findall(value)
    return "$" in value[1:-1] or (
        len(words) > 2 and sum(map(len, words)) <= SHORT_WORDS * len(words)
    )


def _is_spoken(value: str) -> bool:
    has_sign = _LETTER.search(value) and re.search(r"\w[^\w\s.'’/-]+\w", value)
    if not _is_value(value) or _ALGORITHM.match(value) or _is_numbered_name(value):
        return False
    return has_sign is not None or _is_mixed(value)


def _is_clause_end(value: str) -> bool:
    placeholders = secret_rules().placeholders
    words = set(_words(value))
    if words and words <= placeholders["words"] | placeholders["ordinary"]:
        return False
    if _ALGORITHM.match(value) or _DESCRIBES.search(value) or _is_numbered_name(value):
        return False
    return _is_value(value)


def _is_url_example(value: str) -> bool:
    value = unquote(value)
    stem = re.match("[a-z]{4,}", value.lower())
    # Password123.
    is_known = stem is not None and stem[0] in secret_rules().placeholders["words"]
    return _is_value(value) and _is_mixed(value) and not is_known


def _is_dotted(value: str) -> bool:
    return (
        "." in value
        and bool(_IDENTIFIER.match(value.lstrip(_OPERATORS)))
        and max(map(len, value.split("."))) < 24
    )


_TELLING_COOKIE = compiled_late(
    r"sess|sid\b|auth|token|jwt|login|remember|csrf|xsrf|\bid\b", re.IGNORECASE
)


def _is_cookie(value: str) -> bool:
    """Whether one of the pairs of a cookie is a session: its value looks like a key, or its name
    tells."""
    for pair in value.split(";"):
        name, _, content = pair.partition("=")
        if _is_token(content) and (len(content) >= 16 or _TELLING_COOKIE.search(name)):
            return True
    return False


CHECKS: dict[str, Check] = {
    "cookie": _is_cookie,
    "shape": lambda value: len(set(value[-16:])) > 2,
    "mixed": _is_mixed,
    "value": _is_value,
    "token": _is_token,
    "bare": _is_bare,
    "assigned": _is_assigned,
    "plain": _is_plain,
    "sure": _is_sure,
    "word": _is_word,
    "spoken": _is_spoken,
    "clause": _is_clause_end,
    "url": lambda value: _is_value(unquote(value)),
    "example": _is_url_example,
}
NEED_DIGIT = frozenset({"mixed", "token", "bare", "assigned"})
"""Checks that no value without a digit passes."""
