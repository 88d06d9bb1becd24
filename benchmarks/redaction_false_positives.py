"""Count what redaction takes out of released source trees, so that each finding can be looked at.

    python benchmarks/redaction_false_positives.py Django==5.1 sympy==1.13.3 --cache FOLDER
    python benchmarks/redaction_false_positives.py path/to/a/tree

Names with `==` are downloaded as source archives with unearth into FOLDER; nothing in them is
run. Public packages hold no real secrets, so a finding is right where a literal is a credential
(in a test, mostly), and wrong elsewhere. Prints findings by place and type, the share of lines
touched, the speed, and (with --lines) every touched line.
"""

import argparse
import subprocess
import sys
import tarfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from xscore.store.redaction import is_secret_file, redact

TESTS = ("test", "tests", "testing", "conftest.py")
DOCS = (".txt", ".md", ".rst")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trees", nargs="+", help="folders, or NAME==VERSION")
    parser.add_argument(
        "--cache", type=Path, default=Path(".benchmarks"), help="where archives are kept"
    )
    parser.add_argument("--lines", action="store_true", help="print every line that changes")
    arguments = parser.parse_args()
    for tree in arguments.trees:
        folder = _unpacked(tree, arguments.cache) if "==" in tree else Path(tree)
        _report(tree, folder, show_lines=arguments.lines)


def _report(name: str, folder: Path, *, show_lines: bool) -> None:
    places: Counter[str] = Counter()
    types: Counter[str] = Counter()
    files = lines = touched = chars = 0
    spent = 0.0
    kept_out = []
    for path, text in _texts(folder):
        relative = path.relative_to(folder)
        if is_secret_file(relative.as_posix()):
            kept_out.append(relative.as_posix())
            continue
        start = time.process_time()
        redacted = redact(text)
        spent += time.process_time() - start
        files, lines, chars = files + 1, lines + text.count("\n"), chars + len(text)
        for before, after in zip(text.split("\n"), redacted.text.split("\n"), strict=True):
            if before == after:
                continue
            touched += 1
            places[_place(relative)] += after.count("<SECRET:")
            types.update(part.partition(">")[0] for part in after.split("<SECRET:")[1:])
            if show_lines:
                print(f"{relative}: {before.strip()[:160]}")
    print(
        f"{name}: {files:,} files, {lines:,} lines, {chars / 1e6:.1f} M characters in {spent:.1f}"
        " CPU-s"
    )
    print(
        f"  findings {sum(places.values())} on {touched} lines ({touched / max(1, lines):.4%}); by"
        f" place {dict(places)}"
    )
    print(f"  by type {dict(types.most_common())}")
    print(f"  files kept out by name: {kept_out}")


def _place(path: Path) -> str:
    if any(part in TESTS or part.startswith("test_") for part in path.parts):
        return "tests"
    return "docs" if path.suffix in DOCS or "docs" in path.parts else "code"


def _texts(folder: Path) -> Iterator[tuple[Path, str]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            data = path.read_bytes()
            if b"\0" not in data[:8_000]:
                yield path, data.decode("utf-8", "replace")


def _unpacked(requirement: str, cache: Path) -> Path:
    target = cache / requirement
    if not target.exists():
        target.mkdir(parents=True)
        command = [
            sys.executable,
            "-m",
            "unearth",
            "--no-binary",
            "-d",
            str(cache),
            requirement,
        ]
        subprocess.run(command, check=True, capture_output=True)
        name = requirement.partition("==")[0].lower()
        archive = next(
            path for path in cache.glob("*.tar.gz") if path.name.lower().startswith(name + "-")
        )
        with tarfile.open(archive) as tar:
            tar.extractall(target, filter="data")
    return target


if __name__ == "__main__":
    main()
