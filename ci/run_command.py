"""The one step that may send something: `xscore eval`, `ask`, `context` or `check`, as the input
`command` says.

The command is cut into words as a shell would, and no shell ever sees it: `$(…)`, a backtick and a
`;` are text. Without a key it replays what the store holds; a check then goes by words and history,
and is not made for a fork. It does not decide how the job ends; `conclude` does. Trade-off: what
the command prints is shown once it has ended, progress as it comes.
"""

import os
import shlex
import shutil
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from ci.runner import (
    CHECK,
    KEYS,
    annotate,
    environment,
    fenced,
    given,
    is_check,
    is_of_fork,
    note,
    own_file,
    set_output,
    xscore,
)

COMMANDS = ("eval", "ask", "context", CHECK)
REPLAY = ("auto", "always", "never")


class NotACommand(ValueError):
    """The inputs do not say what to run."""


def main() -> int:
    """Run the command; give the outputs `exit-code`, `since`, `replayed` and `stdout`. 2: the
    inputs are wrong."""
    try:
        words = command_line(
            given("COMMAND"),
            max_usd=given("MAX_USD"),
            replay=_replays(),
            lacks_key=_lacks_key(),
        )
        stdin = _stdin()
    except NotACommand as error:
        annotate("error", "xscore", str(error))
        return 2
    out = own_file("stdout", ".txt")
    if is_check() and _lacks_key() and is_of_fork():
        return _leave_fork_alone(out)
    if _replays():
        note("replay: nothing is sent, and what the store does not hold stays unjudged")
    set_output("replayed", "true" if _replays() else "false")
    set_output("lacks-key", "true" if _lacks_key() else "false")
    set_output("since", datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f"))
    set_output("stdout", str(out))
    with fenced():
        code = _run(xscore(*words), stdin=stdin, out=out)
        with out.open("r", encoding="utf-8", errors="backslashreplace") as text:
            shutil.copyfileobj(text, sys.stdout)
    set_output("exit-code", str(code))
    return 0


def _leave_fork_alone(out: Path) -> int:
    """Give the outputs of a command that printed nothing: a stranger's change is not commented on
    by words alone."""
    note("check: a fork without a key is not checked")
    out.write_bytes(b"")
    set_output("replayed", "true")
    set_output("lacks-key", "true")
    set_output("since", datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f"))
    set_output("stdout", str(out))
    set_output("exit-code", "0")
    return 0


def command_line(
    command: str, *, max_usd: str, replay: bool, lacks_key: bool = False
) -> list[str]:
    """Return the words to start xscore with.

    Our flags come before those of the command. Raises NotACommand.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise NotACommand(f"the input `command` cannot be read: {error}") from error
    if not words or words[0] not in COMMANDS:
        raise NotACommand(
            f"the input `command` must begin with {', '.join(COMMANDS)}: {command!r}"
        )
    before_texts = words[: words.index("--")] if "--" in words else words
    if max_usd and any(word.partition("=")[0] == "--max-usd" for word in before_texts):
        raise NotACommand(
            "the cap is given twice: take --max-usd out of `command`, or leave the input `max-usd`"
            " empty"
        )
    flags = ["--replay"] if replay else []
    if max_usd:
        flags.append(f"--max-usd={max_usd}")
    if words[0] == CHECK:
        flags += _flags_of_check(
            {word.partition("=")[0] for word in words}, lacks_key=lacks_key
        )
    return [words[0], *flags, *words[1:]]


def _flags_of_check(given_options: set[str], *, lacks_key: bool) -> list[str]:
    """Return the form that the comment shows, and the judge where the settings name a model that
    has no key here."""
    flags: list[str] = []
    if "--format" not in given_options:
        flags.append("--format=markdown")
    if lacks_key and "--judge" not in given_options:
        flags.append("--judge=lexical")
    return flags


def _replays() -> bool:
    way = given("REPLAY") or "auto"
    if way not in REPLAY:
        raise NotACommand(f"the input `replay` is one of {', '.join(REPLAY)}: {way!r}")
    # A check needs no model: without a key it goes by history, links and words.
    return way == "always" or (_lacks_key() and not is_check())


def _lacks_key() -> bool:
    """Whether replay is on only because there is no key."""
    return (given("REPLAY") or "auto") == "auto" and not any(given(name) for name in KEYS)


def _stdin() -> Path:
    named = given("STDIN")
    if not named:
        return Path(os.devnull)
    if not Path(named).is_file():
        raise NotACommand(f"the input `stdin` names no file: {named!r}")
    return Path(named)


def _run(words: list[str], *, stdin: Path, out: Path) -> int:
    """Run it to its end, handing on an interruption: what was paid for is then committed, not
    lost."""
    with stdin.open("rb") as source, out.open("wb") as target:
        child = subprocess.Popen(words, stdin=source, stdout=target, env=environment())
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda received, frame: child.send_signal(signal.SIGINT))
        return child.wait()


if __name__ == "__main__":
    sys.exit(main())
