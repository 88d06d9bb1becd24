"""Commands that CI files and scripts write down, and what they are for."""

import pytest

from xscore.extensions.learning.observed.ci_files import ci_commands, is_ci_file
from xscore.extensions.learning.observed.commands_told import told_commands
from xscore.extensions.learning.observed.purposes import (
    CommandPurpose,
    CommandSource,
    RunCommand,
)
from xscore.extensions.learning.observed.scripts import script_commands

WORKFLOW = """
name: Tests
jobs:
  tests:
    steps:
      - uses: actions/checkout@v7
      - run: pip install -e '.[test]'
      - name: run
        run: |
          echo "begin"
          pytest -q --cov   # all of them
          # pytest --slow
          ruff check .
        env:
          TOX_ENV: pytest
      - run: "mypy src"
      - run: ${{ matrix.command }}
"""
GITLAB = """
test:
  before_script:
  - npm ci
  script:
    - npm test
    - npm run lint
"""


def _shown(command: RunCommand) -> tuple[str, str, int, str]:
    return (str(command.purpose), command.command, command.at.line, command.recipe)


def test_the_commands_of_a_workflow_are_read_with_their_lines() -> None:
    """Lines of blocks, quoted values and lists count; comments, echoes and other keys do not."""
    commands = ci_commands(".github/workflows/tests.yml", WORKFLOW)
    shown = [(str(command.purpose), command.command, command.at.line) for command in commands]
    assert shown == [
        ("install", "pip install -e '.[test]'", 7),
        ("test", "pytest -q --cov # all of them", 11),
        ("lint", "ruff check .", 13),
        ("type_check", "mypy src", 16),
    ]
    gitlab = ci_commands(".gitlab-ci.yml", GITLAB)
    assert [command.command for command in gitlab] == ["npm ci", "npm test", "npm run lint"]


@pytest.mark.parametrize(
    ("path", "is_one"),
    [
        (".github/workflows/a.yaml", True),
        (".gitlab-ci.yml", True),
        (".circleci/config.yml", True),
        ("docs/.github/workflows/a.yml", False),
        (".github/dependabot.yml", False),
        ("mkdocs.yml", False),
    ],
)
def test_which_files_are_of_ci(path: str, *, is_one: bool) -> None:
    """Only what CI reads is taken for its file."""
    assert is_ci_file(path) is is_one


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        (
            "Makefile",
            "X := y\n.PHONY: test\ntest: deps\n\t@echo hi\n\t$(PY) -m pytest\nsend:\n\ttwine\n",
            [("test", "make test", 3, "$(PY) -m pytest")],
        ),
        ("Makefile", "install:\n\tinstall -Dm755 x /usr/bin/x\n", []),
        (
            "Makefile",
            "install:\n\tpip install -e .\n",
            [("install", "make install", 1, "pip install -e .")],
        ),
        (
            "package.json",
            '{\n "scripts": {\n  "test": "vitest --run",\n  "lint": "eslint ."\n }\n}',
            [
                ("test", "pnpm test", 3, "vitest --run"),
                ("lint", "pnpm run lint", 4, "eslint ."),
            ],
        ),
        ("package.json", "[1]", []),
        ("package.json", "{broken", []),
        (
            "composer.json",
            '{"scripts": {"test": ["phpunit"], "x": 1}}',
            [("test", "composer test", 1, "phpunit")],
        ),
        (
            "tox.ini",
            "[tox]\n[testenv]\ncommands = pytest\n[testenv:docs]\n[testenv:py312]\n",
            [("test", "tox", 2, ""), ("docs", "tox -e docs", 4, "")],
        ),
        (
            "noxfile.py",
            "@nox.session\ndef tests(session):\n    pass\n\ndef lint():\n    pass\n",
            [("test", "nox -s tests", 2, "")],
        ),
        (
            "pyproject.toml",
            '[tool.poe.tasks]\ntest = "pytest"\n'
            '[tool.hatch.envs.dev.scripts]\nlint = "ruff check"\n',
            [("test", "poe test", 2, "pytest"), ("lint", "hatch run dev:lint", 4, "ruff check")],
        ),
        ("pyproject.toml", "tool = 1", []),
        ("pyproject.toml", "[broken", []),
        ("justfile", "test *args:\n    cargo test\n", [("test", "just test", 1, "cargo test")]),
        ("Rakefile", "RSpec::Core::RakeTask.new(:spec)\n", [("test", "rake spec", 1, "")]),
        ("scripts/lint", "#!/bin/sh\n", [("lint", "scripts/lint", 0, "")]),
        ("scripts/upload", "#!/bin/sh\n", []),
    ],
)  # fmt: skip
def test_named_commands_are_read_as_they_are_typed(
    path: str, text: str, expected: list[tuple[str, str, int, str]]
) -> None:
    """Targets, scripts and environments are shown with what they run; malformed files show none."""
    commands = script_commands(path, text, package_manager="pnpm")
    shown = [_shown(command) for command in commands]
    assert shown == expected


def test_one_fact_tells_how_tests_are_run() -> None:
    """What is typed first leads, and CI's own command comes with it, each with its line."""
    commands = [
        *ci_commands(".github/workflows/tests.yml", WORKFLOW),
        *script_commands("Makefile", "test:\n\tpytest -q\n", package_manager="npm"),
    ]
    (fact,) = [fact for fact in told_commands(commands) if fact.key == "test_command"]
    assert fact.value == "make test"
    assert "`make test`, which runs `pytest -q`" in fact.words
    assert [line.place for line in fact.lines] == [
        "Makefile:1",
        ".github/workflows/tests.yml:11",
    ]


def test_of_several_jobs_the_plain_one_stands_for_all() -> None:
    """A command with a variable of the matrix gives way to one without."""
    text = (
        "jobs:\n  a:\n    steps:\n    - run: pytest "
        "${{ matrix.args }}\n    - run: pytest tests\n"
    )
    commands = ci_commands(".github/workflows/ci.yml", text)
    assert [command.source for command in commands] == [CommandSource.CI] * 2
    (fact,) = told_commands(commands)
    assert (fact.key, fact.value) == (f"{CommandPurpose.TEST}_command", "pytest tests")
