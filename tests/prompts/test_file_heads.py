"""Only the imports of a file's head that the shown pieces use are shown with them."""

import pytest

from xscore.prompts.file_heads import used_head

PYTHON = '''"""Carts."""

import json
import os.path
import numpy as np
from decimal import Decimal
from shop.prices import (
    discount,
    total,
)
from shop.everything import *

MOST = 5'''


def test_imports_that_nothing_uses_are_left_out() -> None:
    """A used one stays whole, and so do other lines; the gap says how many imports are gone."""
    head = used_head(PYTHON, ["def f():\n    return total([MOST])"])
    assert "    discount,\n    total," in head and "MOST = 5" in head and '"""Carts."""' in head
    assert "import *" in head
    assert "json" not in head and "Decimal" not in head and "numpy" not in head
    assert "4 imports" in head


@pytest.mark.parametrize(
    ("name", "line"), [("np", "numpy as np"), ("os", "os.path"), ("Decimal", "import Decimal")]
)
def test_a_name_is_what_the_import_binds(name: str, line: str) -> None:
    """An alias, the first part of a dotted module, or the name after `import`."""
    assert line in used_head(PYTHON, [f"x = {name}.y()"])


def test_what_all_use_and_short_heads_stay_as_they_are() -> None:
    """A head whose imports are all used, or of three lines, is not touched."""
    assert used_head(PYTHON, ["json os np Decimal total"]) == PYTHON
    assert used_head("import a\nimport b", ["c"]) == "import a\nimport b"


@pytest.mark.parametrize(
    ("head", "used", "kept", "gone"),
    [
        (
            'import a from "x";\nimport { b as c, d } from "y";\n'
            'import type { T } from "z";\nimport "./e.css";',
            "c()",
            "b as c",
            "type { T }",
        ),
        (
            'package p\n\nimport (\n\t"fmt"\n\t"net/http"\n)\n',
            "http.Get()",
            "net/http",
            "nothing",
        ),
        ("use a::b::{C, D};\nuse e::F;\n\npub use g::H;", "F::new()", "use e::F", "a::b"),
        (
            "package p;\n\nimport java.util.List;\nimport java.util.Map;",
            "Map<K, V> m",
            "java.util.Map",
            "List",
        ),
        ("#include <a.h>\n#include <b.h>\n#define X 1\nint y;", "f()", "<b.h>", "nothing"),
    ],
    ids=["typescript", "go", "rust", "java", "c"],
)
def test_imports_of_other_languages(head: str, used: str, kept: str, gone: str) -> None:
    """By what each language's import binds; what cannot be told stays."""
    shown = used_head(head, [used])
    assert kept in shown and gone not in shown
