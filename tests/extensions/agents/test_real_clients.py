"""The real agents, if installed: from a clean home, what the hook found is in the prompt their
model gets.

    npm install -g @anthropic-ai/claude-code @openai/codex @google/gemini-cli

Their model is a host of this machine that answers "Done." and keeps what it was sent.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.conftest import MakeRepo
from tests.extensions.agents.mcp_client import FILES, TASK
from tests.servers.threaded_server import ThreadedServer, serve_app
from xscore.store.failed_actions import MARKER

CODEX_CONFIG = """
model_provider = "loopback"
[model_providers.loopback]
name = "loopback"
base_url = "{url}/v1"
wire_api = "responses"
[projects."{root}"]
trust_level = "trusted"
"""
GEMINI_SETTINGS = (
    '{"security": {"auth": {"selectedType": "gemini-api-key"}, '
    '"folderTrust": {"enabled": false}}}'
)
COMMANDS = {
    "claude-code": ["claude", "-p", TASK],
    "codex": ["codex", "exec", "--dangerously-bypass-hook-trust", TASK],
    "gemini": ["gemini", "--skip-trust", "-p", TASK],
}
FOUND = (
    "xscore only matched words",
    "shop/cart.py:4-6",
    "Find the code, tests, documents and past decisions",
)
"""The hook's first line, its best place, and what the MCP server says of its tool."""


FAILING = "python3 -c 'import no_such_module'"
TOOLS = {
    "claude-code": ("Bash", "command"),
    "codex": ("exec_command", "cmd"),
    "gemini": ("run_shell_command", "command"),
}
"""How each agent's model asks for a command."""
WAITING = "sleep 10"
"""Agents send their first request before their MCP servers have started; the next one comes after
that."""
UNATTENDED = {
    "claude-code": ["--dangerously-skip-permissions"],
    # The newest model has scripts run its commands, whose folder is not known.
    "codex": ["-m", "gpt-5.1", "--dangerously-bypass-approvals-and-sandbox"],
    "gemini": ["-y"],
}


class ModelHost(ThreadedServer):
    """Answers all three vendors' streams."""

    def __init__(self, client: str, calls: int, command: str = FAILING) -> None:
        super().__init__()
        self.sent = ""
        self._client = client
        self._command = command
        self._calls = calls
        """How many times it asks for the command before it is done."""

    async def serve(self) -> None:
        """Serve every path."""
        app = web.Application(client_max_size=2**26)
        app.router.add_route("*", "/{path:.*}", self._answer)
        await serve_app(self, app)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if request.method != "POST":
            return web.json_response({"data": [], "models": []})
        body = await request.text()
        self.sent += body
        # A title or a count of tokens is asked for without tools.
        if self._calls and '"tools":' in body and "count_tokens" not in request.path:
            self._calls -= 1
            return _events(_command_call(self._client, self._calls, self._command))
        if "/messages" in request.path:
            return _events(_messages())
        return _events(_responses() if "/responses" in request.path else [_candidate()])


def _events(events: list[dict[str, Any]]) -> web.Response:
    names = (f"event: {event['type']}\n" if "type" in event else "" for event in events)
    lines = (
        f"{name}data: {json.dumps(event)}\r\n\r\n"
        for name, event in zip(names, events, strict=True)
    )
    return web.Response(text="".join(lines), content_type="text/event-stream")


def _messages() -> list[dict[str, Any]]:
    message: dict[str, Any] = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
    }
    return [
        {
            "type": "message_start",
            "message": {**message, "usage": {"input_tokens": 1, "output_tokens": 1}},
        },
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "text", "text": ""},
        },
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": "Done."},
        },
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": 2},
        },
        {"type": "message_stop"},
    ]


