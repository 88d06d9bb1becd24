"""TOML of strangers is refused before it costs more than its length."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cpu_time import assert_costs
from xscore.platform.errors import UsageError
from xscore.platform.toml_text import MOST_DOTS, MOST_ITEMS, MOST_PARTS, parse_toml
from xscore.settings import Settings, load_settings

HOSTILE_TEXTS: dict[str, Callable[[], str]] = {
    "keys below a long header": lambda: (
        f"[{'.'.join('a' * 20_000)}]\n" + "".join(f"k{n}=1\n" for n in range(5_000))
    ),
    "a long key": lambda: f"{'.'.join('a' * 40_000)} = 1\n",
    "a long quoted key": lambda: " . ".join(['"a.b"'] * 10_000) + " = 1\n",
    "a long key of an inline table": lambda: f"x = {{{'.'.join('a' * 40_000)} = 1}}\n",
    "keys in a string's last line": lambda: (
        'x = ["""\n\'""", {' + ".".join("a" * 40_000) + " = 1}]\n"
    ),
    "many dotted keys": lambda: "".join(
        f"{'.'.join('a' * 10)}.k{n} = 1\n" for n in range(40_000)
    ),
    "many tables": lambda: "".join(f"[[{'.'.join('a' * 10)}]]\n" for n in range(40_000)),
    "many values": lambda: f"x = [{'[{a=1}],' * 100_000}]\n",
    "escapes that never close": lambda: 'x = "' + '\\"' * 450_000,
    "quoted keys that never close": lambda: '"\\"' * 300_000,
    "brackets": lambda: "x = " + "[" * 900_000,
    "blank lines": lambda: "\n" * 900_000,
}


@pytest.mark.parametrize("kind", HOSTILE_TEXTS)
def test_a_hostile_text_costs_little(kind: str) -> None:
    """Whatever fills a file, refusing or reading it costs no more than reading an ordinary long
    one."""
    text = HOSTILE_TEXTS[kind]()
    ordinary = "".join(f"key{number} = {number}\n" for number in range(5_000))

    def parse() -> None:
        with pytest.raises(ValueError):
            parse_toml(text)

    assert_costs(parse, than=lambda: parse_toml(ordinary), at_most=4)


def test_what_projects_write_is_read() -> None:
    """A name of the most parts, dots in values, and long lists are no reason to refuse a file."""
    name = ".".join("a" * MOST_PARTS)
    assert parse_toml(f"{name} = 1\n") == parse_toml(
        f" [ {name.removesuffix('.a')} ]\n'a' = 1\n"
    )
    requirements = ", ".join(
        f'"package-{number} == 1.0.{number}"' for number in range(MOST_DOTS // 2)
    )
    assert (
        len(parse_toml(f"dependencies = [{requirements}]\n")["dependencies"]) == MOST_DOTS // 2
    )
    lines = "".join(f"k{number} = 1\n" for number in range(MOST_ITEMS // 2))
    assert len(parse_toml(lines)) == MOST_ITEMS // 2
    prose = '"""\n' + "A line. With. Some. Full. Stops. In. It.\n" * 500 + '"""'
    assert parse_toml(f"text = {prose}\n")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            f"a = 1\n[{'.'.join('b' * (MOST_PARTS + 1))}]\n",
            f"line 2 has a name of more than {MOST_PARTS} dotted parts",
        ),
        (f"a = 1\nb = '{'.' * (MOST_DOTS + 1)}'\n", f"line 2 has more than {MOST_DOTS:,} dots"),
        (
            "\n" * (MOST_ITEMS + 1),
            f"it has more than {MOST_ITEMS:,} lines, values, dots and escapes in all",
        ),
        ("a = " + "[" * 2_000, "it is nested too deeply"),
    ],
)
def test_a_refusal_says_what_is_too_much(tmp_path: Path, text: str, sentence: str) -> None:
    """`.xscore.toml` is an error as any invalid one; `pyproject.toml`, which others own, a
    warning."""
    (tmp_path / ".xscore.toml").write_text(text)
    with pytest.raises(UsageError, match=sentence):
        load_settings(repo_root=tmp_path, user_file=None, environ={})
    (tmp_path / ".xscore.toml").unlink()
    (tmp_path / "pyproject.toml").write_text(f"{text}\n# xscore\n")
    loaded = load_settings(repo_root=tmp_path, user_file=None, environ={})
    assert loaded.settings == Settings()
    assert [warning for warning in loaded.warnings if sentence in warning] == list(
        loaded.warnings
    )
