"""`xscore mcp` as a process: official clients, its two streams, its end, its memory use."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import MakeRepo, store_dir
from tests.extensions.agents.conftest import processes_in
from tests.extensions.agents.mcp_client import FILES, TASK, script, served, started
from tests.waiting import wait_until
from xscore.extensions.agents.mcp_stdio import MOST_LINE_BYTES

CLAIMING = """
import os
from xscore.extensions.agents.mcp_stdio import answer_file, claim_standard_streams
pipes = claim_standard_streams()
print("stray", flush=True)
os.system("echo child; cat")
with answer_file(pipes.out_fd) as answers:
    answers.write("{}")
"""


@pytest.fixture
def shop(make_repo: MakeRepo) -> Iterator[Path]:
    """A small repository; no process of its store survives the test."""
    root = make_repo(FILES)
    yield root
    for pid in processes_in(root):
        with suppress(ProcessLookupError):  # it has just ended by itself
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("mode", "version"), [("legacy", "2025-11-25"), ("auto", "2026-07-28")]
)
async def test_the_official_client_is_served_in_both_eras(
    shop: Path, tmp_path: Path, mode: str, version: str
) -> None:
    """It connects, lists, calls with progress, reads the receipt, cancels a call, and leaves no
    process."""
    from mcp import MCPError, StdioServerParameters
    from mcp.client.client import Client
    from mcp.client.stdio import stdio_client

    seen: list[float] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    judge = ["--judge", script(tmp_path, latency_s=0.2)]
    command = StdioServerParameters(
        command=sys.executable, args=["-P", "-m", "xscore", "mcp", *judge], cwd=shop
    )
    async with Client(stdio_client(command), mode=mode) as client:
        assert client.protocol_version == version
        assert client.server_info is not None
        assert client.server_info.name == "xscore"
        assert [tool.name for tool in (await client.list_tools()).tools] == ["context"]
        reply = await client.call_tool("context", {"task": TASK}, progress_callback=note)
        assert not reply.is_error
        assert "shop/cart.py" in getattr(reply.content[0], "text", "")
        assert seen == sorted(set(seen))
        assert seen
        assert reply.meta is not None
        receipt = await client.read_resource(reply.meta["xscore"]["receipt"])
        assert "it sums" in getattr(receipt.contents[0], "text", "")
        with pytest.raises(MCPError):
            await client.call_tool("context", {"task": "Another"}, read_timeout_seconds=0.05)
        refused = await client.call_tool("context", {"task": TASK, "paths": ["../secrets"]})
        assert refused.is_error
    assert processes_in(shop) == []


def test_nothing_but_the_protocol_reaches_standard_output() -> None:
    """Output of this process or a child goes to standard error, and a child cannot read the
    client's lines."""
    command = [sys.executable, "-c", CLAIMING]
    done = subprocess.run(
        command, input="the client's\n", capture_output=True, text=True, check=True
    )
    assert done.stdout == "{}"
    assert done.stderr == "stray\nchild\n"


def test_a_line_that_is_too_long_is_dropped_to_its_end(shop: Path) -> None:
    """What follows on the same line is no message of its own."""
    with served(shop) as client:
        client.initialize()
        tail = json.dumps({"jsonrpc": "2.0", "id": "tail", "method": "ping"}).encode()
        client.raw(b"x" * MOST_LINE_BYTES + tail + b"\n")
        last_id = client.begin("ping")
        answered_ids = []
        while last_id not in answered_ids:
            message = client.read()
            assert message is not None
            answered_ids.append(message.get("id"))
        assert "tail" not in answered_ids


@pytest.mark.parametrize("at", ["first", "last"])
def test_a_request_that_is_too_long_is_refused(shop: Path, at: str) -> None:
    """Its client gets an answer instead of waiting, whether it writes the id at the beginning of
    the line or at its end; a notification gets none."""
    filling = '"method": "ping", "params": {"id": 7, "x": "%s"}' % ("x" * MOST_LINE_BYTES)
    ends = ('{"jsonrpc": "2.0", "id": 41, %s}', '{%s, "jsonrpc": "2.0", "id": 41}')
    with served(shop) as client:
        client.initialize()
        client.raw((ends[at == "last"] % filling).encode() + b"\n")
        assert client.answer(41)["error"]["code"] == -32601
        client.raw(b"{" + filling.encode() + b"}\n")
        assert client.ask("ping")["result"] == {}


