"""Definitions of C that conditionals of the preprocessor cut in two."""

import pytest

from tests.indexer.conftest import pieces_of
from xscore.indexer.conditionals import MOST_NESTED, with_whole_definitions

BEHIND = "\nint behind(int x) {\n  return x;\n}\n"
CUT = {
    "wide": "#ifdef WIN\nint wide(int a) {\n#else\nint main(int a) {\n#endif\n  return a;\n}\n",
    "ulp": (
        "static double\n"
        "ulp\n"
        "#ifdef OLD\n"
        " (x) double x;\n"
        "#else\n"
        " (double x)\n"
        "#endif\n"
        "{\n"
        "  return x;\n"
        "}\n"
    ),
    "halves": (
        "int halves(int a) {\n"
        "  if (a > 1\n"
        "#ifdef A\n"
        "      && a < 9\n"
        "#endif\n"
        "  ) {\n"
        "    a = 2;\n"
        "  }\n"
        "  return a;\n"
        "}\n"
    ),
    "opened": (
        "int opened(int a) {\n"
        "#ifdef A\n"
        "  if (a) {\n"
        "#endif\n"
        "  a++;\n"
        "#ifdef A\n"
        "  }\n"
        "#endif\n"
        "  return a;\n"
        "}\n"
    ),
    "agreed": (
        "int agreed(int a) {\n#ifdef A\n  if (a) {\n  }\n#else\n  if (!a) {\n#endif\n  a++;\n"
        "#ifndef A\n  }\n#endif\n  return a;\n}\n"
    ),
    "tested": (
        "int tested(int a) {\n"
        "#ifdef A\n"
        "  if (a > 1)\n"
        "#else\n"
        "  if (a)\n"
        "#endif\n"
        "    a++;\n"
        "  return a;\n"
        "}\n"
    ),
    "now": "#if 0\nint old(int a) {\n#else\nint now(int a) {\n#endif\n  return a;\n}\n",
    "both": (
        '#ifdef __cplusplus\nextern "C" {\n#endif\n\nint both(int a) {\n  return a;\n}\n\n'
        "#ifdef __cplusplus\n}\n#endif\n"
    ),
    "one": (
        "#if A\n# if B\nint one(int a)\n# else\nint two(int a)\n# endif\n{\n#else\n"
        "int three(void) {\n#endif\n  return 1;\n}\n"
    ),
    "said": (
        "#ifdef A\n"
        "int said(void) {\n"
        '  say("}"); // }\n'
        "#else\n"
        "int said(int x) {\n"
        "#endif\n"
        "  return '}';\n"
        "}\n"
    ),
    "make": "static SOME_TYPE\nmake (const char *a, int b)\n{\n  return 1;\n}\n",
}
"""A function of each name, which the grammar alone does not find."""


@pytest.mark.parametrize("name", CUT)
def test_a_definition_that_a_conditional_cuts_is_whole(name: str) -> None:
    """It is a memory with all its rows, text as written, and so is the definition after it."""
    text = CUT[name] + BEHIND
    pieces = pieces_of("a.c", text)
    functions = {key: piece for key, piece in pieces.items() if piece.kind == "function"}
    assert set(functions) == {name, "behind"}
    assert functions["behind"].text == BEHIND.strip()
    assert functions[name].text in text and functions[name].text.endswith("}")


def test_a_linkage_names_nothing() -> None:
    """`extern "C"` is no part of a name, inside of a namespace neither."""
    inner = 'extern "C" {{\nint {}(int x) {{\n  return x;\n}}\n}}\n'
    text = "namespace a {\n" + inner.format("f") + "}\n\n" + inner.format("g")
    functions = [
        key for key, piece in pieces_of("a.cpp", text).items() if piece.kind == "function"
    ]
    assert functions == ["a.f", "g"]


def test_conditionals_around_whole_definitions_are_left_alone() -> None:
    """Both branches stay where each is whole; a header's guard, too."""
    text = (
        "#ifndef A_H\n"
        "#define A_H\n"
        "#if A\n"
        "int one(void) {\n"
        "}\n"
        "#else\n"
        "int two(void) {\n"
        "}\n"
        "#endif\n"
        "MAKE(x)\n"
        "#endif\n"
    )
    assert with_whole_definitions(text.encode()) == text.encode()
    assert {"one", "two"} <= set(pieces_of("a.c", text))


def test_rows_and_bytes_stay_where_they_are() -> None:
    """Blanked text keeps its length and its line breaks, also where directives never end."""
    for text in [
        *CUT.values(),
        "#if A\n" * 300 + "}\n",
        "#endif\n#else\n" * 9,
        "#if é\nint f(\n#endif\n)",
    ]:
        read = with_whole_definitions(text.encode())
        assert len(read) == len(text.encode())
        assert [row for row, byte in enumerate(read) if byte == 10] == [
            row for row, byte in enumerate(text.encode()) if byte == 10
        ]


def test_deep_conditionals_are_left_alone() -> None:
    """Conditionals nested deeper than the bound are not resolved, so that the work stays
    bounded."""
    depth = MOST_NESTED + 50
    text = "#if A\n" * depth + "int f(\n" + "#endif\n" * depth
    assert with_whole_definitions(text.encode()).count(b"#") >= 2 * 50
