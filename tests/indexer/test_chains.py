"""A chain goes through a choice of two values, in every way that a language writes one, and ends
where code is broken."""

import pytest

from tests.indexer.conftest import Index, arrows
from xscore.indexer.chains import chain_of
from xscore.indexer.grammars import load_parser
from xscore.indexer.languages import language_named

PHP_CLASS = "<?php\nclass Store\n{\n    public function save() {}\n}\n\n"
CPP_CLASS = "struct Store {\n  void save() {}\n};\n\nStore *make() { return new Store(); }\n\n"
CHOICES = {
    "ternary.php": (
        "function ternary($is_new, Store $given)\n{\n"
        "    $store = $is_new ? new Store() : $given;\n    $store->save();\n}\n"
    ),
    "elvis.php": (
        "function elvis(?Store $given)\n{\n"
        "    $store = $given ?: new Store();\n    $store->save();\n}\n"
    ),
    "coalesced.php": (
        "function coalesced(?Store $given)\n{\n    ($given ?? new Store())->save();\n}\n"
    ),
    "elvis.cpp": (
        "void elvis(Store *given) {\n  Store *store = given ?: make();\n  store->save();\n"
        "  (given ?: make())->save();\n}\n"
    ),
    "ternary.cpp": (
        "void ternary(bool is_new, Store *given) {\n  (is_new ? make() : given)->save();\n}\n"
    ),
}


@pytest.mark.parametrize("name", CHOICES)
def test_a_choice_of_two_values_is_followed(index: Index, name: str) -> None:
    """It is followed without a value between `?` and `:`, too, and whatever the grammar calls
    the parts."""
    definitions = PHP_CLASS if name.endswith(".php") else CPP_CLASS
    index.of({name: definitions + CHOICES[name]})
    function = name.partition(".")[0]
    assert arrows(f"{name}:{function} -> {name}:Store.save") <= index.edges("calls")


BROKEN = {
    "python": "(,).a; (if else).b; x = a if else; (*,)[0]; await .c()",
    "javascript": "(a ? : b).c(); (? :).d; x = a ?; new ().e; (await).f; [][].g",
    "typescript": "(a as ).b(); x = <>c; (a ? : b)!.d; (!).e()",
    "php": "<?php ($a ? : $b)->c(); $x = $a ?; (new )->d(); ()->e();",
    "cpp": "void f() { (a ? : b)->c(); x = a ? ; (*)->d(); (<>)(e).g(); }",
    "csharp": "class C { void M() { (a ? : b).D(); var x = a ?; new ().E(); (a as ).F(); } }",
    "ruby": "(a ? : b).c; x = a ?; ().d; [][].e; -> {}.f",
    "go": "package a\n\nfunc f() { ().b(); x := ; a[].c(); (*).d(); a.().e() }",
    "rust": "fn f() { ().a(); (?).b(); x = &; (as u8).c(); .await }",
    "java": "class C { void m() { (a ? : b).d(); x = a ?; new ().e(); ().g(); } }",
}


@pytest.mark.parametrize("language", BROKEN)
def test_a_chain_ends_where_code_is_broken(language: str) -> None:
    """Whatever part of an expression is missing, there is a chain or none: no error, no end
    that never comes."""
    data = BROKEN[language].encode()
    parser, _ = load_parser(language_named(language))
    waiting = [parser.parse(data).root_node]
    while waiting:
        node = waiting.pop()
        waiting.extend(node.children)
        assert isinstance(chain_of(node, data), str)
