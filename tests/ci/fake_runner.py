"""A runner for one composite action: reads `action.yml`, runs its shell under bash, keeps caches
and artifacts.

It is GitHub's in what the steps can see of it: files for outputs and summary, expressions,
conditions, commands in the log, folders that expressions name as the host of a container does, a
cancellation after which only `always()` runs. Steps that use an action of GitHub's are done here,
as their manuals say. It knows no more of the expression language than this action uses.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct, field

from tests.conftest import store_dir

ROOT = Path(__file__).parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
REPOSITORY = "someone/shop"
NOT_HERE = "/dev/null/of/the/host"
"""The value of expressions for folders of the machine; the path cannot be created."""
_TOKEN = re.compile(r"'[^']*'|&&|\|\||==|!=|[()]|[A-Za-z_][\w.-]*")
_WORDS = {"&&": "and", "||": "or"}
_COMMAND = re.compile(r"::([\w-]+)(?: title=([^:]*))?::(.*)")


def job_environment(
    temp: Path, *, event: object = None, event_name: str = "push"
) -> dict[str, str]:
    """Write the event, and return GitHub's variables of a job whose files are in this folder."""
    (temp / "event.json").write_text(json.dumps(event or {}))
    return {
        "GITHUB_EVENT_NAME": event_name,
        "GITHUB_EVENT_PATH": str(temp / "event.json"),
        "GITHUB_JOB": "questions",
        "GITHUB_OUTPUT": str(temp / "output"),
        "GITHUB_REPOSITORY": REPOSITORY,
        "GITHUB_RUN_ID": "77",
        "GITHUB_SERVER_URL": "https://github.invalid",
        "GITHUB_STEP_SUMMARY": str(temp / "summary"),
        "GITHUB_WORKFLOW": "xscore",
        "RUNNER_OS": "Linux",
        "RUNNER_TEMP": str(temp / "runner"),
    }


class Annotation(Struct, frozen=True):
    """An annotation shown with the run."""

    level: str
    title: str
    message: str


class ActionRun(Struct):
    """The result of one use of the action."""

    code: int = 0
    """The exit code of the first failed step."""
    cancelled: bool = False
    """Whether the job was cancelled while the command ran."""
    log: str = ""
    summary: str = ""
    steps: dict[str, dict[str, dict[str, str]]] = field(default_factory=dict)
    """The `outputs` of each step that ran."""
    outputs: dict[str, str] = field(default_factory=dict)

    @property
    def annotations(self) -> list[Annotation]:
        """Return the annotations in the log."""
        return list(annotations(self.log))

    def titles(self, level: str) -> list[str]:
        """Return the titles of this level."""
        return [
            annotation.title for annotation in self.annotations if annotation.level == level
        ]


