"""What a command is for, inferred from its words, and whether it is worth showing.

Commands are quoted as they are, on one line; nothing is run. Trade-off: a command whose words
say nothing about its purpose (`./ci.sh`) is not shown.
"""

import re
from enum import StrEnum

from msgspec import Struct

from xscore.extensions.learning.observed.observed_fact import SourceLine

MOST_COMMAND_CHARS = 160


class CommandPurpose(StrEnum):
    """What a command is for."""

    TEST = "test"
    LINT = "lint"
    FORMAT = "format"
    TYPE_CHECK = "type_check"
    BUILD = "build"
    INSTALL = "install"
    DOCS = "docs"
    RUN = "run"


class CommandSource(StrEnum):
    """Where a command is written, the one to type first."""

    SCRIPT = "script"
    """A target or script of the repository: make, npm, just, a file in `scripts/`."""
    ENVIRONMENTS = "environments"
    """An environment of tox or nox."""
    CI = "ci"


class RunCommand(Struct, frozen=True, array_like=True):
    """A command as the repository writes it down."""

    purpose: CommandPurpose
    command: str
    at: SourceLine
    source: CommandSource
    recipe: str = ""
    """What a target runs; empty if it is the command itself."""


_BY_NAME: dict[CommandPurpose, str] = {
    CommandPurpose.TYPE_CHECK: (
        r"type-?check(?:ing)?|types?|typing|mypy|pyright|check[:_-]types?|tsc"
    ),
    CommandPurpose.TEST: (
        r"(?:unit-?|run-?)?tests?(?:[:_-](?:unit|all|ci|run))?|checks?|specs?|pytest"
    ),
    CommandPurpose.FORMAT: r"format(?:ter|ting)?|fmt|prettier|lint[:_-]fix|fix",
    CommandPurpose.LINT: (
        r"lint(?:er|ing)?|style|check[:_-]style|clippy|vet|flake8|ruff|pre-commit|eslint"
    ),
    CommandPurpose.DOCS: r"docs?(?:[:_-]build)?|html|site|sphinx",
    CommandPurpose.BUILD: r"build|compile|dist|package|bundle",
    CommandPurpose.INSTALL: r"install(?:[:_-]dev)?|setup|bootstrap|deps|develop|init",
    CommandPurpose.RUN: r"dev|start|serve|run|watch",
}
"""Purpose -> the pattern of the whole name of a target, script or environment."""
_RUNNER = r"(?:npm|pnpm|yarn|bun)(?: run)?(?: -s)? "
_BY_WORDS: tuple[tuple[CommandPurpose, str], ...] = (
    (
        CommandPurpose.TYPE_CHECK,
        rf"\b(?:mypy|pyright|basedpyright|vue-tsc|tsc\b.*--noEmit|{_RUNNER}type-?check)\b",
    ),
    (
        CommandPurpose.FORMAT,
        r"\b(?:ruff format|black|prettier|gofmt|gofumpt|cargo fmt|clang-format)\b"
        rf"|\b{_RUNNER}(?:fmt|format)\b",
    ),
    (
        CommandPurpose.LINT,
        r"\b(?:ruff|flake8|pylint|eslint|oxlint|biome|golangci-lint|cargo clippy|rubocop|go vet"
        r"|pre-commit run|prek run|staticcheck|phpstan|checkstyle|make lint)\b"
        rf"|\b{_RUNNER}lint\b|\bscripts?/lint\b",
    ),
    (
        CommandPurpose.TEST,
        r"\b(?:py\.?test|tox|nox|unittest|go test|cargo (?:test|nextest)|vitest|jest|mocha|ava"
        r"|rake(?: test| spec)?|rspec|phpunit|composer (?:run-script )?test|ctest|dotnet test"
        r"|mix test|swift test|deno test|bun test|make (?:test|check)|test-all|runtests(?:\.py)?)\b"
        rf"|\b{_RUNNER}(?:test|t)\b|\bgradlew?\b.* (?:test|check)\b|\bmvnw?\b.* (?:test|verify)\b"
        r"|\bscripts?/(?:test|cibuild)\b",
    ),
    (
        CommandPurpose.DOCS,
        r"\b(?:sphinx-build|mkdocs build|make html|jsdoc|typedoc|cargo doc)\b",
    ),
    (
        CommandPurpose.BUILD,
        r"\b(?:-m build|uv build|hatch build|poetry build|maturin build|cargo build|go build"
        r"|cmake --build|dotnet build|make build|vite build|webpack|rollup -c)\b"
        rf"|\b{_RUNNER}build\b|\bgradlew?\b.* (?:build|assemble)\b|\bmvnw?\b.* package\b|^make$",
    ),
    (
        CommandPurpose.INSTALL,
        r"\b(?:uv sync|poetry install|pdm install|npm (?:ci|install)|pnpm i(?:nstall)?"
        r"|yarn install|bun install|bundle install|composer (?:install|update)|go mod download"
        r"|pip3? install .*(?:-e |-r |\.(?:\[|$))|make install)",
    ),
)
_ENVIRONMENT = re.compile(r"\b(?:tox|nox)\b.*? (?:-e|-s|--session|--env)[ =]?\s*([\w.-]+)")
_PLUMBING = re.compile(
    r"(?:echo|cd|export|mkdir|cp|mv|rm|curl|wget|git|if|for|while|fi|done|else|then|set|sudo|apt"
    r"|apt-get|brew|choco|sed|cat|source|\.|test|\[)\b|[#{}\[(]"
)
"""Matches the beginning of a line that is not a command for people."""


def purpose_of_name(name: str) -> CommandPurpose | None:
    """Return what a target, script or environment of this name is for."""
    for purpose, pattern in _BY_NAME.items():
        if re.fullmatch(pattern, name, re.IGNORECASE):
            return purpose
    return None


def purpose_of_command(command: str) -> CommandPurpose | None:
    """Return what a line of a CI job is for; None: nothing that is worth showing."""
    if _PLUMBING.match(command) or len(command) > MOST_COMMAND_CHARS:
        return None
    environment = _ENVIRONMENT.search(command)
    if environment:
        by_name = purpose_of_name(environment[1])
        if by_name:
            return by_name
        if not re.match(r"py|\d|tests?", environment[1]):
            return None
    for purpose, pattern in _BY_WORDS:
        if re.search(pattern, command):
            return purpose
    return None


def one_command(line: str) -> str:
    """Return a command on one line, with single spaces."""
    return " ".join(line.split())
