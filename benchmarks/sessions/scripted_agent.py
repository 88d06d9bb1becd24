"""An agent without a model, which proves the harness: it asks the hook or the server, reads files,
and makes one edit.

    scripted_agent.py PROMPT SETTINGS SERVERS

The prompt ends with a line of JSON, `[old, new]`. It reads files until one holds the old text:
first those that its context names, then all others. Its tokens are a quarter of the characters
read; they say nothing about a real agent.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

EVENT = "UserPromptSubmit"


def main() -> None:
    task, _, edit = sys.argv[1].rpartition("\n")
    settings, servers = (json.loads(Path(name).read_text()) for name in sys.argv[2:])
    old, new = json.loads(edit)
    context = "".join(
        asked_hook(group["hooks"][0], task) for group in settings["hooks"].get(EVENT, ())
    )
    context += "".join(asked_server(server, task) for server in servers["mcpServers"].values())
    say(type="context", text=context)
    named, read = re.findall(r"[\w./-]+\.py", context), len(sys.argv[1]) + len(context)
    files = sorted(map(str, Path().rglob("*.py")))
    for path in sorted(
        files, key=lambda file: named.index(file) if file in named else len(named)
    ):
        text = Path(path).read_text()
        read += len(text)
        say(type="tool_use", name="Edit" if old in text else "Read", path=path)
        if old in text:
            Path(path).write_text(text.replace(old, new))
            break
    say(type="result", usage={"input_tokens": read // 4, "output_tokens": len(new) // 4})


def asked_hook(hook: dict[str, Any], task: str) -> str:
    """Run a hook as Claude Code does and return what it adds."""
    message = {
        "session_id": "scripted",
        "cwd": str(Path.cwd()),
        "hook_event_name": EVENT,
        "prompt": task,
    }
    done = subprocess.run(
        hook["command"],
        shell=True,
        input=json.dumps(message),
        capture_output=True,
        text=True,
        check=True,
    )
    return str(
        json.loads(done.stdout or "{}")
        .get("hookSpecificOutput", {})
        .get("additionalContext", "")
    )


def asked_server(server: dict[str, Any], task: str) -> str:
    """Call the tool `context` of an MCP server over its standard streams."""
    about = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "scripted", "version": "1"},
    }
    call = {
        "id": 2,
        "method": "tools/call",
        "params": {"name": "context", "arguments": {"task": task}},
    }
    requests = [
        {"id": 1, "method": "initialize", "params": about},
        {"method": "notifications/initialized"},
        call,
    ]
    command = [server["command"], *server["args"]]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin and process.stdout
        process.stdin.writelines(
            json.dumps({"jsonrpc": "2.0", **request}) + "\n" for request in requests
        )
        process.stdin.flush()
        reply = next(
            message for line in process.stdout if (message := json.loads(line)).get("id") == 2
        )
        process.stdin.close()
    return "".join(part.get("text", "") for part in reply["result"]["content"])


def say(**line: object) -> None:
    """Write a line of the session."""
    sys.stdout.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
