"""A call means every definition that takes its arguments."""

import pytest

from tests.indexer.conftest import Index, arrows

TWINS: dict[str, tuple[dict[str, str], set[tuple[str, str]]]] = {
    "java": (
        {
            "p/F.java": (
                "package p;\n\n"
                "public class F {\n"
                "  public static int join(int a, int b) {\n"
                "    return a;\n"
                "  }\n\n"
                "  public static int join(int a, int b, int c) {\n"
                "    return a;\n"
                "  }\n\n"
                "  public static int join(int[] a) {\n"
                "    return 0;\n"
                "  }\n\n"
                "  public static int join(String a) {\n"
                "    return 0;\n"
                "  }\n"
                "}\n"
            ),
            "q/U.java": (
                "package q;\n\n"
                "import static p.F.join;\n\n"
                "class U {\n"
                "  int two() {\n"
                "    return join(1, 2);\n"
                "  }\n\n"
                "  int three() {\n"
                "    return join(1, 2, 3);\n"
                "  }\n"
                "}\n"
            ),
            "q/V.java": (
                "package q;\n\n"
                "import p.F;\n\n"
                "class V {\n"
                "  int two() {\n"
                "    return F.join(1, 2);\n"
                "  }\n\n"
                "  int one(F given) {\n"
                "    return given.join(1);\n"
                "  }\n"
                "}\n"
            ),
        },
        arrows(
            "U.java:U.two -> F.java:F.join",
            "U.java:U.three -> F.java:F.join#2",
            "V.java:V.two -> F.java:F.join",
            "V.java:V.one -> F.java:F.join#3 F.java:F.join#4",
        ),
    ),
    "c#": (
        {
            "F.cs": (
                "class F\n{\n  public static int Join(int a)\n  {\n    return a;\n  }\n\n"
                "  public static int Join(int a, int b)\n  {\n    return a;\n  }\n}\n"
            ),
            "U.cs": "class U\n{\n  int One()\n  {\n    return F.Join(1);\n  }\n}\n",
        },
        arrows("U.cs:U.One -> F.cs:F.Join"),
    ),
    "kotlin": (
        {
            "p/F.kt": (
                "package p\n\nfun glue(a: Int): Int {\n    return a\n}\n\n"
                "fun glue(a: Int, b: Int): Int {\n    return glue(a)\n}\n"
            ),
            "q/U.kt": (
                "package q\n\nimport p.glue\n\nfun one(): Int {\n    return glue(1)\n}\n\n"
                "fun unclear(): Int {\n    return glue(1) { 2 }\n}\n"
            ),
        },
        arrows(
            "F.kt:glue#2 -> F.kt:glue",
            "U.kt:one -> F.kt:glue",
            "U.kt:unclear -> F.kt:glue F.kt:glue#2",
        ),
    ),
    "c++": (
        {
            "f.h": (
                "int glue(int a) {\n"
                "  return a;\n"
                "}\n\n"
                "int glue(int a, int b) {\n"
                "  return glue(a);\n"
                "}\n"
            ),
            "u.cpp": '#include "f.h"\n\nint one() {\n  return glue(1);\n}\n',
        },
        arrows("f.h:glue#2 -> f.h:glue", "u.cpp:one -> f.h:glue"),
    ),
    "rust": (
        {
            "Cargo.toml": '[package]\nname = "shop"\n',
            "src/lib.rs": (
                "#[cfg(unix)]\n"
                "pub fn mode() -> u8 {\n"
                "    1\n"
                "}\n\n"
                "#[cfg(windows)]\n"
                "pub fn mode() -> u8 {\n"
                "    2\n"
                "}\n\n"
                "pub fn user() -> u8 {\n"
                "    mode()\n"
                "}\n"
            ),
        },
        arrows("lib.rs:user -> lib.rs:mode lib.rs:mode#2"),
    ),
    "python": (
        {
            "m.py": (
                "if fast:\n"
                "    def mode():\n"
                "        return 1\n"
                "else:\n"
                "    def mode():\n"
                "        return 2\n"
            ),
            "use.py": "from m import mode\n\n\ndef user():\n    return mode()\n",
        },
        arrows("use.py:user -> m.py:mode m.py:mode#2"),
    ),
    "ruby": (
        {
            "page.rb": (
                "class Page\n  def self.render(text)\n    new.render(text)\n  end\n\n"
                "  def render(text)\n    text\n  end\nend\n"
            ),
        },
        arrows("page.rb:Page.render -> page.rb:Page.render#2"),
    ),
    "go": (
        {
            "go.mod": "module example.com/a\n",
            "a.go": 'package a\n\nfunc report(n int) int {\n\treturn min(n, len("x"))\n}\n',
            "b.go": "package a\n\nfunc min(a, b int) int {\n\treturn b\n}\n",
        },
        arrows("a.go:report -> b.go:min"),
    ),
}


@pytest.mark.parametrize("name", TWINS)
def test_a_call_means_every_definition_that_takes_its_arguments(
    name: str, index: Index
) -> None:
    """Overloads are chosen by the number of arguments, in any file; twins for platforms are all
    meant."""
    files, expected = TWINS[name]
    index.of(files)
    assert index.edges("calls") == expected
