"""One file's text in, its pieces out, whatever the file is.

The language's row says how; where a grammar gives up, the file is cut into windows of lines and a note says so.
"""

from xscore.indexer import code, config, prose, windows
from xscore.indexer.facts import FileFacts
from xscore.indexer.languages import Shape, is_test_path, language_of
from xscore.indexer.pieces import Piece, SourceFile, Use
from xscore.indexer.syntax import GaveUp, read
from xscore.records import Kind


def source_file(path: str, text: str, *, window_lines: int) -> SourceFile:
    """Look the file's language up and see whether it holds tests."""
    language = language_of(path)
    return SourceFile(path, text, language, is_test_path(path, language), window_lines)


def cut(source: SourceFile) -> tuple[list[Piece], list[Use], str]:
    """Pieces of the file, what the file as such uses, and a note where the grammar could not be used."""
    if not source.text.strip():
        return [], [], ""
    language = source.language
    if not language.grammar:
        return _by_lines(source), [], ""
    try:
        found = read(source.text.encode(), language)
    except GaveUp as error:
        return windows.cut(source), [], str(error)
    match language.shape:
        case Shape.CODE:
            return code.cut(source, found), FileFacts(source, found).file_uses(), ""
        case Shape.PROSE:
            return prose.cut(source, found), [], ""
        case _:
            return config.cut(source, found), [], ""


def by_windows(source: SourceFile) -> list[Piece]:
    """The last resort for a file on which a grammar crashed."""
    return windows.cut(source)


def _by_lines(source: SourceFile) -> list[Piece]:
    match source.language.shape:
        case Shape.PROSE:
            return prose.cut(source, None)
        case Shape.CONFIG:
            return config.cut(source, None)
        case _:
            return windows.cut(source, kind=Kind.TEXT)
