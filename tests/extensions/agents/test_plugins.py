"""The plugins match the client table and each client's documentation.

Claude Code (`claude plugin validate --strict`), Codex (`codex plugin add`) and Gemini CLI (`gemini
extensions validate`) check their own form where they are installed; what is asserted of all four
here is written down from their documentation and, for the registry, its schema of 2025-12-11.
"""

import itertools
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from ci.plugins import ABOUT, FOLDER, plugin_files
from tests.test_readme import parse
from xscore.extensions.agents import hook_events, tool_call
from xscore.extensions.agents.clients import CLIENTS, hook_entries, skill_text, subagent_text
from xscore.extensions.agents.hook_guards import unguarded_command

CHECKOUT = Path(__file__).parents[3]
FILES = plugin_files()
FORMS: dict[str, Any] = {
    path: json.loads(text) for path, text in FILES.items() if path.endswith(".json")
}
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
EVENTS = {
    "claude-code": (
        "UserPromptSubmit SessionStart SessionEnd Stop SubagentStart SubagentStop PreToolUse"
        " PostToolUse PostToolUseFailure PreCompact"
    ),
    "codex": (
        "UserPromptSubmit SessionStart Stop SubagentStart SubagentStop PreToolUse PostToolUse"
        " PermissionRequest PreCompact"
    ),
    "cursor": (
        "beforeSubmitPrompt sessionStart sessionEnd stop afterFileEdit preToolUse postToolUse"
        " postToolUseFailure afterAgentResponse"
    ),
    "gemini": (
        "BeforeAgent AfterAgent BeforeModel AfterModel BeforeTool AfterTool SessionStart SessionEnd"
        " PreCompress"
    ),
}
"""The events in each client's documentation; unknown events are silently ignored."""
GROUP, COMMAND = {"matcher", "hooks"}, {"type", "command", "timeout"}
KEYS = {
    "claude-code": COMMAND,
    "codex": COMMAND,
    "gemini": {*COMMAND, "name"},
    "cursor": COMMAND - {"type"},
}


def test_the_files_are_those_of_the_table() -> None:
    """`make docs` would change no plugin, and there is no other file among them."""
    assert {path: (CHECKOUT / path).read_text("utf-8") for path in FILES} == FILES, (
        "run `make docs`"
    )
    below = {
        str(path.relative_to(CHECKOUT))
        for path in (CHECKOUT / FOLDER).rglob("*")
        if path.is_file()
    }
    assert below <= FILES.keys()


@pytest.mark.parametrize("client", CLIENTS)
def test_hooks_have_the_form_that_the_client_reads(client: str) -> None:
    """Known events, a group where required, known keys, a matcher that is a pattern, seconds or
    milliseconds."""
    hooks = FORMS[f"{FOLDER}/{client}/hooks/hooks.json"]
    assert set(hooks) == ({"version", "hooks"} if client == "cursor" else {"hooks"})
    assert set(hooks["hooks"]) <= set(EVENTS[client].split())
    for entry in itertools.chain(*hooks["hooks"].values()):
        flat = CLIENTS[client].flat_hooks
        (command,) = [entry] if flat else entry["hooks"]
        assert flat or set(entry) <= GROUP
        assert set(command) - {"matcher"} == KEYS[client]
        assert re.compile(entry.get("matcher", ""))
        assert 5 <= command["timeout"] / (1_000 if client == "gemini" else 1) <= 60
        assert unguarded_command(command["command"]).startswith("xscore hook ")


@pytest.mark.parametrize(
    "path",
    [
        path
        for path in FILES
        if Path(path).name in ("mcp.json", ".mcp.json", "gemini-extension.json")
    ],
)
def test_servers_are_started_by_name(path: str) -> None:
    """One server of program and arguments, without a shell line or a variable's value."""
    ((name, server),) = FORMS[path]["mcpServers"].items()
    assert (name, server["command"], server["args"][0]) == ("xscore", "xscore", "mcp")
    assert set(server) <= {"command", "args", "env_vars"}


