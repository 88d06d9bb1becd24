"""Load the grammar of a language from its wheel, or say why it cannot be loaded; blank what a
grammar cannot place.

It parses nothing. Trade-off: a grammar counts as usable once it loads; that it fits our query shows
at the first file.
"""

import re
import sys
from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from types import ModuleType

from tree_sitter import Language as Grammar
from tree_sitter import Parser

from xscore.indexer.conditionals import with_whole_definitions
from xscore.indexer.languages import Language, language_named

NOT_INSTALLED = "the grammar is not installed"
_MACRO = (
    rb"(?m)^[ \t]*#(?:[^\n\\]++|\\[\s\S])*+"
    rb"|(?P<before>^[ \t]*|[\s;{}>])(?P<macro>[A-Z][A-Z0-9]*_[A-Z0-9_]*(?:\([^()\n;{}]{0,200}\))?)"
    rb"(?=[ \t]+[A-Za-z_~]|["
    rb" \t]*$)(?!\s{1,80}(?!(?:if|for|while|switch)\b)\w++\s{0,80}\([^;{}()]{0,300}\)\s{0,80}\{)"
    rb"|(?P<head>\)\s{0,80}(?:const\s{1,80})?)(?P<tail>[A-Z][A-Z0-9]*_[A-Z0-9_]*(?:\([^()\n;{}]{0,200}\))?)(?=\s*[{;])"
)
"""Matches a line of the preprocessor, which stays, or a macro to blank. A name before that of a
function is the type that it returns, not a macro."""
_KOTLIN_MODIFIER = (
    rb"\b(?:actual|annotation|data|enum|expect|inner|value)(?=(?:[ \t]+[a-z]+){0,6}[ \t]+"
    rb"(?:class|constructor|fun|interface|object|typealias|va[lr])\b)"
)
_KOTLIN_CONSTRUCTOR = (
    rb"(?<=[\w>`])\n((?:[ \t]|(?:internal|private|protected|public|@\w+)\b)+)constructor\("
)


def load_parser(language: Language) -> "tuple[Parser, Grammar]":
    """Return the parser and the grammar of a language; importing its package may raise anything."""
    module, function = language.grammar.split(":")
    compiled = _compiled_part(module)
    home = compiled if hasattr(compiled, function) else import_module(module)
    grammar = Grammar(getattr(home, function)())
    return Parser(grammar), grammar


def _compiled_part(package: str) -> ModuleType | None:
    """Import only the compiled module of a grammar: the package around it also loads code that
    reads its queries."""
    name = f"{package}._binding"
    package_spec = find_spec(package)
    folders = package_spec.submodule_search_locations if package_spec is not None else None
    if name not in sys.modules and folders:
        spec = PathFinder.find_spec(name, folders)
        if spec is not None and spec.loader is not None:
            module = module_from_spec(spec)
            spec.loader.exec_module(module)
            sys.modules[name] = module
    return sys.modules.get(name)


def lacks_package(name: str) -> bool:
    """Whether the language of this name has a grammar that is not installed. Loads nothing."""
    language = language_named(name)
    return bool(language.grammar) and not _is_installed(language)


def _is_installed(language: Language) -> bool:
    return find_spec(language.grammar.partition(":")[0]) is not None


@cache
def grammar_problem(language: Language) -> str:
    """Return why the grammar of a language cannot be used; empty if it can, or the language has
    none."""
    if not language.grammar:
        return ""
    if not _is_installed(language):
        return NOT_INSTALLED
    try:
        load_parser(language)
    # The package is not ours: its import may run anything.
    except (Exception, SystemExit) as error:
        return f"the grammar does not load ({type(error).__name__}: {error})"
    return ""


def has_grammar(language: Language) -> bool:
    """Whether a language has a grammar that can be used."""
    return bool(language.grammar) and not grammar_problem(language)


def without_grammar(languages: Iterable[str]) -> list[str]:
    """Return those of these languages whose grammar cannot be used, so that their files are read as
    text."""
    return [name for name in languages if grammar_problem(language_named(name))]


def for_grammar(data: bytes, language: Language) -> bytes:
    """Return a file as its grammar can read it. Rows and names stay where they are."""
    prepare = _PREPARED.get(language.family or language.name)
    if prepare is None:
        return data
    return prepare(data)


def _without_macros(data: bytes) -> bytes:
    """Blank macros before a declaration, behind its parameters or alone on a row, which the
    grammars cannot place.

    `class API_EXPORT Pool {`, `LIB_BEGIN_NAMESPACE`. Bytes and rows stay where they are.
    """
    return re.sub(_MACRO, _without_macro, data)


def _without_macro(match: re.Match[bytes]) -> bytes:
    macro = match["macro"] or match["tail"]
    if macro is None:
        return match[0]  # a line of the preprocessor
    before = match["before"] or match["head"] or b""
    return before + b" " * len(macro)


def _in_plain_kotlin(data: bytes) -> bytes:
    """Blank what the grammar takes for names: modifiers behind an annotation, those of a
    constructor on its own row.

    Such a constructor joins the row of its class, and the end of that row follows its `(`: no other
    row moves.
    """
    data = re.sub(_KOTLIN_MODIFIER, lambda match: b" " * len(match[0]), data)
    return re.sub(
        _KOTLIN_CONSTRUCTOR, lambda match: b" " * len(match[1]) + b"constructor(\n", data
    )


def _in_plain_c(data: bytes) -> bytes:
    return _without_macros(with_whole_definitions(data))


_PREPARED: dict[str, Callable[[bytes], bytes]] = {"c": _in_plain_c, "kotlin": _in_plain_kotlin}
"""Family of languages -> what is done to a file before its grammar reads it."""
