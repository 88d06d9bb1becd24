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
    '{"security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": false}}}'
)
COMMANDS = {
    "claude-code": ["claude", "-p", TASK],
    "codex": ["codex", "exec", "--dangerously-bypass-hook-trust", TASK],
    "gemini": ["gemini", "--skip-trust", "-p", TASK],
}
FOUND = (
    "xscore only matched words",
    "shop/cart.py:4-6",
    "Call `context` once at the start of a task",
)
"""The hook's first line, its best place, and what the MCP server says of its tool."""


class ModelHost(ThreadedServer):
    """Answers all three vendors' streams."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = ""

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
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
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
    program = shutil.which(COMMANDS[client][0])
    if program is None:
        pytest.skip(f"{COMMANDS[client][0]} is not installed")
    root, home = make_repo(FILES), tmp_path / "home"
    with ModelHost() as host:
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
        }
        install = ["xscore", "agent", "install", "--client", client, "--write"]
        for command in (install, ["xscore", "index"], COMMANDS[client]):
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
    assert "Done." in done.stdout
    assert [words for words in FOUND if words not in host.sent] == []
