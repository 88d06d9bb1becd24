"""Load the grammar of a language from its wheel, or say why it cannot be loaded.

It parses nothing. Trade-off: a grammar counts as usable once it loads; that it fits our query shows at the first file.
"""

import sys
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import TYPE_CHECKING

from xscore.indexer.languages import Language, language_named

if TYPE_CHECKING:
    from tree_sitter import Language as Grammar
    from tree_sitter import Parser

NOT_INSTALLED = "the grammar is not installed"


def load_parser(language: Language) -> "tuple[Parser, Grammar]":
    """Return the parser and the grammar of a language; importing its package may raise anything."""
    from tree_sitter import Language as Grammar
    from tree_sitter import Parser

    module, function = language.grammar.split(":")
    compiled = _compiled_part(module)
    home = compiled if hasattr(compiled, function) else import_module(module)
    grammar = Grammar(getattr(home, function)())
    return Parser(grammar), grammar


def _compiled_part(package: str) -> ModuleType | None:
    """Import only the compiled module of a grammar: the package around it also loads code that reads its queries."""
    name, found = f"{package}._binding", find_spec(package)
    if name not in sys.modules and found is not None and found.submodule_search_locations:
        spec = PathFinder.find_spec(name, found.submodule_search_locations)
        if spec is not None and spec.loader is not None:
            made = module_from_spec(spec)
            spec.loader.exec_module(made)
            sys.modules[name] = made
    return sys.modules.get(name)


def grammar_problem(language: str) -> str:
    """Return why the grammar of a language cannot be used; empty: it can, or the language has none."""
    return _problem_of(language_named(language))


@cache
def _problem_of(row: Language) -> str:
    if not row.grammar:
        return ""
    if find_spec(row.grammar.partition(":")[0]) is None:
        return NOT_INSTALLED
    try:
        load_parser(row)
    except (Exception, SystemExit) as error:  # the package is not ours: its import may run anything
        return f"the grammar does not load ({type(error).__name__}: {error})"
    return ""


def has_grammar(language: str) -> bool:
    """Whether a language has a grammar that can be used."""
    return bool(language_named(language).grammar) and not grammar_problem(language)


def without_grammar(languages: Iterable[str]) -> list[str]:
    """Return those of these languages whose grammar cannot be used, so that their files are read as text."""
    return [name for name in languages if grammar_problem(name)]