class Runner(Struct):
    """One machine with a checkout, and what GitHub stores for its repository."""

    workspace: Path
    temp: Path
    environ: dict[str, str] = field(default_factory=dict)
    """The environment of the step that uses the action: keys and settings."""
    caches: dict[str, Path] = field(default_factory=dict)
    artifacts: dict[str, str] = field(default_factory=dict)
    api_url: str = "http://127.0.0.1:9"
    really_installs: bool = False
    cancel_when: Callable[[], bool] | None = None
    """Whether the job is to be cancelled; asked while the command runs."""

    @property
    def runner_temp(self) -> Path:
        """The value of RUNNER_TEMP, emptied before each job."""
        return self.temp / "runner"

    def use(
        self,
        inputs: Mapping[str, str],
        *,
        event_name: str = "push",
        event: Mapping[str, Any] | None = None,
        goes_on: bool = False,
    ) -> ActionRun:
        """Run the action once in a new job; goes_on: in the job of the previous use."""
        ran = ActionRun()
        if not goes_on:
            shutil.rmtree(self.runner_temp, ignore_errors=True)
            shutil.rmtree(store_dir(self.workspace), ignore_errors=True)
        self.runner_temp.mkdir(parents=True, exist_ok=True)
        job = job_environment(self.temp, event=event, event_name=event_name)
        context: dict[str, Any] = {
            "github": {"action_path": f"{NOT_HERE}/action", "token": "t0ken"},
            "runner": {"temp": f"{NOT_HERE}/temp"},
            "steps": ran.steps,
        }
        defaults = {
            name: str(field.get("default", "")) for name, field in ACTION["inputs"].items()
        }
        context["inputs"] = {
            name: interpolate(field, context) for name, field in defaults.items()
        } | dict(inputs)
        for step in STEPS:
            if self._is_due(step, context, failed=ran.code != 0 or ran.cancelled):
                self._do(step, context, ran, job)
        ran.outputs = {
            name: interpolate(field["value"], context)
            for name, field in ACTION["outputs"].items()
        }
        return ran

    def _is_due(self, step: dict[str, Any], context: dict[str, Any], *, failed: bool) -> bool:
        condition = str(step.get("if", "true"))
        if failed and "always()" not in condition:
            return False
        return condition == "true" or bool(
            value(condition.removeprefix("${{").removesuffix("}}"), context)
        )

    def _do(
        self, step: dict[str, Any], context: dict[str, Any], ran: ActionRun, job: dict[str, str]
    ) -> None:
        name = step["id"]
        ran.steps[name] = {"outputs": {}}
        if "uses" in step:
            with_ = {
                key: interpolate(str(argument), context)
                for key, argument in step["with"].items()
            }
            outputs = self._use(step["uses"].partition("@")[0], with_)
        elif name == "install" and not self.really_installs:
            outputs = {
                "xscore": str(Path(sys.executable).with_name("xscore")),
                "python": sys.executable,
            }
        else:
            outputs = self._shell(step, context, ran, job)
        ran.steps[name]["outputs"] = outputs

    def _use(self, action: str, with_: dict[str, str]) -> dict[str, str]:
        if action == "actions/cache/restore":
            return self._restore(with_["path"], with_["restore-keys"].split("\n"))
        if action == "actions/cache/save":
            kept = self.temp / "caches" / with_["key"]
            shutil.copytree(self.workspace / with_["path"], kept)
            self.caches[with_["key"]] = kept
            return {}
        if action == "actions/upload-artifact":
            page = Path(with_["path"])
            self.artifacts[page.name] = page.read_text("utf-8")
            return {"artifact-url": f"https://github.example/artifacts/{page.name}"}
        raise AssertionError(f"{action} is not known here")

    def _restore(self, path: str, prefixes: list[str]) -> dict[str, str]:
        for prefix in prefixes:
            for key in reversed(self.caches):
                if key.startswith(prefix):
                    shutil.copytree(self.caches[key], self.workspace / path)
                    return {"cache-matched-key": key}
        return {}

    def _shell(
        self, step: dict[str, Any], context: dict[str, Any], ran: ActionRun, job: dict[str, str]
    ) -> dict[str, str]:
        script, output, summary = (
            self.temp / text for text in ("step.sh", "output", "summary")
        )
        script.write_text(step["run"])
        output.write_text("")
        summary.write_text("")
        words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)]
        environ = {
            **{name: text for name, text in os.environ.items() if name != "PYTHONPATH"},
            **self.environ,
            **job,
            "GITHUB_ACTION_PATH": str(ROOT),
            "GITHUB_API_URL": self.api_url,
            **{
                name: interpolate(str(text), context)
                for name, text in step.get("env", {}).items()
            },
        }
        running = subprocess.Popen(
            words,
            cwd=self.workspace,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        if step["id"] == "command":
            ran.cancelled = self._is_interrupted(running)
        log, _ = running.communicate(timeout=300)
        ran.log += log.decode("utf-8", "replace")
        ran.summary += summary.read_text("utf-8")
        ran.code = ran.code or running.returncode
        return dict(outputs_of(output.read_text("utf-8")))

    def _is_interrupted(self, running: "subprocess.Popen[bytes]") -> bool:
        """Interrupt the step as the runner does when the time has come; return whether that was
        before its end."""
        while self.cancel_when and running.poll() is None:
            if self.cancel_when():
                running.send_signal(signal.SIGINT)
                return True
            time.sleep(0.01)
        return False


def interpolate(text: str, context: Mapping[str, Any]) -> str:
    """Replace the expressions in a text by their values."""
    return re.sub(r"\$\{\{(.*?)\}\}", lambda match: str(value(match[1], context)), text)


def value(expression: str, context: Mapping[str, Any]) -> object:
    """Return the value of an expression; a missing one is an empty string."""
    tokens = _TOKEN.findall(expression.replace("always()", "'yes'"))
    assert "".join(tokens) == re.sub(r"\s", "", expression.replace("always()", "'yes'")), (
        expression
    )
    words = [
        _WORDS.get(token, token) if token[0] in "'&|=!()" else repr(_look_up(token, context))
        for token in tokens
    ]
    return eval(" ".join(words))


def outputs_of(text: str) -> Iterator[tuple[str, str]]:
    """Read an output file, in both of its forms."""
    lines = iter(text.splitlines())
    for line in lines:
        name, fence, end = line.partition("<<")
        if fence:
            held = []
            for within in lines:
                if within == end:
                    break
                held.append(within)
            yield name, "\n".join(held)
        elif line:
            name, _, held_in_line = line.partition("=")
            yield name, held_in_line


def annotations(log: str) -> Iterator[Annotation]:
    """Read the workflow commands in a log, except between `stop-commands` and its token."""
    word = ""
    for line in log.splitlines():
        if word:
            word = "" if line == f"::{word}::" else word
            continue
        command = _COMMAND.match(line)
        if command and command[1] == "stop-commands":
            word = command[3]
        elif command:
            yield Annotation(command[1], _plain(command[2] or ""), _plain(command[3]))


def _plain(text: str) -> str:
    for code, char in (("%3A", ":"), ("%2C", ","), ("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
        text = text.replace(code, char)
    return text


def _look_up(name: str, context: Mapping[str, Any]) -> str:
    node: Any = context
    for part in name.split("."):
        node = node.get(part, "") if isinstance(node, Mapping) else ""
    return str(node)
