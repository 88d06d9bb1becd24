"""Tell whether a Go file belongs to a usual build, by its build constraint and its name.

A package may define one name in several files, each for builds of its own: what the usual build has
is meant. Usual is Linux on amd64 without tags of the project. Trade-off: a constraint of more than
`MAX_TOKENS` words counts as met.
"""

import re

_TAGS = frozenset({"linux", "amd64", "unix", "gc", "cgo"})
"""Tags that hold in a usual build, not counting those of Go's versions."""
_PLATFORMS = frozenset(
    """
    aix android darwin dragonfly freebsd illumos ios js netbsd openbsd plan9 solaris wasip1 windows
    zos 386 arm arm64 loong64 mips mips64 mips64le mipsle ppc64 ppc64le riscv64 s390x wasm
    """.split()
)
_CONSTRAINT = re.compile(r"^//go:build[ \t]+([^\n]{1,400})", re.MULTILINE)
_OLD_CONSTRAINT = re.compile(r"^// ?\+build[ \t]+([^\n]{1,400})", re.MULTILINE)
_TOKEN = re.compile(r"[\w.]+|&&|\|\||[!()]")
_VERSION = re.compile(r"go1(\.\d+)?\Z")
MAX_TOKENS = 60


def is_usual_build(path: str, text: str) -> bool:
    """Return whether a file of this path and text is in a usual build."""
    parts = path.rpartition("/")[2].removesuffix(".go").removesuffix("_test").split("_")
    # `net_linux_arm64.go`: the last one or two parts behind the name are platforms.
    if not _PLATFORMS.isdisjoint(parts[1:][-2:]):
        return False
    before_package = text.partition("\npackage ")[0]
    constraint = _CONSTRAINT.search(before_package)
    if constraint:
        stated = constraint[1]
    else:
        stated = _in_new_form(_OLD_CONSTRAINT.findall(before_package))
    tokens = _TOKEN.findall(stated)
    return not tokens or len(tokens) > MAX_TOKENS or _any_of(tokens)


def _in_new_form(lines: list[str]) -> str:
    """`// +build linux,!cgo darwin` -> `(linux&&!cgo||darwin)`; all lines have to hold."""
    terms = (line.replace(",", "&&").split() for line in lines)
    return "&&".join(f"({'||'.join(alternatives)})" for alternatives in terms)


def _any_of(tokens: list[str]) -> bool:
    """Read terms with `||` between them from the left, and take them off."""
    holds = _all_of(tokens)
    while tokens and tokens[0] == "||":
        tokens.pop(0)
        following = _all_of(tokens)
        holds = holds or following
    return holds


def _all_of(tokens: list[str]) -> bool:
    holds = _term(tokens)
    while tokens and tokens[0] == "&&":
        tokens.pop(0)
        following = _term(tokens)
        holds = holds and following
    return holds


def _term(tokens: list[str]) -> bool:
    word = tokens.pop(0) if tokens else ""
    if word == "!":
        return not _term(tokens)
    if word != "(":
        return word in _TAGS or bool(_VERSION.match(word))
    holds = _any_of(tokens)
    if tokens:
        tokens.pop(0)
    return holds
