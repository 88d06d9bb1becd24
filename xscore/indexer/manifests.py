"""What manifests call the modules of their folder: `go.mod`, `Cargo.toml`, `package.json`,
`tsconfig.json` and others.

Each fact is a mention whose hint begins with `module:`; `modules` and `script_packages` read them.

    module:NAME            the folder is the Go module or the crate NAME
    module:NAME#.=PATH     the folder is the package NAME, and PATH is what `NAME` means
    module:NAME#./SUB=PATH the same for `NAME/SUB`; a `*` in both stands for any part
    module:NAME#:SUB=PATH  within the package, `#SUB` means PATH
    module:NAME#only=      nothing but the above is exported
    module:#to:NAME=PATH   for the scripts of the folder NAME means PATH; a `*` in both stands for
                           any part
    module:#has=GLOB       folders like this below hold packages of one workspace; `!GLOB`: these
                           do not

A manifest may be anyone's: it is as long as an indexed file may be, and what is read of it is
counted. Trade-off: which condition of `exports` holds is not asked; every path that exists counts.
"""

import json
import posixpath
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from xscore.indexer.script_packages import ALIAS, MODULE, is_paths_file
from xscore.indexer.syntax import NameUse, SourceFile

MOST_TARGETS = 200
"""Most paths read of one `package.json`."""
MOST_GLOBS = 100
"""Most globs read of one workspace."""
MOST_CHARS = 300
"""Most characters of a name, a path or a glob."""
_GO_MODULE = re.compile(r"^module\s+\"?([^\s\"]+)", re.MULTILINE)
_CRATE = re.compile(
    r"^\[(package|lib)\][^\n]*\n(?:(?!\[)[^\n]*\n)*?name\s*=\s*[\"']([\w-]+)", re.MULTILINE
)
_PACKAGES_KEY = re.compile(r"packages[ \t]*:[ \t]*")
_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*(?:.*?\*/|.*)', re.DOTALL)
"""Matches a comment, or a string, which may contain the marks of one."""
_LAST_COMMA = re.compile(r",\s*+([}\]])")
_GLOB = re.compile(r"""["']?([^\s"'#,\[\]]+)""")
_MAIN_FIELDS = ("source", "svelte", "types", "typings", "module", "main", "browser")
"""Fields of `package.json` that name what the package itself means, those of sources first."""


def declared_modules(source: SourceFile) -> list[NameUse]:
    """Return what a manifest calls the modules of its folder; nothing if it is none."""
    file_name = source.path.rpartition("/")[2]
    if source.language.name == "gomod":
        names = _GO_MODULE.findall(source.text)[:1]
    elif file_name == "Cargo.toml":
        crates = sorted(_CRATE.findall(source.text))[:1]  # `lib` before `package`
        names = [name.replace("-", "_") for _, name in crates]
    elif file_name == "package.json":
        return list(dict.fromkeys(_script_package(source.text)))
    elif is_paths_file(file_name):
        return list(dict.fromkeys(_script_aliases(source.text)))
    elif file_name in ("pnpm-workspace.yaml", "pnpm-workspace.yml"):
        return [_workspace_glob(glob) for glob in _listed_globs(source.text)]
    else:
        names = []
    return [NameUse(name.rpartition("/")[2], MODULE + name) for name in names]


def _script_package(text: str) -> Iterator[NameUse]:
    try:
        manifest = json.loads(text)
    except (ValueError, RecursionError):
        return
    if not isinstance(manifest, dict):
        return
    workspaces = manifest.get("workspaces")
    if isinstance(workspaces, dict):  # of yarn
        workspaces = workspaces.get("packages")
    if isinstance(workspaces, list):
        globs = [glob for glob in workspaces if _is_short(glob)]
        yield from map(_workspace_glob, globs[:MOST_GLOBS])
    name = manifest.get("name", "")
    if not isinstance(name, str) or len(name) > MOST_CHARS or "#" in name:
        return
    for place, target in islice(_targets(manifest), MOST_TARGETS):
        yield NameUse(_file_stem(target), f"{MODULE}{name}#{place}={target}")
    if manifest.get("exports"):
        yield NameUse(name.rpartition("/")[2], f"{MODULE}{name}#only=")


def _script_aliases(text: str) -> Iterator[NameUse]:
    """Yield what the `paths` of a `tsconfig.json` say, which may have comments and commas before
    brackets."""
    bare = _COMMENT.sub(lambda match: match[0] if match[0][0] == '"' else " ", text)
    try:
        options = json.loads(_LAST_COMMA.sub(r"\1", bare))["compilerOptions"]
        base = str(options.get("baseUrl", "."))
        paths = options["paths"].items()
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return
    for name, path in islice(_alias_paths(paths), MOST_TARGETS):
        target = posixpath.normpath(posixpath.join(base, path))
        if _is_short(name) and not {"#", "="} & {*name, *target}:
            yield NameUse(_file_stem(target), f"{MODULE}#{ALIAS}{name}={target}")


def _alias_paths(paths: Iterable[tuple[Any, Any]]) -> Iterator[tuple[Any, str]]:
    for name, targets in paths:
        for path in _paths(targets, is_field=True):
            yield name, path


def _targets(manifest: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what may be imported of a package (`.`, `./sub`, `:private`) and a path that it
    means."""
    exports = manifest.get("exports")
    if not isinstance(exports, dict) or not any(key.startswith(".") for key in exports):
        exports = {".": exports}
    for place, target in exports.items():
        for path in _paths(target):
            yield place, path
    for field in _MAIN_FIELDS:
        for path in _paths(manifest.get(field), is_field=True):
            yield ".", path
    yield ".", "index.js"
    private = manifest.get("imports")
    if not isinstance(private, dict):
        return
    for place, target in private.items():
        if place.startswith("#"):
            for path in _paths(target):
                yield f":{place[1:]}", path


def _paths(target: object, *, is_field: bool = False) -> Iterator[str]:
    """Yield the paths in a target: itself, or those of its conditions in their order.

    is_field: a path needs no `./` before it.
    """
    waiting = [target]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            waiting += reversed(part.values())
        elif isinstance(part, list):
            waiting += reversed(part)
        elif isinstance(part, str) and _is_short(part) and (is_field or part.startswith("./")):
            yield part.removeprefix("./")


def _is_short(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MOST_CHARS and "\n" not in value


def _workspace_glob(glob: str) -> NameUse:
    return NameUse("workspace", f"{MODULE}#has={glob}")


def _file_stem(path: str) -> str:
    return path.rpartition("/")[2].partition(".")[0]


def _listed_globs(text: str) -> list[str]:
    """Return the list under the key `packages`, as YAML writes it: a dash a line, or in
    brackets."""
    globs: list[str] = []
    is_inside = False
    for line in text.split("\n"):
        key = _PACKAGES_KEY.match(line)
        if key:
            is_inside = True
            globs += _GLOB.findall(line[key.end() :].partition("#")[0])
        elif line[:1].isalpha() or not line.strip():
            is_inside = is_inside and not line.strip()
        elif is_inside and (item := _GLOB.match(line.strip().removeprefix("-").strip())):
            globs.append(item[1])
    return [glob for glob in globs[:MOST_GLOBS] if _is_short(glob)]
