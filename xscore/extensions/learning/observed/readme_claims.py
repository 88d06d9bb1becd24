"""What README and CONTRIBUTING say about working on the project, and the files contradict.

A command whose target, script or file is not there; a version of Python, Node or Go other than the
manifest's; a test framework that nothing uses. Only commands in code and plain statements of a
version are claims. Nothing is run. Trade-off: a Makefile that includes or computes targets, and a
command for another folder, prove nothing, so they are passed over.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import islice

from msgspec import Struct

from xscore.extensions.learning.observed.file_traits import IMPORT
from xscore.extensions.learning.observed.observation import FileFindings
from xscore.extensions.learning.observed.observed_fact import SourceLine
from xscore.extensions.learning.observed.stack import known_packages
from xscore.platform.files import FileRefused, is_there, opened_folder, read_file_under
from xscore.platform.paths import RepositoryRoot
from xscore.store.declared import Declared, read_declared

_DOCUMENTS = (
    "README.md",
    "README.rst",
    "README.markdown",
    "README.txt",
    "README",
    "Readme.md",
    "CONTRIBUTING.md",
    "CONTRIBUTING.rst",
)
_MAKEFILES = ("Makefile", "makefile", "GNUmakefile")
MAX_BYTES = 500_000
MOST_CLAIMS = 200
"""Most commands of a document that are checked."""
_INLINE = re.compile(r"(?<!`)`++([^`\n]{3,160})`++")
_PROMPT = re.compile(r"^(?:\$|>|%)\s+")
_MAKE = re.compile(r"^make\s+([A-Za-z][\w.-]*)\s*$")
_SCRIPT = re.compile(r"^(npm|pnpm|yarn|bun)\s+run(?:-script)?\s+([\w:.-]+)(?:\s+--.*)?$")
_FILE = re.compile(
    r"^(?:(?:bash|sh|python3?|node|ruby)\s+)?(?:\./)?((?:scripts?|bin|tools|ci)/[\w./-]+)(?:\s|$)"
)
_RUNNER = re.compile(
    r"^(?:(?:uv|poetry|pdm|hatch) run )?(?:python3? -m )?(?:npx )?"
    r"(pytest|py\.test|nosetests|nose2|jest|vitest|mocha|rspec|tox|nox)\b"
)
_ENVIRONMENT_RUNNERS = frozenset({"tox", "nox"})
_RUNNER_PACKAGES = {"py.test": "pytest", "nosetests": "nose"}
_MINIMUM = re.compile(
    r"\b(Python|Node(?:\.js)?|Go)\s*(?:version\s*)?(?:>=|≥|v)?\s*(\d+(?:\.\d+)?)"
    r"(?:\.\d+)?\s*(?:\+|(?:or|and) (?:later|newer|higher|above|greater|up))",
    re.IGNORECASE,
)
_AT_LEAST = re.compile(
    r"\b(Python|Node(?:\.js)?|Go)\s*(?:version\s*)?(?:>=|≥)\s*v?(\d+(?:\.\d+)?)", re.IGNORECASE
)
_ASKED = re.compile(r"(?:>=|\^|~>?|>|\A)\s*v?(\d+)(?:\.(\d+))?")


class Contradiction(Struct, frozen=True):
    """A claim that the files contradict."""

    at: SourceLine
    claim: str
    because: str
    """What the files say instead."""


class _Project(Struct, frozen=True):
    """What claims are held against."""

    root: RepositoryRoot
    packages: frozenset[str]
    """Test frameworks that something names, configures or imports."""
    minimums: Mapping[str, tuple[int, ...]]
    """Runtime -> the lowest version that its manifest asks for."""
    declared: Declared
    """What the Makefile and the `package.json` of the top folder declare."""
    has_makefile: bool
    """Whether there is a Makefile in the top folder or below."""


def contradicted_claims(root: RepositoryRoot, findings: FileFindings) -> list[Contradiction]:
    """Return what README and CONTRIBUTING say and the files contradict."""
    project = _project_of(root, findings)
    contradictions: list[Contradiction] = []
    for path in _DOCUMENTS:
        text = _read(root, path)
        for line, claim, because in _checked_lines(text, project):
            contradictions.append(Contradiction(SourceLine(path, line), claim, because))
    return contradictions


def _checked_lines(text: str, project: _Project) -> Iterator[tuple[int, str, str]]:
    for number, command in islice(_commands_in(text), MOST_CLAIMS):
        because = _why_not(command, project)
        if because:
            yield number, command, because
    for number, line in enumerate(text.split("\n"), 1):
        yield from ((number, claim, because) for claim, because in _versions(line, project))


def _commands_in(text: str) -> Iterator[tuple[int, str]]:
    """Yield the commands in blocks of code and in backticks, with their lines from 1."""
    is_inside = False
    changes_folder = False
    for number, line in enumerate(text.split("\n"), 1):
        bare = line.strip()
        if bare.startswith(("```", "~~~")):
            is_inside = not is_inside
            changes_folder = False
            continue
        if is_inside or line.startswith(("    ", "\t")):
            command = _PROMPT.sub("", bare).partition(" #")[0].strip()
            # What follows is for another folder.
            changes_folder = changes_folder or command.startswith("cd ")
            if not changes_folder:
                yield number, command
            continue
        for command in _INLINE.findall(line):
            yield number, command.strip()


def _why_not(command: str, project: _Project) -> str:
    """Return why a command cannot work here; empty if it may."""
    declared = project.declared
    target = _MAKE.match(command)
    if target and not declared.has_open_makefile:
        if not project.has_makefile:
            return "there is no Makefile"
        # One that has no targets, or cannot be read, proves nothing.
        if declared.targets and target[1] not in declared.targets:
            return f"the Makefile has no target {target[1]}"
    script = _SCRIPT.match(command)
    if script and declared.scripts and script[2] not in declared.scripts:
        return f"package.json has no script {script[2]}"
    file = _FILE.match(command)
    if file and not is_there(project.root.path / file[1]):
        return f"there is no {file[1]}"
    runner = _RUNNER.match(command)
    if runner:
        package = _RUNNER_PACKAGES.get(runner[1], runner[1])
        if package not in project.packages:
            return f"nothing here names, configures or imports {package}"
    return ""


def _versions(line: str, project: _Project) -> Iterator[tuple[str, str]]:
    """Yield the least versions that a line names and the manifest does not ask for."""
    for match in (*_MINIMUM.finditer(line), *_AT_LEAST.finditer(line)):
        runtime = match[1].lower().partition(".")[0]
        required = project.minimums.get(runtime)
        if required is None:
            continue
        claimed = tuple(int(part) for part in match[2].split("."))
        length = min(len(claimed), len(required))
        if claimed[:length] != required[:length]:
            written = ".".join(map(str, required))
            yield match[0].strip(), f"the manifest asks for at least {written}"


def _project_of(root: RepositoryRoot, findings: FileFindings) -> _Project:
    return _Project(
        root,
        _packages_of(findings),
        _minimums_of(findings),
        _declared_at_top(root),
        _has_makefile(root, findings),
    )


def _has_makefile(root: RepositoryRoot, findings: FileFindings) -> bool:
    if any(is_there(root.path / name) for name in _MAKEFILES):
        return True
    return any(path.rpartition("/")[2] in _MAKEFILES for path in findings.observed.settings)


def _packages_of(findings: FileFindings) -> frozenset[str]:
    packages = set[str]()
    for traits in findings.observed.settings.values():
        packages |= traits.packages.keys()
        # A `tox.ini` may name no package at all.
        for command in traits.commands:
            packages |= _ENVIRONMENT_RUNNERS & set(command.command.split()[:1])
    for file in findings.observed.files.values():
        packages |= {trait.removeprefix(IMPORT) for trait in file.traits}
    return frozenset(packages & (known_packages().keys() | _ENVIRONMENT_RUNNERS))


def _minimums_of(findings: FileFindings) -> dict[str, tuple[int, ...]]:
    minimums: dict[str, tuple[int, ...]] = {}
    for path, traits in findings.observed.settings.items():
        # A package below may ask for anything.
        if "/" in path:
            continue
        for fact in traits.runtimes:
            least = _ASKED.search(fact.value)
            if least:
                runtime = fact.key.partition("_")[0]
                minimums[runtime] = tuple(int(part) for part in least.groups() if part)
    return minimums


def _declared_at_top(root: RepositoryRoot) -> Declared:
    try:
        with opened_folder(root.path) as top:
            return read_declared(top, (*_MAKEFILES, "package.json"))
    except OSError:
        return Declared()


def _read(root: RepositoryRoot, path: str) -> str:
    """Return the text of a file; empty where it cannot be read."""
    try:
        with opened_folder(root.path) as top:
            return read_file_under(top, path, max_bytes=MAX_BYTES).decode("utf-8", "replace")
    except (FileRefused, OSError):
        return ""
