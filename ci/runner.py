"""What a step tells the runner: annotations, outputs, and text that the runner must not read as commands.

The runner takes a line that begins with `::` for a command and one `name=value` of a file for an output, so whatever is
not ours is escaped, fenced by a word nobody can guess, or kept out of the log. It knows nothing of xscore. Trade-off: a
log shows the text of others as it is, within a fence; nothing of it is left out.
"""

import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LEVELS = ("notice", "warning", "error")


def annotate(level: str, title: str, message: str) -> None:
    """Write one annotation; title and message are text, whatever they hold."""
    if level not in LEVELS:
        raise ValueError(f"the runner knows no annotation {level!r}")
    print(f"::{level} title={_of_a_property(title)}::{_of_a_message(message)}", flush=True)


def note(text: str) -> None:
    """Write one line to the log that is no command, whatever it holds."""
    line = " ".join(text.split())
    print(f"xscore: {line}", flush=True)


def set_output(name: str, value: str) -> None:
    """Give an output of this step, of one line or of many."""
    _append("GITHUB_OUTPUT", name, value)


@contextmanager
def fenced() -> Iterator[None]:
    """Let the runner read no command in what is written meanwhile, by us or by a process of ours."""
    word = secrets.token_hex(16)
    print(f"::stop-commands::{word}", flush=True)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        print(f"\n::{word}::", flush=True)


def given(name: str) -> str:
    """Return what the step was given under this name, without blanks around it; empty: nothing."""
    return os.environ.get(name, "").strip()


def is_true(name: str) -> bool:
    """Whether an output of another step says yes."""
    return given(name) == "true"


def own_folder() -> Path:
    """The folder of the action on this runner; made where it is not there."""
    place = Path(os.environ["RUNNER_TEMP"]) / "xscore"
    place.mkdir(parents=True, exist_ok=True)
    return place


def own_file(stem: str, ending: str) -> Path:
    """A file of this use of the action, of a name that no other use in the job or the run has."""
    use = given("USE")
    return own_folder() / f"{stem}{'-' if use else ''}{use}{ending}"


def _append(variable: str, name: str, value: str) -> None:
    end = f"end-{secrets.token_hex(16)}"
    with Path(os.environ[variable]).open("a", encoding="utf-8") as file:
        file.write(f"{name}<<{end}\n{value}\n{end}\n")


def _of_a_message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _of_a_property(text: str) -> str:
    return _of_a_message(text).replace(":", "%3A").replace(",", "%2C")
