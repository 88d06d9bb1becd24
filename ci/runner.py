"""What a step and the runner tell each other: annotations, outputs, the event, and xscore as a
process.

The runner takes a line that begins with `::` for a command and one `name=value` of a file for an
output, so whatever is not ours is escaped, fenced by a random word, or kept out of the log.
Trade-off: a log shows the text of others as it is, within a fence; nothing of it is left out.
"""

import json
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

CHECK = "check"
ONE_TURN = ("ask", "context")
KEYS = ("OPENAI_API_KEY", "TYPESAFE_API_KEY", "ANTHROPIC_API_KEY")


def annotate(level: Literal["notice", "warning", "error"], title: str, message: str) -> None:
    """Write one annotation; title and message are text, whatever they hold."""
    print(f"::{level} title={_of_a_property(title)}::{_of_a_message(message)}", flush=True)


def note(text: str) -> None:
    """Write one line to the log that is no command, whatever it holds."""
    print(f"xscore: {' '.join(text.split())}", flush=True)


def set_output(name: str, value: str) -> None:
    """Give an output of this step, of one line or of many."""
    end = f"end-{secrets.token_hex(16)}"
    with Path(os.environ["GITHUB_OUTPUT"]).open("a", encoding="utf-8") as file:
        file.write(f"{name}<<{end}\n{value}\n{end}\n")


@contextmanager
def fenced() -> Iterator[None]:
    """Let the runner read no command in what is written meanwhile, by us or by a process of
    ours."""
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


def own_pull_request() -> int | None:
    """Return the number of the pull request if its code is of this very repository; one of a fork
    counts as none."""
    payload: dict[str, Any] = json.loads(
        Path(os.environ["GITHUB_EVENT_PATH"]).read_text("utf-8")
    )
    pull, repository = payload.get("pull_request") or {}, os.environ["GITHUB_REPOSITORY"]
    head = (pull.get("head") or {}).get("repo") or {}
    return int(pull["number"]) if repository and head.get("full_name") == repository else None


def is_of_fork() -> bool:
    """Whether this run is for a pull request whose code is not of this repository."""
    payload: dict[str, Any] = json.loads(
        Path(os.environ["GITHUB_EVENT_PATH"]).read_text("utf-8")
    )
    return bool(payload.get("pull_request")) and own_pull_request() is None


def is_check() -> bool:
    """Whether the command is `xscore check`, whose list is all that there is to tell."""
    return given("COMMAND").partition(" ")[0] == CHECK


def is_one_turn() -> bool:
    """Whether the command is one turn, which has a page of its own."""
    return given("COMMAND").partition(" ")[0] in ONE_TURN


def xscore(*arguments: str) -> list[str]:
    """Return the words to start xscore with."""
    return [os.environ["XSCORE"], *arguments]


def environment() -> dict[str, str]:
    """Return what xscore sees: no key that is empty, as the secrets of a fork are, and not our
    modules."""
    return {
        name: value
        for name, value in os.environ.items()
        if name != "PYTHONPATH" and not (name in KEYS and not value.strip())
    }


def _of_a_message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _of_a_property(text: str) -> str:
    return _of_a_message(text).replace(":", "%3A").replace(",", "%2C")
