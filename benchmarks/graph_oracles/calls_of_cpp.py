"""Print the calls of a C++ tree as clang resolves them, one JSON object a line: python
calls_of_cpp.py ROOT [FLAG …].

Needs the package `libclang` and the headers of a C++ compiler (`g++`). Every source file is read
with the flags, with the folders that commonly hold headers, and with those headers of the tree. A
constructor counts for precision alone. A macro, and a call that depends on the parameters of a
template, are `unknown`: the name may mean anything. Trade-off: what only a macro says is left out,
and each header counts as the first source that includes it sees it.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clang.cindex import (
    Cursor,
    CursorKind,
    Index,
    TranslationUnit,
    TranslationUnitLoadError,
    conf,
)

SUFFIXES = frozenset({".cc", ".cpp", ".cxx", ".c++"})
HEADER_FOLDERS = (
    "",
    "include",
    "src",
    "single_include",
    "third_party/googletest/googletest/include",
)
FUNCTIONS = frozenset({CursorKind.FUNCTION_DECL, CursorKind.FUNCTION_TEMPLATE})
METHODS = frozenset({CursorKind.CXX_METHOD, CursorKind.CONVERSION_FUNCTION})
CLASSES = frozenset(
    {
        CursorKind.CLASS_DECL,
        CursorKind.STRUCT_DECL,
        CursorKind.CLASS_TEMPLATE,
        CursorKind.UNION_DECL,
    }
)
DEFINED = FUNCTIONS | METHODS | CLASSES
NAMES = frozenset(
    {CursorKind.DECL_REF_EXPR, CursorKind.MEMBER_REF_EXPR, CursorKind.OVERLOADED_DECL_REF}
)

Place = tuple[str, int]


def header_flags() -> list[str]:
    """Return the flags with which libclang finds the headers of the installed compiler."""
    done = subprocess.run(
        ["g++", "-xc++", "-E", "-v", "/dev/null"], check=True, capture_output=True, text=True
    ).stderr.split("\n")
    begin, end = (
        done.index("#include <...> search starts here:"),
        done.index("End of search list."),
    )
    return [f"-isystem{row.strip()}" for row in done[begin + 1 : end]]


class Oracle:
    """Collects calls and definitions of all source files."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._seen = set[str]()
        self._lines: dict[str, list[str]] = {}
        self._paths: dict[str, str] = {}
        self._defined: dict[Place, Place] = {}
        """Place of a declaration -> place of the definition."""
        self.calls: dict[tuple[str, int, Place | None, str, str], None] = {}

    def read(self, unit: TranslationUnit) -> None:
        """Take the calls of a source file and of those headers that are new."""
        new = set[str]()
        for cursor in unit.cursor.get_children():
            path = self._path(cursor)
            if not path or path in self._seen:
                continue
            new.add(path)
            # Which of its definitions counts is not the question.
            if cursor.kind is CursorKind.MACRO_INSTANTIATION:
                self._emit(path, cursor.location.line, None, cursor.spelling, "unknown")
            elif not cursor.kind.is_preprocessing():
                self._walk(cursor)
        self._seen |= new

    def _walk(self, top: Cursor) -> None:
        for cursor in top.walk_preorder():
            if cursor.kind is CursorKind.CALL_EXPR:
                self._call(cursor)
            elif cursor.kind in DEFINED and cursor.is_definition() and self._path(cursor):
                self._defined[self._place(cursor.canonical)] = self._place(cursor)

    def _call(self, cursor: Cursor) -> None:
        path, called = self._path(cursor), cursor.referenced
        name = _name_of(cursor)
        at = cursor.location.line if name is None else name.location.line
        if not path:
            return
        if called is not None and called.kind in (
            CursorKind.CONSTRUCTOR,
            CursorKind.DESTRUCTOR,
        ):
            holder = called.semantic_parent
            self._add(path, cursor.location.line, called, called.spelling, "type")
            self._add(path, cursor.location.line, holder, holder.spelling, "type")
        elif called is not None and (called.kind in FUNCTIONS or called.kind in METHODS):
            is_method = (
                name is not None
                and name.kind is CursorKind.MEMBER_REF_EXPR
                and _has_object(name)
            )
            self._add(path, at, called, called.spelling, "method" if is_method else "plain")
        elif name is not None and name.kind is CursorKind.OVERLOADED_DECL_REF:
            self._add_overloads(path, at, name)
        else:
            text = self._text(path, cursor)
            self._emit(path, at, None, cursor.spelling or text, "unknown")

    def _add_overloads(self, path: str, at: int, name: Cursor) -> None:
        """Count overloads of one class or namespace in one file as one function; otherwise any may
        be meant."""
        count = conf.lib.clang_getNumOverloadedDecls(name)
        overloads = [conf.lib.clang_getOverloadedDecl(name, index) for index in range(count)]
        places = {
            (overload.semantic_parent.get_usr(), self._path(overload)) for overload in overloads
        }
        if len(places) == 1:
            self._add(path, at, overloads[0], name.spelling, "plain")
        else:
            for overload in overloads:
                self._add(path, at, overload, name.spelling, "type")
        self._emit(path, at, None, name.spelling, "unknown")

    def _add(self, path: str, line: int, called: Cursor, name: str, form: str) -> None:
        if self._path(called) and not name.startswith("operator"):
            self._emit(path, line, self._place(called.canonical), name.partition("<")[0], form)

    def _emit(self, path: str, line: int, target: Place | None, name: str, form: str) -> None:
        self.calls[path, line, target, name, form] = None

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield each call with the place where what it calls is defined, or at least
        declared."""
        for path, line, declared, name, form in self.calls:
            # What the text does not say is called by a macro, or by the language itself.
            if form != "type" and name not in self._line(path, line):
                continue
            target, at = ("", 0) if declared is None else self._defined.get(declared, declared)
            yield {
                "path": path,
                "line": line,
                "target": target,
                "at": at,
                "name": name,
                "form": form,
            }

    def _line(self, path: str, line: int) -> str:
        if path not in self._lines:
            self._lines[path] = (self._root / path).read_text("utf-8", "replace").split("\n")
        return self._lines[path][line - 1] if 0 < line <= len(self._lines[path]) else ""

    def _text(self, path: str, cursor: Cursor) -> str:
        """Return the name before the first bracket of a call that nothing is known of."""
        row = self._line(path, cursor.extent.start.line)[cursor.extent.start.column - 1 :]
        head = row.partition("(")[0].rstrip()
        return head[max(head.rfind(mark) for mark in ".>:") + 1 :].strip()

    def _path(self, cursor: Cursor) -> str:
        file = cursor.location.file
        if file is None:
            return ""
        if file.name not in self._paths:
            place = Path(file.name).resolve()
            is_inside = place.is_relative_to(self._root)
            self._paths[file.name] = str(place.relative_to(self._root)) if is_inside else ""
        return self._paths[file.name]

    def _place(self, cursor: Cursor) -> Place:
        return self._path(cursor), cursor.location.line


def _name_of(call: Cursor) -> Cursor | None:
    """Return the node that names what is called: the first down the left side."""
    cursor: Cursor | None = call
    while cursor is not None:
        cursor = next(cursor.get_children(), None)
        if cursor is None or cursor.kind in NAMES:
            return cursor
        if cursor.kind is CursorKind.CALL_EXPR:
            return None
    return None


def _has_object(name: Cursor) -> bool:
    """Whether an object is written before a member; without one it is one of the own class."""
    return next(name.get_children(), None) is not None


def main() -> None:
    """Print the calls of every source file that clang reads."""
    root = Path(sys.argv[1]).resolve()
    flags = ["-xc++", "-std=c++17", *header_flags(), *sys.argv[2:]]
    flags += [f"-I{root / folder}" for folder in HEADER_FOLDERS if (root / folder).is_dir()]
    index, oracle = Index.create(), Oracle(root)
    options = TranslationUnit.PARSE_DETAILED_PROCESSING_RECORD  # for macros
    for path in sorted(path for path in root.rglob("*") if path.suffix in SUFFIXES):
        try:
            oracle.read(index.parse(str(path), args=flags, options=options))
        except TranslationUnitLoadError:
            print(f"clang does not read {path}", file=sys.stderr)
    for row in oracle.rows():
        print(json.dumps(row))


main()
