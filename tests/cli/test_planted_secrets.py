"""Secrets of every kind, planted at every input, appear in no stored, printed or sent byte
(P01)."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import Run, own_store
from tests.conftest import MakeRepo, git, store_dir, store_file
from tests.extensions.agents.mcp_client import started
from tests.extensions.privacy.test_erasure import raw
from tests.extensions.sessions.session_writers import ClaudeLog, CodexLog, cline_task, say
from tests.servers.openai_batches import OpenAIBatchServer
from tests.store.generated_secrets import HEX, SecretGenerator, provider_keys
from xscore.records.memory import Kind, MemoryDetails
from xscore.records.statement import LAYERS_BY_KIND, Statement
from xscore.store import checkpoints, failures
from xscore.store.file_bodies import read_with_bodies
from xscore.store.remembering import remember
from xscore.store.working_session import resume_session

pytestmark = pytest.mark.verify

PREFIXES = ("AccountKey=", "sk_live_", "rk_live_", "dop_v1_")
"""The public prefixes of keys, which stay."""
AGENTS = (".claude", ".codex", ".cline")
"""The folders of agents, whose own logs hold what was typed."""


class Planting:
    """Makes new secrets of every kind for each input, and remembers where each was planted."""

    def __init__(self) -> None:
        self.planted: dict[bytes, str] = {}
        self._seed = 0

    def at(self, entrance: str) -> str:
        """Return one secret of each kind, one on each line."""
        self._seed += 1
        forge = SecretGenerator(self._seed)
        keys = provider_keys(forge) | {"password": forge.password()}
        lines = []
        for family, key in keys.items():
            bare = key
            for prefix in PREFIXES:
                bare = bare.removeprefix(prefix)
            self.planted[bare.encode()] = f"{family} at {entrance}"
            lines.append(
                f'DB_PASSWORD = "{key}"'
                if family == "password"
                else f"the one in use here: {key} so far"
            )
        return "\n".join(lines)

    def one(self, entrance: str) -> str:
        """Return one secret that fits into a name."""
        self._seed += 1
        key = "ghp_" + SecretGenerator(self._seed).text(36)
        self.planted[key.encode()] = f"github_token at {entrance}"
        return key

    def word(self, entrance: str) -> str:
        """Return one password without a recognisable form."""
        self._seed += 1
        key = "hunter" + SecretGenerator(self._seed).text(8, "0123456789")
        self.planted[key.encode()] = f"password at {entrance}"
        return key

    def found_in(self, data: bytes) -> set[str]:
        """Return the inputs whose secrets are in these bytes."""
        return {place for key, place in self.planted.items() if key in data}


def _plant_files(root: Path, planting: Planting) -> None:
    """Plant in code, names, settings and an edit, and where most people forget: `.env`, escapes,
    notebook outputs."""
    code = planting.at("code")
    (root / "code.py").write_text(
        f'"""Reads."""\n\n\ndef read():\n    """\n{code}\n    """\n    return 1\n'
    )
    (root / "README.md").write_text(
        f"# Read\n\n{planting.at('docs')}\n\n## {planting.one('a heading')}\n\nmore\n"
    )
    (root / "app.ini").write_text(f"[app]\n{planting.at('config')}\n")
    (root / f"{planting.one('a file name')}.py").write_text("def other():\n    return 2\n")
    lines = [line + "\n" for line in planting.at("a notebook's output").split("\n")]
    source = ["def plot():\n", f"    '''{planting.one('a notebook')}'''\n"]
    output = {"output_type": "stream", "name": "stdout", "text": lines}
    cell = {
        "cell_type": "code",
        "source": source,
        "metadata": {},
        "execution_count": 1,
        "outputs": [output],
    }
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (root / "plot.ipynb").write_text(json.dumps(notebook))
    (root / ".env").write_text(f"DB_PASSWORD={planting.word('.env')}\n{planting.at('.env')}\n")
    escaped = planting.at("an escaped text").replace("\n", r"\n").replace('"', r"\"")
    glued = "".join(rf"\t{planting.one(f'glued {n}')}\n" for n in range(5))
    colored = "\\x1b[31m" + planting.one("a color")
    (root / "escaped.py").write_text(
        f'def escaped():\n    return "{escaped}" + "{glued}" + "{colored}"\n'
    )
    git(root, "add", "-Af")
    git(root, "commit", "-qm", f"start with {planting.one('a commit message')}")
    git(root, "checkout", "-qb", f"fix/{planting.one('a branch')}")
    with (root / "code.py").open("a") as file:
        file.write("\n\ndef more():\n    '''\n" + planting.at("diff") + "\n    '''\n")


def _say(root: Path, planting: Planting) -> None:
    with own_store(root) as store:
        for kind in LAYERS_BY_KIND:
            statement = Statement(
                text=f"About the {kind}:\n{planting.at(f'a {kind}')}",
                kind=kind,
                key=f"key.{kind}",
                title=f"title {planting.one(f'the title of a {kind}')}",
                because=planting.at(f"because of a {kind}") if kind is Kind.DECISION else "",
                alternatives=(
                    (
                        planting.one("an alternative"),
                        f"password={planting.word('another')}",
                        "vault",
                    )
                    if kind is Kind.DECISION
                    else ()
                ),
                links=(planting.one("a link"),),
            )
            remember(store, statement, now=1.0)
        failures.record_failure(
            store,
            text=planting.at("a failure"),
            details=MemoryDetails(
                rationale=planting.at("its cause"), resolution=planting.at("its mending")
            ),
        )
        thread = resume_session(store.connection, branch="main", now=1.0).thread
        note, goal = planting.at("a checkpoint's note"), planting.one("a goal")
        checkpoints.save_checkpoint(
            store.connection,
            planting.one("a name"),
            thread=thread,
            notes=[note[:900]],
            goals=[goal],
            now=2.0,
        )


def _past_sessions(root: Path, home: Path, planting: Planting) -> None:
    """One session of each agent, and one compressed by its agent."""
    log = ClaudeLog(root).user("please mend it " + planting.at("a past session's task"))
    log.runs(
        "make " + planting.one("a command"),
        "Error: boom\n" + planting.at("a command's output"),
        failed=True,
    )
    log.says("I did. " + planting.at("a past session's answer")).write(home)
    for name in ("rollout-a.jsonl", "rollout-b.jsonl.zst"):
        codex = CodexLog(root, name).event(
            "user_message", message="mend " + planting.at(f"a task in {name}")
        )
        call = {"call_id": "c", "command": ["make", planting.one(f"a command in {name}")]}
        codex.event("exec_command_begin", **call)
        output = "Error: boom\n" + planting.at(f"an output in {name}")
        codex.event("exec_command_end", **call, exit_code=2, aggregated_output=output)
        codex.event("agent_message", message="I did. " + planting.at(f"an answer in {name}")).write(
            home, name
        )
    question = planting.at("a task of Aider").replace("\n", "\n#### ")
    # Cut between its secrets.
    answer = planting.at("an answer of Aider").replace("\n", "\n" + "so it goes on\n" * 300)
    edited = f"> Applied edit to src/{planting.one('a path of Aider')}.py"
    history = (
        f"# aider chat started at 2026-11-20 09:00:00\n\n#### mend {question}\n\nI"
        f" did.\n{answer}\n\n{edited}\n"
    )
    (root / ".aider.chat.history.md").write_text(history)
    messages = [
        say("task", "mend " + planting.at("a task of Cline")),
        say("command", "make " + planting.one("a command of Cline"), ask=True),
        say("command_output", "Error: boom\n" + planting.at("an output of Cline")),
        say("completion_result", "I did. " + planting.at("an answer of Cline")),
    ]
    cline_task(home / ".cline/data", "t1", messages, cwd=root)


def _commands(root: Path, outside: Path, planting: Planting) -> list[tuple[tuple[str, ...], str]]:
    """Return arguments and stdin of what is run, with secrets in all that a user, an agent or a
    file gives."""
    hook_event = {"session_id": "s-1", "cwd": str(root), "transcript_path": None}
    prompt = hook_event | {
        "hook_event_name": "UserPromptSubmit",
        "prompt": "what is more? " + planting.at("a prompt"),
    }
    start = hook_event | {"hook_event_name": "SessionStart", "source": "startup"}
    questions_file, refused, errors = (
        root.parent / name for name in ("asked.jsonl", "refused.jsonl", "errors.txt")
    )
    question = {
        "task": "what does plot hold? " + planting.at("a question"),
        "errors": planting.at("its errors"),
    }
    questions_file.write_text(json.dumps({"id": "q1", **question}) + "\n")
    refused.write_text(
        json.dumps({"id": planting.one("a question's id"), "task": "what is read?"}) + "\n"
    )
    errors.write_text("Traceback:\n" + planting.at("errors"))
    task = (
        "ask",
        "mend the reader " + planting.at("a task"),
        "--model",
        "openai:strong-1",
        "--max-usd",
        "50",
    )
    scores = str(outside / "scores.jsonl")
    return [
        (("memory", "import-sessions", "--json"), ""),
        (
            (
                *task,
                "--errors",
                str(errors),
                "--judge-sees",
                "full",
                "--file",
                "code.py",
                "--all-scores",
                scores,
                "--threshold",
                "0",
                "-y",
                "--json",
            ),
            "",
        ),
        (("context", "what does read hold? " + planting.at("another task"), "-v", "-y"), ""),
        (("hook", "prompt"), json.dumps(prompt)),
        (("hook", "session-start"), json.dumps(start)),
        (("batch", "submit", str(refused), "-y", "-v"), ""),
        (("batch", "submit", str(questions_file), "-y", "-v"), ""),
        (("batch", "collect", "-o", str(outside / "list.jsonl"), "-v"), ""),
        (("batch", "status", "--json"), ""),
        (("memory", "list", "--json"), ""),
        (("memory", "export", "-o", str(outside / "memories.jsonl")), ""),
        (("memory", "audit", "-v"), ""),
        (("session", "save", planting.one("a checkpoint's name")), ""),
        (("session", "checkpoints"), ""),
        (("session", "show", "--json"), ""),
        (("history", "list", "--json"), ""),
        (("history", "show", "--json"), ""),
        (("explain", "escaped.py::escaped", "-v"), ""),
        (("report", "--json"), ""),
        (("report", *(f"-o{outside / name}" for name in ("a.html", "a.md", "a.csv"))), ""),
        (("store", "export", str(outside / "judgments"), "-y"), ""),
        (("status", "-v"), ""),
        (("doctor", "-v"), ""),
        (("ask", "--no-such-option", planting.one("a wrong command")), ""),
        (("memory", "delete", planting.one("a wrong id")), ""),
    ]


def test_no_planted_secret_is_stored_printed_or_sent(
    process: Run, make_repo: MakeRepo, own_home: Path
) -> None:
    """P01: whichever way a secret enters, no file, stream, report, tool or request contains it,
    with -v neither."""
    planting = Planting()
    root = make_repo({"start.txt": "start\n"})
    _plant_files(root, planting)
    _say(root, planting)
    _past_sessions(root, own_home, planting)
    outside = root.parent / "outside"
    outside.mkdir()
    with OpenAIBatchServer(
        score=lambda memory, turn: (90, "it holds " + planting.one("a judge's reason"))
    ) as server:
        server.answer = "Done. " + planting.at("the model's answer")
        environ = {
            "OPENAI_BASE_URL": server.url,
            "OPENAI_API_KEY": "local",
            "XSCORE_JUDGE_MODEL": "openai:judge-2",
            "XSCORE_JUDGE_PROBE": "0",
            "XSCORE_AGENTS_HOOK_DEADLINE_S": "30",
            "XSCORE_CACHE_KEY": SecretGenerator(0).text(64, HEX),
        }
        printed = {}
        for arguments, stdin in _commands(root, outside, planting):
            done = process(*arguments, cwd=root, stdin=stdin, environ=environ)
            is_wrong = "refused.jsonl" in str(arguments) or arguments[-1].startswith("ghp_")
            assert done.returncode in (0, 1) or is_wrong, (arguments[:2], done.stderr)
            leaked = planting.found_in((done.stdout + done.stderr).encode())
            assert not {place for place in leaked if "the model's answer" not in place}, arguments[
                :2
            ]
            assert not leaked or arguments[0] == "ask", "the answer alone is as it came"
            printed[arguments[:2]] = done.stdout
        with started(root, **environ) as (client, _):
            client.initialize()
            task = "what does escaped hold? " + planting.at("a tool's task")
            answer = json.dumps(client.answer(client.call({"task": task})), ensure_ascii=False)
        assert "<SECRET:" in answer and planting.found_in(answer.encode()) == set()
        sent = json.dumps(
            [server.counts.bodies, [str(file) for file in server.files.values()]],
            ensure_ascii=False,
        )
    origins = json.loads(printed["memory", "import-sessions"])["by_origin"]
    assert origins == {"aider": 1, "claude-code": 1, "cline": 1, "codex": 2}
    assert printed["hook", "prompt"].count("additionalContext") == server.batches.created == 1
    assert "a judge's reason" in str(planting.planted.values())
    assert b"it holds <SECRET:" in (outside / "scores.jsonl").read_bytes()
    assert planting.found_in(sent.encode()) == set()
    ours = [place for place in own_home.iterdir() if place.name not in AGENTS]
    stored = raw(outside, store_dir(root), *ours)
    # The texts of files are compressed.
    with closing(sqlite3.connect(store_file(root))) as connection:
        stored += str(list(read_with_bodies(connection, "id", "true"))).encode()
    assert stored.count(b"<SECRET:") > 300, "the entrances were reached"
    assert planting.found_in(stored) == set()
