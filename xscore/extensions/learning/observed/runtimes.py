"""Which versions of a language a manifest asks for, and which package manager locks the packages.

Read with patterns, a line each, so that the line can be cited. Trade-off: a version that a build
computes is not seen.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from xscore.extensions.learning.observed.observed_fact import ObservedFact, SourceLine
from xscore.platform.files import is_there
from xscore.records.memory import Kind
from xscore.store.redaction import redact

_PATTERNS: tuple[tuple[str, str, str], ...] = (
    ("pyproject.toml", "Python", r"""^requires-python[ \t]*=[ \t]*["']([^"'\n]{1,40})["']"""),
    ("pyproject.toml", "Python", r"""^python[ \t]*=[ \t]*["']([\^~<>=!\d][^"'\n]{0,40})["']"""),
    ("setup.cfg", "Python", r"^python_requires[ \t]*=[ \t]*([^\n#]{1,40})"),
    ("setup.py", "Python", r"""^[ \t]*python_requires[ \t]*=[ \t]*["']([^"'\n]{1,40})["']"""),
    (
        "package.json",
        "Node.js",
        r'"engines"[ \t]*:\s*\{[^{}]{0,500}?"node"[ \t]*:[ \t]*"([^"\n]{1,40})"',
    ),
    ("go.mod", "Go", r"^go[ \t]+(\d[\w.]*)"),
    ("Cargo.toml", "Rust", r'^rust-version[ \t]*=[ \t]*"([^"\n]{1,20})"'),
    ("composer.json", "PHP", r'^[ \t]*"php"[ \t]*:[ \t]*"([^"\n]{1,40})"'),
)
"""File, the runtime it is about, and the pattern of the line that says which versions."""
LOCKS = {
    "uv.lock": "uv",
    "poetry.lock": "poetry",
    "pdm.lock": "pdm",
    "pnpm-lock.yaml": "pnpm",
    "yarn.lock": "yarn",
    "bun.lock": "bun",
    "bun.lockb": "bun",
    "package-lock.json": "npm",
}
"""Lock file -> the package manager that writes it, as the stack calls it."""


def runtime_facts(path: str, text: str) -> Iterator[ObservedFact]:
    """Yield the versions that a manifest of the top folder asks for."""
    for name, runtime, pattern in _PATTERNS:
        if path != name:
            continue
        place = re.search(pattern, text, re.MULTILINE)
        if place is None:
            continue
        # Kept and stored, so no secret that somebody wrote there may stay.
        version = redact(place[1].strip()).text
        key = runtime.partition(".")[0].lower()
        yield ObservedFact(
            key=f"{key}_version",
            value=version,
            words=f"Runs on {runtime} {version}, says {path}.",
            kind=Kind.CONVENTION,
            aliases=(f"{runtime} version", f"supported {runtime}", f"minimum {runtime}"),
            lines=(SourceLine(path, text.count("\n", 0, place.start(1)) + 1),),
        )
        return


def locked_by(root: Path) -> dict[str, str]:
    """Return the package managers whose lock file lies in the top folder, and that file."""
    managers: dict[str, str] = {}
    for lock, manager in LOCKS.items():
        if is_there(root / lock, follow=False):
            managers.setdefault(manager, lock)
    return managers


def script_runner(managers: dict[str, str]) -> str:
    """Return what runs the scripts of `package.json`."""
    for manager in ("pnpm", "yarn", "bun"):
        if manager in managers:
            return manager
    return "npm"
