"""Damaged and malicious files in every language: cut without an error, no line lost, lines and
bytes right."""

from collections.abc import Callable

import pytest

from tests.indexer.conftest import cut_within_limits, unseen_rows
from tests.indexer.samples import SAMPLES
from xscore.indexer.admission import decode_text
from xscore.indexer.grammars import has_grammar
from xscore.indexer.languages import LANGUAGES
from xscore.indexer.memories import source_file
from xscore.indexer.syntax import parse_syntax
from xscore.platform.files import FileRefused
from xscore.settings import IndexSettings

DEEP = 100_000
ROW = 4_000
OTHER = b"def f(x):\n    return [x, {'a': (1, \"\n'''\n"


def rows_of(text: str) -> bytes:
    """Break a text into lines short enough to be read."""
    return "\n".join(text[at : at + ROW] for at in range(0, len(text), ROW)).encode()


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "untouched": lambda data: data,
    "cut off": lambda data: data[: len(data) * 2 // 3],
    "from the middle": lambda data: data[len(data) // 3 :],
    "twice in itself": lambda data: data[: len(data) // 2] + data + data[len(data) // 2 :],
    "another language within": lambda data: (
        data[: len(data) // 2] + OTHER + data[len(data) // 2 :]
    ),
    "old Mac line ends": lambda data: data.replace(b"\n", b"\r"),
    "mixed line ends": lambda data: data.replace(b"\n", b"\r\n", 3).replace(b"\n", b"\n\r", 2),
    "byte order mark": lambda data: b"\xef\xbb\xbf" + data,
    "UTF-16": lambda data: data.decode().encode("utf-16"),
    "not UTF-8": lambda data: data.replace(b"e", b"\xe9", 4) + b"\xed\xa0\x80\xff",
    "other line breaks": lambda data: data.replace(
        b" ", "\u2028\x0b\x85\x1c\ufeff\u0130".encode(), 2
    ),
    "brackets never closed": lambda data: (
        data.replace(b")", b"").replace(b"}", b"").replace(b"]", b"")
    ),
    "brackets never opened": lambda data: (
        data.replace(b"(", b"").replace(b"{", b"").replace(b"[", b"")
    ),
    "only errors": lambda data: b"}} ) ]] @@ ?? <> %% $$ ~~ \\ \n" * 200 + data[:20],
    "one row of many": lambda data: (data.replace(b"\n", b" ") * (1 + ROW // len(data)))[:ROW],
    "nested in brackets": lambda data: data + rows_of("f({[" * (DEEP // 3)),
    "a chain of calls": lambda data: data + b"\nx = a" + rows_of(".b()" * 16_000),
    "nested in marks": lambda data: data + rows_of("- " * DEEP),
    "nested by indentation": lambda data: (
        data + "\n".join(" " * (at % 300) + "if x:" for at in range(450)).encode()
    ),
}
REFUSED: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "NUL": (lambda data: data[:20] + b"\0" + data[20:], "binary"),
    "10 MB on one row": (lambda data: b"x = [" + b"1, " * 3_400_000, "long_lines"),
}


def test_every_language_has_a_sample() -> None:
    """One sample for each row of the language table; languages cut only into windows share one."""
    assert SAMPLES.keys() == {row.name for row in LANGUAGES}


@pytest.mark.parametrize("language", SAMPLES)
def test_damage_costs_no_line_and_no_run(language: str) -> None:
    """Each kind of damage in each language: the file is cut, and each non-blank line is in some
    memory."""
    path, sample = SAMPLES[language]
    for kind, damage in DAMAGES.items():
        data = damage(sample.encode())
        try:
            text = decode_text(data, path, max_line_chars=IndexSettings().max_line_chars)
        except FileRefused as refusal:
            assert str(refusal) in {"data", "broken_notebook"}, (
                kind
            )  # a notebook that is none, structured text of 100 kB
            continue
        source = source_file(path, text, window_lines=60)
        drafts, note = cut_within_limits(source)
        assert unseen_rows(source, drafts) == [], kind
        assert all(0 <= draft.start <= draft.end < len(source.lines) for draft in drafts), kind
        assert len(drafts) <= 2 * len(source.lines) + 8, kind
        if has_grammar(source.language) and not note:
            check_places(text.encode(), language, path)


def check_places(data: bytes, language: str, path: str) -> None:
    """Assert that lines and bytes of every definition agree."""
    syntax = parse_syntax(data, source_file(path, "", window_lines=60).language)
    for definition in syntax.definitions:
        assert (
            definition.start_byte
            <= definition.inner_start_byte
            <= definition.body_byte
            <= definition.end_byte
            <= len(data)
        ), language
        assert data.count(b"\n", 0, definition.start_byte) == definition.start, language
        assert data.count(b"\n", 0, definition.inner_start_byte) == definition.inner_start, (
            language
        )


@pytest.mark.parametrize("kind", REFUSED)
def test_some_damage_keeps_a_file_out(kind: str) -> None:
    """A NUL or a line of 10 MB excludes the file, with a reason."""
    damage, reason = REFUSED[kind]
    with pytest.raises(FileRefused, match=reason):
        decode_text(
            damage(SAMPLES["python"][1].encode()),
            "a.py",
            max_line_chars=IndexSettings().max_line_chars,
        )


@pytest.mark.parametrize(
    "cells",
    ['"abc"', '{"a": 1}', "[NaN]", "[null]", "9" * 9_000, "[" * DEEP, "[" * 900 + "]" * 900],
)
def test_a_notebook_that_is_none_is_data(cells: str) -> None:
    """JSON of another structure, with absurd numbers, or nested too deeply."""
    with pytest.raises(FileRefused, match="broken_notebook"):
        decode_text(f'{{"cells": {cells}}}'.encode(), "a.ipynb", max_line_chars=5_000)


def test_a_notebook_holds_what_no_text_can() -> None:
    """Half a character, a carriage return and a repeated key are accepted; an escaped NUL is
    binary."""
    cell = (
        '{"cell_type": "code", "source": "x = 1", "source": ["a = \\"\\ud800\\"\\r\\n", "b"]}'
    )
    text = decode_text(
        f'{{"cells": [], "cells": [{cell}]}}'.encode(), "a.ipynb", max_line_chars=5_000
    )
    assert text == '# %%\na = "?"\nb'
    with pytest.raises(FileRefused, match="binary"):
        decode_text(
            b'{"cells": [{"cell_type": "code", "source": "\\u0000"}]}',
            "a.ipynb",
            max_line_chars=5_000,
        )
