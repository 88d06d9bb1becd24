"""Print the calls of a Python tree as jedi follows them, one JSON object a line: python calls.py
ROOT.

A decorator is a call too. A name that jedi cannot follow is left out.
"""

import ast
import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import jedi

warnings.simplefilter("ignore")


def calls_of(tree: ast.Module) -> Iterator[tuple[int, int, str]]:
    """Yield line and column of the last part of each called name, and how it is called."""
    for node in ast.walk(tree):
        called = [node.func] if isinstance(node, ast.Call) else []
        called += getattr(node, "decorator_list", [])
        for function in called:
            if isinstance(function, ast.Name):
                yield function.lineno, function.col_offset, "plain"
            elif isinstance(function, ast.Attribute):
                yield (
                    function.end_lineno,
                    function.end_col_offset - len(function.attr),
                    "method",
                )


def main() -> None:
    """Print the calls of every file that Python can read."""
    root = Path(sys.argv[1]).resolve()
    project = jedi.Project(root, added_sys_path=[str(root), str(root / "src")])
    for path in sorted(root.rglob("*.py")):
        text = path.read_text("utf-8", "replace")
        try:
            places = list(calls_of(ast.parse(text)))
        except SyntaxError:
            continue
        script = jedi.Script(text, path=path, project=project)
        for line, column, form in places:
            try:
                targets = script.goto(line, column, follow_imports=True)
                # `Str = String` is the class that it names.
                named = [
                    target.infer() if target.type == "statement" else [target]
                    for target in targets
                ]
            # Jedi fails in many ways on code it cannot follow: the call is then left out.
            except Exception:
                continue
            for target in (target for targets in named for target in targets):
                place = target.module_path
                if (
                    target.type not in ("function", "class")
                    or not place
                    or not place.is_relative_to(root)
                ):
                    continue
                held = target.parent() if target.type == "function" else None
                is_method = form == "method" and held is not None and held.type == "class"
                kind = "method" if is_method else "plain"
                if target.type == "class":
                    kind = "type"
                row = {
                    "path": str(path.relative_to(root)),
                    "line": line,
                    "target": str(place.relative_to(root)),
                    "at": target.line,
                    "name": target.name,
                    "form": kind,
                }
                print(json.dumps(row))


main()
