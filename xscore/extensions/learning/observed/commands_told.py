"""How the project is tested, built, checked and so on, in one fact each, from the commands that
are written down.

At most one command per purpose and source is noted: what people type first, then tox or nox,
then what CI runs. Trade-off: of several CI jobs the first plain one represents all.
"""

from collections.abc import Mapping, Sequence

from xscore.extensions.learning.observed.observed_fact import ObservedFact
from xscore.extensions.learning.observed.purposes import (
    CommandPurpose,
    CommandSource,
    RunCommand,
)
from xscore.records.memory import Kind

_LEADS: Mapping[CommandPurpose, str] = {
    CommandPurpose.TEST: "Tests are run with",
    CommandPurpose.LINT: "The code is linted with",
    CommandPurpose.FORMAT: "The code is formatted with",
    CommandPurpose.TYPE_CHECK: "Types are checked with",
    CommandPurpose.BUILD: "It is built with",
    CommandPurpose.INSTALL: "It is set up for development with",
    CommandPurpose.DOCS: "Documentation is built with",
    CommandPurpose.RUN: "It is started with",
}
# A single word would name them in any task that says it.
_ALIASES: Mapping[CommandPurpose, str] = {
    CommandPurpose.TEST: (
        "run tests; run the tests; tests are run; tests run; run the test suite; running tests"
    ),
    CommandPurpose.LINT: "run the linter; lint command; run lint; lint the code",
    CommandPurpose.FORMAT: "format the code; format command; code formatting; run the formatter",
    CommandPurpose.TYPE_CHECK: "check types; type check; type checking; run the type checker",
    CommandPurpose.BUILD: "build it; build the project; build command; how is it built",
    CommandPurpose.INSTALL: (
        "set up the project; development setup; install dependencies; dev setup"
    ),
    CommandPurpose.DOCS: "build the docs; build the documentation; docs command",
    CommandPurpose.RUN: "start the server; dev server; run it locally; start command",
}


def told_commands(commands: Sequence[RunCommand]) -> list[ObservedFact]:
    """Return one fact for each purpose that commands have."""
    facts: list[ObservedFact] = []
    for purpose in CommandPurpose:
        chosen = _chosen([command for command in commands if command.purpose is purpose])
        if chosen:
            facts.append(_fact(purpose, chosen))
    return facts


def _chosen(commands: Sequence[RunCommand]) -> list[RunCommand]:
    """Return the best command of each source, without what says the same."""
    chosen: list[RunCommand] = []
    shown = set[str]()
    for source in CommandSource:
        of_source = [command for command in commands if command.source is source]
        if not of_source:
            continue
        best = min(of_source, key=_rank)
        if best.command in shown:
            continue
        shown |= {best.command, best.recipe}
        chosen.append(best)
    return chosen


def _rank(command: RunCommand) -> tuple[int, bool, int, int, str, int]:
    """Rank the commands of one source: in the top folder, without variables, and short first."""
    has_variable = "${{" in command.command or "$" in command.command
    depth = command.at.path.count("/")
    if command.source is CommandSource.CI:
        named = _not_named_test(command)
        return (0, has_variable, named, len(command.command), command.at.path, command.at.line)
    return (depth, has_variable, 0, len(command.command), command.at.path, command.at.line)


def _not_named_test(command: RunCommand) -> int:
    """Workflows named after tests or CI come first."""
    name = command.at.path.rpartition("/")[2].lower()
    names = ("test", "ci", "main", "build", "python", "check")
    return int(not any(word in name for word in names))


def _fact(purpose: CommandPurpose, chosen: Sequence[RunCommand]) -> ObservedFact:
    parts: list[str] = []
    for command in chosen:
        sentence = f"`{command.command}`"
        if command.recipe:
            sentence += f", which runs `{command.recipe}`"
        if command.source is CommandSource.CI and len(chosen) > 1:
            sentence = f"CI runs {sentence}"
        # The file of a workflow is cited; its name would count as words of the command.
        if command.source is not CommandSource.CI:
            sentence = f"{sentence} ({command.at.path})"
        parts.append(sentence)
    return ObservedFact(
        key=f"{purpose}_command",
        value=chosen[0].command,
        words=f"{_LEADS[purpose]} {'; '.join(parts)}.",
        kind=Kind.CONVENTION,
        aliases=tuple(_ALIASES[purpose].split("; ")),
        lines=tuple(command.at for command in chosen if command.at.line),
        files=tuple(command.at.path for command in chosen if not command.at.line),
        count=len(chosen),
    )