@pytest.mark.parametrize(
    "how",
    [
        "leaves",
        *(pytest.param(name, marks=pytest.mark.verify) for name in ("SIGTERM", "SIGKILL")),
    ],
)
def test_a_client_or_server_that_goes_amid_a_call_leaves_nothing_half_done(
    shop: Path, tmp_path: Path, how: str
) -> None:
    """The process ends soon, without a child, and the next server finds the judgments."""
    environ = {"XSCORE_JUDGE_PACK_SIZE": "1", "XSCORE_JUDGE_CONCURRENCY": "1"}
    slow = script(tmp_path, latency_s=0.2)
    with started(shop, "--judge", slow, **environ) as (client, process):
        client.initialize()
        client.call_until_judged(TASK)
        if how == "leaves":
            client.leave()
        else:
            process.send_signal(getattr(signal, how))
        code = process.wait(timeout=60)
        assert code == {"leaves": 0, "SIGTERM": 130, "SIGKILL": -signal.SIGKILL}[how]
        wait_until(lambda: processes_in(shop) == [])
        while (message := client.read()) is not None:
            assert "result" not in message, "a call that was cut short is no answer"
    with served(shop, judge__model=slow, judge__pack_size=1) as client:
        client.initialize()
        coverage = client.answer(client.call({"task": TASK}))["result"]["_meta"]["xscore"][
            "coverage"
        ]
        assert coverage["cached"] + coverage["carried"] >= 1
        assert coverage["unjudged"] == 0


@pytest.mark.verify
def test_what_the_deadline_leaves_is_said(shop: Path, tmp_path: Path) -> None:
    """A call ends at its deadline with what was judged so far; a background process judges the
    rest."""
    environ = {"XSCORE_JUDGE_PACK_SIZE": "1", "XSCORE_JUDGE_CONCURRENCY": "1"}
    with started(shop, "--judge", script(tmp_path, latency_s=0.5), **environ) as (client, _):
        client.initialize()
        # Makes the index.
        client.answer(client.call({"task": "Anything", "paths": ["README.md"]}))
        result = client.answer(client.call({"task": TASK, "deadline_s": 2}))["result"]
        assert result["_meta"]["xscore"]["coverage"]["unjudged"] > 0
        assert "the rest is being judged" in result["content"][0]["text"]
        wait_until(lambda: len(processes_in(shop)) > 1)


def test_the_repository_may_be_named(shop: Path, tmp_path: Path) -> None:
    """A server started elsewhere serves the given folder, and none if the client gave none."""
    with started(tmp_path, str(shop), "--judge", "lexical") as (client, _):
        client.initialize()
        assert (
            "shop/cart.py"
            in client.answer(client.call({"task": TASK}))["result"]["content"][0]["text"]
        )
    with started(tmp_path, "${workspaceFolder}") as (_, process):
        assert process.wait(timeout=30) == 2
        assert process.stdout is not None
        assert process.stdout.read() == b""
    assert not (store_dir(tmp_path)).exists()


@pytest.mark.verify
def test_the_inspector_is_served(shop: Path) -> None:
    """The official inspector lists the tool and the template, and calls the tool with an
    argument."""
    inspector = shutil.which("mcp-inspector")
    if inspector is None:
        pytest.skip(
            "mcp-inspector is not installed (npm install -g @modelcontextprotocol/inspector)"
        )

    def inspect(*method: str) -> dict[str, Any]:
        server = [sys.executable, "-P", "-m", "xscore", "mcp", "--judge", "lexical"]
        command = [inspector, "--cli", *server, "--method", *method]
        done = subprocess.run(
            command, cwd=shop, capture_output=True, text=True, check=True, timeout=60
        )
        reply = json.loads(done.stdout)
        assert isinstance(reply, dict)
        return reply

    assert [tool["name"] for tool in inspect("tools/list")["tools"]] == ["context"]
    assert (
        inspect("resources/templates/list")["resourceTemplates"][0]["uriTemplate"]
        == "xscore://turn/{id}"
    )
    reply = inspect("tools/call", "--tool-name", "context", "--tool-arg", f"task={TASK}")
    assert "shop/cart.py" in reply["content"][0]["text"]