@pytest.mark.parametrize("client", CLIENTS)
def test_what_a_client_calls_is_there(client: str) -> None:
    """The commands of hooks, server and skill exist with their options, and `xscore hook` knows the
    same clients."""
    lines = []
    for entry in hook_entries(CLIENTS[client], "xscore"):
        (command,) = entry.value.get("hooks", [entry.value])
        lines.append(unguarded_command(command["command"]))
    lines += ["xscore mcp", *re.findall(r"`(xscore \w[^`]*)`", skill_text().replace("\n", " "))]
    assert len(lines) == 4 + len(CLIENTS[client].events)
    for line in lines:
        parse(line.removeprefix("xscore "))
    assert set(tool_call.CLIENTS) == CLIENTS.keys()
    assert {*hook_events.EVENTS, "pre-tool"} >= CLIENTS[client].events.keys()


MANIFESTS = {
    f"{FOLDER}/claude-code/.claude-plugin/plugin.json": ".claude-plugin/marketplace.json",
    f"{FOLDER}/codex/.codex-plugin/plugin.json": ".agents/plugins/marketplace.json",
    f"{FOLDER}/cursor/.cursor-plugin/plugin.json": ".cursor-plugin/marketplace.json",
}


@pytest.mark.parametrize("path", MANIFESTS)
def test_manifests_name_what_is_there(path: str) -> None:
    """Name, version, author and license are set; paths in a manifest or marketplace lead to files
    of the plugin."""
    manifest, folder = FORMS[path], CHECKOUT / Path(path).parents[1]
    assert NAME.fullmatch(manifest["name"])
    assert re.fullmatch(r"\d+\.\d+\.\d+", manifest["version"])
    assert manifest["author"]["name"]
    assert manifest["license"] == "MIT"
    for key in {"skills", "mcpServers", "hooks"} & manifest.keys():
        assert manifest[key].startswith("./")
        assert (folder / manifest[key]).exists()
    (listed,) = FORMS[MANIFESTS[path]]["plugins"]
    source = listed["source"] if isinstance(listed["source"], str) else listed["source"]["path"]
    assert (CHECKOUT / source).resolve() == folder
    assert listed["name"] == manifest["name"]


@pytest.mark.parametrize("text", [skill_text(), subagent_text()], ids=["skill", "sub-agent"])
def test_a_skill_says_when_it_is_for(text: str) -> None:
    """The front matter is YAML with a name and a description within the limits of Agent Skills."""
    _, head, body = text.split("---\n", 2)
    fields = yaml.safe_load(head)
    assert NAME.fullmatch(fields["name"])
    assert 50 <= len(fields["description"]) <= 1_024
    assert len(body.split()) < 300


def test_the_registry_entry() -> None:
    """A reverse-DNS name with one slash, a description of at most 100 characters, matching
    versions, stdio."""
    entry = FORMS["server.json"]
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", entry["name"])
    assert 3 <= len(entry["name"]) <= 200
    assert 1 <= len(entry["description"]) <= 100
    (package,) = entry["packages"]
    assert (package["registryType"], package["transport"]) == ("pypi", {"type": "stdio"})
    assert package["version"] == entry["version"] != "latest"
    assert all(
        argument["type"] == "positional" and argument["value"]
        for argument in package["packageArguments"]
    )
    assert all(
        set(variable) == {"name", "description", "isSecret"}
        for variable in package["environmentVariables"]
    )
    assert len(ABOUT) <= 120


@pytest.mark.verify
@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        ("claude", ["plugin", "validate", "--strict", "."]),
        ("claude", ["plugin", "validate", "--strict", f"{FOLDER}/claude-code"]),
        ("gemini", ["extensions", "validate", f"{FOLDER}/gemini"]),
    ],
)
def test_the_client_itself_takes_its_plugin(program: str, arguments: list[str]) -> None:
    """If a client is installed, its own check passes."""
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    done = subprocess.run(
        [program, *arguments],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
