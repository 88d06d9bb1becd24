"""Print the calls of a Rust crate as rustc resolves them, one JSON object a line: python
calls_of_rust.py ROOT.

A nightly rustc prints its intermediate form (MIR) with the place of each call; a path there names
the type and the function. ROOT holds `src/lib.rs` of a crate without dependencies; its tests are
compiled too, and its features are on. Trade-off: what a macro of another crate calls is left out,
and a name that several modules have may mean any of these.
"""

import json
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from pathlib import Path

_SPAN = re.compile(
    r"at (?P<file>[^: ]+):(?P<line>\d+):(?P<column>\d+): (?P<last>\d+):(?P<end>\d+)$"
)
_CALLED = re.compile(r"^\s*_\d+ = (?P<path>[<\w].*?)\((?:copy|move|const|_|\)|&)")
_BLOCK = re.compile(
    r"^(?P<indent>[ ]*)(?:unsafe )?(?:impl(?:<.*?>)? (?:(?P<trait>[\w:<>, '&]+) for )?"
    r"(?P<type>&?(?:'\w+ )?(?:mut )?[\w:]+)"
    r"|(?:pub(?:\([^)]*\))? )?(?:unsafe )?trait (?P<own>\w+))"
)
_FUNCTION = re.compile(
    r"^\s*(?:pub(?:\([^)]*\))? )?(?:default )?(?:const )?(?:async )?(?:unsafe )?(?:extern \"C\""
    r" )?fn (\w+)"
)

Place = tuple[str, int]


def features_of(root: Path) -> set[str]:
    """Return the features of a crate that need no other crate."""
    manifest = tomllib.loads((root / "Cargo.toml").read_text("utf-8"))
    features = manifest.get("features", {})
    outside = set(manifest.get("dependencies", {}))
    for _ in features:
        for name, needs in features.items():
            if any(
                need.removeprefix("dep:").partition("/")[0].rstrip("?") in outside
                for need in needs
            ):
                outside.add(name)
    return set(features) - outside


def functions(root: Path) -> tuple[dict[tuple[str, str], list[Place]], dict[str, list[Place]]]:
    """Return the places of functions: those of types and traits by owner and name, others by
    name."""
    owned: dict[tuple[str, str], list[Place]] = defaultdict(list)
    free: dict[str, list[Place]] = defaultdict(list)
    for path in sorted((root / "src").rglob("*.rs")):
        blocks: list[tuple[str, tuple[str, ...]]] = []
        for number, line in enumerate(path.read_text("utf-8").split("\n"), 1):
            if blocks and line == blocks[-1][0] + "}":
                blocks.pop()
            if (opened := _BLOCK.match(line)) and not line.rstrip().endswith((";", "}")):
                names = (
                    (opened["own"],)
                    if opened["own"]
                    else (opened["type"], opened["trait"] or "")
                )
                blocks.append((opened["indent"], tuple(_last(name) for name in names)))
            elif named := _FUNCTION.match(line):
                place = str(path.relative_to(root)), number
                if not blocks:
                    free[named[1]].append(place)
                elif len(blocks[-1][1]) == 2 and blocks[-1][1][1]:
                    owned[f"{blocks[-1][1][0]} {blocks[-1][1][1]}", named[1]].append(place)
                else:
                    owned[blocks[-1][1][0], named[1]].append(place)
    return owned, free


def _last(path: str) -> str:
    bare = re.sub(r"<.*", "", path.replace("&", "").replace("mut ", ""))
    return bare.rpartition("::")[2].strip().rpartition(" ")[2]


def _without_arguments(path: str) -> str:
    """`Vec::<T>::push::<U>` -> `Vec::push`; the first part in `<…>` stays."""
    before = None
    while before != path:
        before = path
        path = re.sub(r"(?:::)?<[^<>]*>", "", path)
    return path


def target_of(
    path: str, owned: dict[tuple[str, str], list[Place]], free: dict[str, list[Place]]
) -> tuple[str, list[Place]]:
    """Return the name that a path of MIR ends in, and where it may be defined."""
    cast = re.match(r"^<(?P<type>.*) as (?P<trait>.*?)>::(?P<name>\w+)(?:::<.*>)?$", path)
    if cast:
        trait, name = _last(_without_arguments(cast["trait"])), cast["name"]
        return name, owned.get((f"{_last(cast['type'])} {trait}", name)) or owned.get(
            (trait, name), []
        )
    parts = [part for part in _without_arguments(path).split("::") if part]
    name = parts[-1] if parts else ""
    if path.startswith(("std::", "core::", "alloc::")):
        return name, []
    is_owned = len(parts) > 1 and parts[-2][:1].isupper()
    places = owned.get((parts[-2], name), []) if is_owned else free.get(name, [])
    modules = "/".join(part for part in parts[: -2 if is_owned else -1] if part.isidentifier())
    inside = [
        place
        for place in places
        if f"/{modules}" in place[0].removesuffix(".rs").removesuffix("/mod")
    ]
    return name, inside if modules and len(places) > 1 else places


def print_macros(root: Path) -> None:
    """Print the uses of the crate's own macros, of which the intermediate form has none left."""
    lines = {
        path: path.read_text("utf-8").split("\n")
        for path in sorted((root / "src").rglob("*.rs"))
    }
    defined = []
    for path, rows in lines.items():
        for number, row in enumerate(rows, 1):
            definition = re.match(r"\s*macro_rules! (\w+)", row)
            if definition:
                defined.append((definition[1], str(path.relative_to(root)), number))
    for path, rows in lines.items():
        for number, row in enumerate(rows, 1):
            for name, target, at in defined:
                if re.search(rf"\b{name}!", row):
                    place = {
                        "path": str(path.relative_to(root)),
                        "line": number,
                        "target": target,
                        "at": at,
                    }
                    print(json.dumps({**place, "name": name, "form": "type"}))


def main() -> None:
    """Print the calls of the crate."""
    root = Path(sys.argv[1]).resolve()
    flags = [flag for name in features_of(root) for flag in ("--cfg", f'feature="{name}"')]
    command = [
        "rustc",
        "+nightly",
        "--edition",
        "2021",
        "--crate-type",
        "lib",
        "--test",
        "--cap-lints",
        "allow",
    ]
    command += ["--crate-name", root.name.replace("-", "_"), "src/lib.rs", *flags]
    command += ["-Zunpretty=mir", "-Zmir-include-spans=on"]
    done = subprocess.run(command, check=False, cwd=root, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr[-2_000:])
    owned, free = functions(root)
    print_macros(root)
    texts: dict[str, list[str]] = {}
    for row in done.stdout.split("\n"):
        called, span = _CALLED.match(row), _SPAN.search(row)
        if not called or not span or span["file"].startswith("/"):
            continue
        name, places = target_of(called["path"], owned, free)
        if not name.isidentifier():
            continue
        file = span["file"]
        if file not in texts:
            texts[file] = (root / file).read_text("utf-8").split("\n")
        first, last = int(span["line"]), int(span["last"])
        is_written = [
            number
            for number in range(first, last + 1)
            if re.search(rf"\b{name}\b", texts[file][number - 1])
        ]
        if not is_written:
            continue
        for target, at in places:
            # Which of several is meant cannot be told: any may be, so they count for precision
            # alone.
            form = "plain" if places[0] in free.get(name, []) else "method"
            if len(places) > 1:
                form = "type"
            place = {"path": file, "line": is_written[-1], "target": target, "at": at}
            print(json.dumps({**place, "name": name, "form": form}))


main()