def _command_call(client: str, number: int, command: str) -> list[dict[str, Any]]:
    """Return the stream in which a model asks for a command."""
    name, key = TOOLS[client]
    arguments: dict[str, Any] = {key: command}
    if client == "claude-code":
        arguments["description"] = "try it"
    elif client == "codex":
        # It would go on while the command runs.
        arguments["yield_time_ms"] = 20_000
    if client == "gemini":
        call = {"functionCall": {"name": name, "args": arguments, "id": f"f{number}"}}
        content = {"role": "model", "parts": [call]}
        return [{"candidates": [{"content": content, "finishReason": "STOP"}]}]
    text = json.dumps(arguments)
    if client == "codex":
        item = {"type": "function_call", "id": f"fc{number}", "name": name, "arguments": text}
        start, _, end = _responses()
        done = {"type": "response.output_item.done", "item": {**item, "call_id": f"c{number}"}}
        return [start, done, end]
    start, *_, delta, stop = _messages()
    block = {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": {}}
    part = {"type": "input_json_delta", "partial_json": text}
    return [
        start,
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": part},
        {"type": "content_block_stop", "index": 0},
        {**delta, "delta": {"stop_reason": "tool_use"}},
        stop,
    ]


def _responses() -> list[dict[str, Any]]:
    item = {
        "type": "message",
        "role": "assistant",
        "id": "m",
        "content": [{"type": "output_text", "text": "Done."}],
    }
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    return [
        {"type": "response.created", "response": {"id": "r"}},
        {"type": "response.output_item.done", "item": item},
        {"type": "response.completed", "response": {"id": "r", "usage": usage}},
    ]


def _candidate() -> dict[str, Any]:
    return {
        "candidates": [
            {"content": {"role": "model", "parts": [{"text": "Done."}]}, "finishReason": "STOP"}
        ]
    }


@pytest.mark.verify
@pytest.mark.parametrize("client", sorted(COMMANDS))
def test_the_agents_model_gets_what_the_hook_found(
    client: str, make_repo: MakeRepo, tmp_path: Path
) -> None:
    """`agent install --write` and a first index are all: the bundle and the server's words arrive
    at the model."""
    root = make_repo(FILES)
    with ModelHost(client, calls=1, command=WAITING) as host:
        home = tmp_path / "home"
        output = run_agent(client, root, home, host, *UNATTENDED[client], index=True)
    assert "Done." in output
    assert [words for words in FOUND if words not in host.sent] == []


@pytest.mark.verify
@pytest.mark.parametrize("client", sorted(COMMANDS))
def test_the_agents_repeated_failure_is_denied_once(
    client: str, make_repo: MakeRepo, tmp_path: Path
) -> None:
    """Of three calls of a command that fails the first runs, the second is denied, the third runs
    again."""
    root = make_repo({**FILES, ".gitignore": "*.db\n"})
    with ModelHost(client, calls=3) as host:
        run_agent(client, root, tmp_path / "home", host, *UNATTENDED[client])
    # The last request holds the whole conversation.
    last = host.sent[host.sent.rindex(FAILING) :]
    assert "xscore stopped this once" in host.sent
    assert "ModuleNotFoundError" in last
    record = read_actions_of(root, tmp_path / "home")
    assert (record["times"], len(record["denied"])) == (2, 1)


def read_actions_of(root: Path, home: Path) -> dict[str, Any]:
    """Return the one action on record for a repository."""
    place = home / f".local/state/xscore/failures{os.path.realpath(root)}" / MARKER
    (action,) = json.loads(place.read_bytes())["actions"]
    return dict(action)


def run_agent(
    client: str, root: Path, home: Path, host: ModelHost, *options: str, index: bool = False
) -> str:
    """Install xscore for an agent and run it once; return what it prints."""
    program = shutil.which(COMMANDS[client][0])
    if program is None:
        pytest.skip(f"{COMMANDS[client][0]} is not installed")
    url = f"http://{host.host}"
    (home / ".codex").mkdir(parents=True)
    (home / ".codex" / "config.toml").write_text(CODEX_CONFIG.format(url=url, root=root))
    (home / ".gemini").mkdir()
    (home / ".gemini" / "settings.json").write_text(GEMINI_SETTINGS)
    environ = {
        "HOME": str(home),
        "PATH": os.pathsep.join(
            [str(Path(sys.executable).parent), str(Path(program).parent), "/usr/bin", "/bin"]
        ),
        "XSCORE_JUDGE_MODEL": "lexical",
        "ANTHROPIC_API_KEY": "none",
        "ANTHROPIC_BASE_URL": url,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "GEMINI_API_KEY": "none",
        "GOOGLE_GEMINI_BASE_URL": url,
        "IS_SANDBOX": "1",
    }
    install = ["xscore", "agent", "install", "--client", client, "--write"]
    first, *rest = COMMANDS[client]
    agent = [first, *rest[:-1], *options, rest[-1]]
    if client == "gemini":  # its prompt follows its last option
        agent = [first, *options, *rest]
    for command in (install, *([["xscore", "index"]] if index else []), agent):
        done = subprocess.run(
            command,
            cwd=root,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
