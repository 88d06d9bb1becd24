"""Secrets of every kind, planted at every input, appear in no stored, printed or sent byte
(P01)."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

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
from xscore.store.citing import parse_citation
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
            # An artifact is a file.
            citations = [parse_citation(store.root, "code.py")] if kind is Kind.ARTIFACT else []
            remember(store, statement, citations=citations, now=1.0)
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
        codex.event(
            "agent_message", message="I did. " + planting.at(f"an answer in {name}")
        ).write(home, name)
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


class _Command(NamedTuple):
    arguments: tuple[str, ...]
    stdin: str = ""
    is_wrong: bool = False
    """Whether it is refused, with a secret in what is wrong with it."""


def _commands(root: Path, outside: Path, planting: Planting) -> Iterator[_Command]:
    """Yield what is run, with secrets in all that a user, an agent or a file gives."""
    yield _Command(("memory", "import-sessions", "--json"))
    errors = root.parent / "errors.txt"
    errors.write_text("Traceback:\n" + planting.at("errors"))
    task = "mend the reader " + planting.at("a task")
    model = ("--model", "openai:strong-1", "--max-usd", "50")
    files = ("--errors", str(errors), "--file", "code.py", "--judge-sees", "full")
    scores = ("--all-scores", str(outside / "scores.jsonl"), "--threshold", "0")
    yield _Command(("ask", task, *model, *files, *scores, "-y", "--json"))
    question = "what does read hold? " + planting.at("another task")
    yield _Command(("context", question, "-v", "-y"))
    yield from _hooks(root, planting)
    yield from _lists(root, outside, planting)
    yield _Command(("memory", "list", "--json"))
    yield _Command(("memory", "export", "-o", str(outside / "memories.jsonl")))
    yield _Command(("memory", "audit", "-v"))
    name = planting.one("a checkpoint's name")  # that `_say` has taken, without its secret
    yield _Command(("session", "save", name), is_wrong=True)
    yield _Command(("session", "checkpoints"))
    yield _Command(("session", "show", "--json"))
    yield _Command(("history", "list", "--json"))
    yield _Command(("history", "show", "--json"))
    yield _Command(("explain", "escaped.py::escaped", "-v"))
    yield _Command(("report", "--json"))
    yield _Command(("report", *(f"-o{outside / name}" for name in ("a.html", "a.md", "a.csv"))))
    yield _Command(("store", "export", str(outside / "judgments"), "-y"))
    yield _Command(("status", "-v"))
    yield _Command(("doctor", "-v"))
    yield _Command(("ask", "--no-such-option", planting.one("a wrong command")), is_wrong=True)
    yield _Command(("memory", "delete", planting.one("a wrong id")), is_wrong=True)


def _hooks(root: Path, planting: Planting) -> Iterator[_Command]:
    event = {"session_id": "s-1", "cwd": str(root), "transcript_path": None}
    prompt = event | {
        "hook_event_name": "UserPromptSubmit",
        "prompt": "what is more? " + planting.at("a prompt"),
    }
    yield _Command(("hook", "prompt"), json.dumps(prompt))
    start = event | {"hook_event_name": "SessionStart", "source": "startup"}
    yield _Command(("hook", "session-start"), json.dumps(start))


def _lists(root: Path, outside: Path, planting: Planting) -> Iterator[_Command]:
    refused = root.parent / "refused.jsonl"
    question_id = planting.one("a question's id")
    refused.write_text(json.dumps({"id": question_id, "task": "what is read?"}) + "\n")
    yield _Command(("batch", "submit", str(refused), "-y", "-v"), is_wrong=True)
    questions = root.parent / "questions.jsonl"
    question = {
        "id": "q1",
        "task": "what does plot hold? " + planting.at("a question"),
        "errors": planting.at("its errors"),
    }
    questions.write_text(json.dumps(question) + "\n")
    yield _Command(("batch", "submit", str(questions), "-y", "-v"))
    yield _Command(("batch", "collect", "-o", str(outside / "list.jsonl"), "-v"))
    yield _Command(("batch", "status", "--json"))


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
        environ = _environ_at(server)
        printed = {}
        for command in _commands(root, outside, planting):
            done = process(*command.arguments, cwd=root, stdin=command.stdin, environ=environ)
            name = command.arguments[:2]
            assert done.returncode in (0, 1) or command.is_wrong, (name, done.stderr)
            leaked = planting.found_in((done.stdout + done.stderr).encode())
            # The answer alone is printed as it came.
            is_answer = command.arguments[0] == "ask"
            assert not leaked or is_answer, name
            assert not {place for place in leaked if "the model's answer" not in place}, name
            printed[name] = done.stdout
        with started(root, **environ) as (client, _):
            client.initialize()
            task = "what does escaped hold? " + planting.at("a tool's task")
            answer = json.dumps(client.answer(client.call({"task": task})), ensure_ascii=False)
        assert "<SECRET:" in answer and planting.found_in(answer.encode()) == set()
        files = [str(file) for file in server.files.values()]
        sent = json.dumps([server.counts.bodies, files], ensure_ascii=False)
    origins = json.loads(printed["memory", "import-sessions"])["by_origin"]
    assert origins == {"aider": 1, "claude-code": 1, "cline": 1, "codex": 2}
    assert printed["hook", "prompt"].count("additionalContext") == server.batches.created == 1
    assert "a judge's reason" in str(planting.planted.values())
    assert b"it holds <SECRET:" in (outside / "scores.jsonl").read_bytes()
    assert planting.found_in(sent.encode()) == set()
    stored = _stored(root, outside, own_home)
    assert stored.count(b"<SECRET:") > 300, "the entrances were reached"
    assert planting.found_in(stored) == set()


def _environ_at(server: OpenAIBatchServer) -> dict[str, str]:
    return {
        "OPENAI_BASE_URL": server.url,
        "OPENAI_API_KEY": "local",
        "XSCORE_JUDGE_MODEL": "openai:judge-2",
        "XSCORE_JUDGE_PROBE": "0",
        "XSCORE_AGENTS_HOOK_DEADLINE_S": "30",
        "XSCORE_CACHE_KEY": SecretGenerator(0).text(64, HEX),
    }


def _stored(root: Path, outside: Path, home: Path) -> bytes:
    """Return all that was written, with the texts of files, which are stored compressed."""
    ours = [place for place in home.iterdir() if place.name not in AGENTS]
    stored = raw(outside, store_dir(root), *ours)
    with closing(sqlite3.connect(store_file(root))) as connection:
        return stored + str(list(read_with_bodies(connection, "id", "true"))).encode()
