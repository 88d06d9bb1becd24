"""Candidates like a real source tree: the standard library of the running Python."""

import ast
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from xscore.platform.hashing import content_hash, memory_id
from xscore.records.candidates import Candidate
from xscore.records.memory import Kind, Layer

PACKAGES = ("asyncio", "email", "json", "logging")


def candidate(
    path: str, entity: str, text: str, *, line: int = 1, tokens: int | None = None
) -> Candidate:
    """A code candidate with hash and tokens of its text."""
    return Candidate(
        id=memory_id("graph", path, "function", entity),
        content_hash=content_hash(path, entity, text),
        layer=Layer.GRAPH,
        kind=Kind.FUNCTION,
        path=path,
        entity=entity,
        start_line=line,
        end_line=line + text.count("\n"),
        language="python",
        tokens=len(text) // 4 + 1 if tokens is None else tokens,
        updated_at=0.0,
    )


def _definitions(source: str) -> Iterator[tuple[str, int, str]]:
    tree = ast.parse(source)
    stack: list[tuple[str, ast.AST]] = [("", tree)]
    while stack:
        prefix, node = stack.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = f"{prefix}{child.name}"
                is_class = isinstance(child, ast.ClassDef)
                lines = source.splitlines(keepends=True)[child.lineno - 1 : child.end_lineno]
                yield name, child.lineno, "".join(lines[:8] if is_class else lines)
                if is_class:
                    stack.append((f"{name}.", child))


@cache
def real_code() -> tuple[tuple[Candidate, str], ...]:
    """Every function, method and class header of a few real packages, with its text."""
    root = Path(sysconfig.get_path("stdlib"))
    code_by_id: dict[str, tuple[Candidate, str]] = {}
    for package in PACKAGES:
        for file in sorted((root / package).rglob("*.py")):
            path = file.relative_to(root).as_posix()
            for name, line, text in _definitions(file.read_text("utf-8")):
                memory = candidate(path, name, text, line=line)
                code_by_id.setdefault(memory.id, (memory, text))
    return tuple(code_by_id.values())
