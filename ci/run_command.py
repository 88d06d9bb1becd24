"""The one step that may send something: `xscore eval`, `ask` or `context`, as the input `command`
says.

The command is cut into words as a shell would, and no shell ever sees it: `$(…)`, a backtick and a
`;` are text. Without a key it replays what the store holds. It does not decide how the job ends;
`conclude` does. Trade-off: what the command prints is shown once it has ended, progress as it
comes.
"""

import os
import shlex
import shutil
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from ci.runner import KEYS, annotate, environment, fenced, given, note, own_file, set_output, xscore

COMMANDS = ("eval", "ask", "context")
REPLAY = ("auto", "always", "never")


class NotACommand(ValueError):
    """The inputs do not say what to run."""


def main() -> int:
    """Run the command; give the outputs `exit-code`, `since`, `replayed` and `stdout`. 2: the
    inputs are wrong."""
    try:
        words = command_line(given("COMMAND"), max_usd=given("MAX_USD"), replay=_replays())
        stdin = _stdin()
    except NotACommand as error:
        annotate("error", "xscore", str(error))
        return 2
    out = own_file("stdout", ".txt")
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


def command_line(command: str, *, max_usd: str, replay: bool) -> list[str]:
    """Return the words to start xscore with.

    Our flags stand before those of the command. Raises NotACommand.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise NotACommand(f"the input `command` cannot be read: {error}") from error
    if not words or words[0] not in COMMANDS:
        raise NotACommand(f"the input `command` must begin with {', '.join(COMMANDS)}: {command!r}")
    before_texts = words[: words.index("--")] if "--" in words else words
    if max_usd and any(word.partition("=")[0] == "--max-usd" for word in before_texts):
        raise NotACommand(
            "the cap is given twice: take --max-usd out of `command`, or leave the input `max-usd`"
            " empty"
        )
    flags = ["--replay"] if replay else []
    if max_usd:
        flags.append(f"--max-usd={max_usd}")
    return [words[0], *flags, *words[1:]]


def _replays() -> bool:
    way = given("REPLAY") or "auto"
    if way not in REPLAY:
        raise NotACommand(f"the input `replay` is one of {', '.join(REPLAY)}: {way!r}")
    return way == "always" or _lacks_key()


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
