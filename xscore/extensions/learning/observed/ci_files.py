"""Commands that CI runs, read line by line from its YAML: `run:` of GitHub, `script:` of GitLab and
others.

No YAML is parsed, as a plain install has no parser: a key, its indentation and what is indented
below it are enough for commands. Nothing is run or resolved. Trade-off: a command written as an
anchor or over several folded lines is not seen.
"""

import re
from collections.abc import Iterator

from xscore.extensions.learning.observed.observed_fact import SourceLine
from xscore.extensions.learning.observed.purposes import (
    CommandSource,
    RunCommand,
    one_command,
    purpose_of_command,
)

_KEY = re.compile(
    r"^([ ]*)(?:-[ ]+)?(?:run|script|before_script|command|bash|commands)[ ]*:[ ]*(.*)$"
)
_BLOCK = re.compile(r"[|>][+-]?\d?\s*(?:#.*)?$")
_RELEASES = re.compile(
    r"(?i)publish|release|stale|label|deploy|nightly|docs?\b|codeql|lock|update|wheel|bench"
    r"|scorecard|pages|backport|sponsor"
)
"""Names of workflows that say little about daily work."""


def is_ci_file(path: str) -> bool:
    """Whether CI reads this file."""
    folder, _, name = path.rpartition("/")
    if not name.endswith((".yml", ".yaml")):
        return False
    return folder in (".github/workflows", ".circleci") or name.removesuffix(".yaml") in (
        ".gitlab-ci.yml",
        "azure-pipelines.yml",
        ".travis.yml",
    )


def ci_commands(path: str, text: str) -> list[RunCommand]:
    """Return the commands of a CI file that say how the project is tested, built and so on."""
    commands: list[RunCommand] = []
    if _RELEASES.search(path.rpartition("/")[2]):
        return []
    for number, line in _command_lines(text):
        command = one_command(line)
        purpose = purpose_of_command(command)
        if purpose is not None:
            commands.append(
                RunCommand(purpose, command, SourceLine(path, number), CommandSource.CI)
            )
    return commands


def _command_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines below the keys that hold commands, with their numbers from 1."""
    block_indent = -1
    for number, line in enumerate(text.split("\n"), 1):
        bare = line.strip()
        if not bare or bare.startswith("#"):
            continue
        indent = len(line) - len(line.lstrip(" "))
        if block_indent >= 0 and indent > block_indent:
            yield number, _without_quotes(bare.removeprefix("- "))
            continue
        # GitLab writes its list at the indentation of the key.
        if block_indent >= 0 and indent == block_indent and bare.startswith("- "):
            yield number, _without_quotes(bare.removeprefix("- "))
            continue
        block_indent = -1
        key = _KEY.match(line)
        if key is None:
            continue
        value = key[2].strip()
        if not value or _BLOCK.fullmatch(value):
            block_indent = indent
        else:
            yield number, _without_quotes(value)


def _without_quotes(value: str) -> str:
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value.removesuffix(" \\")
