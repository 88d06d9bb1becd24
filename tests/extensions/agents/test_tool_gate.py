"""The gate before a tool call against the world: clean commands, hostile messages and repositories,
sessions at once, a full disk; and what it may cost."""

import json
import os
import random
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import own_store
from tests.conftest import MakeRepo
from tests.extensions.agents.hook_process import FILES, build_index
from tests.extensions.agents.tool_hooks import (
    COMMAND,
    ERROR,
    PROGRAM,
    call_message,
    denial,
    fail,
    installed_line,
    run_line,
)
from xscore.extensions.agents.hook_call import HookCall
from xscore.extensions.agents.hook_protocols import read_message, thread_name
from xscore.extensions.agents.shell_words import command_words
from xscore.extensions.agents.tool_call import read_call_message
from xscore.extensions.agents.tool_failures import note_failure
from xscore.extensions.agents.tool_gate import answer_before, note_success
from xscore.extensions.privacy.erasure import erase_memories
from xscore.platform.paths import find_root
from xscore.records.statement import Statement
from xscore.settings import LoadedSettings, load_settings
from xscore.store.failed_actions import file_of, read_actions, state_folder, write_actions
from xscore.store.remembering import remember

CLEAN = 1_000


@pytest.fixture
def root(make_repo: MakeRepo, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository; nothing is on record."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    monkeypatch.delenv("CI", raising=False)
    repository = make_repo({**FILES, "app.py": "import cart\n", "web/main.js": "x\n"})
    return Path(os.path.realpath(repository))


@pytest.fixture
def loaded(root: Path) -> LoadedSettings:
    """The default settings."""
    return load_settings(repo_root=root, user_file=None, environ={})


def note(root: Path, loaded: LoadedSettings, command: str, session: str = "s1") -> None:
    """Have a command fail, in this process."""
    data = json.dumps(
        call_message(
            root,
            command,
            hook_event_name="PostToolUseFailure",
            error=f"Exit code 1\n{ERROR}",
            session_id=session,
        )
    ).encode()
    thread = thread_name("claude-code", session)
    state_file = root.parent / "hooks.json"
    message = read_message(data)
    note_failure(
        HookCall(
            message, "claude-code", thread, find_root(root), loaded, state_file, data, print
        )
    )


def is_denied(root: Path, command: str, session: str = "s1", **fields: Any) -> bool:
    """Whether a command is denied, in this process."""
    message = call_message(root, command, session_id=session, **fields)
    return bool(answer_before(message, "claude-code"))


PROGRAMS = (
    "npm run",
    "pytest",
    "cargo test",
    "make",
    "go test ./...",
    "python3",
    "git",
    "./build",
)
ARGUMENTS = (
    "-v",
    "--all",
    "src/a.py",
    "tests",
    "-k name",
    "2>&1 | tail -20",
    "&& echo ok",
    "-x",
)


def clean_commands(seed: int) -> Iterator[str]:
    """Yield commands as agents run them; none of them is ever one that failed."""
    chance = random.Random(seed)
    for number in range(CLEAN):
        words = [chance.choice(PROGRAMS), *chance.sample(ARGUMENTS, chance.randint(0, 3))]
        prefix = chance.choice(("", "cd web && ", "FOO=1 ", "timeout 60 "))
        yield f"{prefix}{' '.join(words)} # {number}"


def test_a_thousand_clean_commands_are_not_denied(root: Path, loaded: LoadedSettings) -> None:
    """With thirty failures of their kinds, commands that never failed all run."""
    failed = [f"{program} {argument}" for program in PROGRAMS[:6] for argument in ARGUMENTS[:5]]
    for command in failed:
        note(root, loaded, command)
    assert [command for command in clean_commands(seed=1) if is_denied(root, command)] == []
    # The test can fail: the last one that failed is on record as it was.
    assert is_denied(root, failed[-1])


def test_a_session_is_denied_only_what_failed_last_and_unchanged(
    root: Path, loaded: LoadedSettings
) -> None:
    """Over a thousand random steps a denial comes exactly where nothing has happened since the
    failure but reading."""
    chance = random.Random(7)
    commands = ["make", "pytest -x", "npm run lint", "python3 app.py"]
    deniable = set[str]()
    denied = set[tuple[str, str]]()
    denials = 0
    for step in range(CLEAN):
        session, command = f"s{step // 50}", chance.choice(commands)
        match chance.choice(["try", "try", "try", "fail", "read", "edit", "pass"]):
            case "try":
                expected = command in deniable and (session, command) not in denied
                assert is_denied(root, command, session) == expected, step
                denied |= {(session, command)} if expected else set()
                denials += expected
            case "fail":
                note(root, loaded, command, session)
                deniable = {command}
            case "read":
                note_success(
                    call_message(root, "git status", session_id=session), "claude-code"
                )
            case "edit":
                (root / "cart.py").write_text(f"step = {step}\n")
                deniable = set()
            case "pass":
                note_success(call_message(root, command, session_id=session), "claude-code")
                deniable = set()
    assert denials > 20


HOSTILE: Sequence[bytes] = (
    b"",
    b"[]",
    b"{",
    b"\xff\xfe",
    b'{"tool_input": ' + b"9" * 5_000 + b"}",
    b'{"a":' * 100_000,
    b'{"cwd": "/\\u0000x", "tool_name": "Bash", "tool_input": {"command": "x"}, "session_id": "s"}',
    b'{"cwd": "relative", "tool_name": "Bash", "tool_input": {"command": "x"}, "session_id": "s"}',
    b'{"cwd": ["/"], "tool_name": {}, "tool_input": [], "session_id": 3, "tool_use_id": []}',
    b'{"cwd": "/", "tool_name": "Bash", "tool_input": "{\\"command\\": 3}", "session_id": "s"}',
    b'{"cwd": "/", "tool_name": "Edit", "tool_input": {"file_path": "\\u0000"}, "session_id": "s"}',
    b'{"cwd": "/", "tool_name": "Bash", "tool_input": {"command": ["a", 3]}, "session_id": "s"}',
)


@pytest.mark.parametrize("data", HOSTILE)
@pytest.mark.parametrize("client", ["claude-code", "codex", "gemini", "cursor"])
def test_a_hostile_message_is_no_call(data: bytes, client: str, root: Path) -> None:
    """Damaged, deep, huge or of other types: nothing is denied, and nothing is raised."""
    message = read_call_message(data)
    assert answer_before(message, client) == b""
    note_success(message, client)


@pytest.mark.parametrize("data", [b'{"a":' * 200_000, b'{"a": "' + b"x" * (17 << 20) + b'"}'])
def test_a_hostile_message_ends_the_hook_well(
    data: bytes, root: Path, loaded: LoadedSettings
) -> None:
    """Exit code 0, nothing on standard output, in time."""
    note(root, loaded, COMMAND)
    for hook in ("pre-tool", "post-tool"):
        assert run_line(hook, data, cwd=root) == b""


def test_a_command_of_any_length_takes_bounded_work() -> None:
    """Words are looked at within a bound, and a longer command is never denied."""
    before = time.process_time()
    for text in ("a=b " * 500_000, "x;" * 1_000_000, "(" * 1_000_000, "git " * 500_000):
        assert command_words(text).is_outside
    assert time.process_time() - before < 2.0


def plant(path: Path, stored: str) -> None:
    """Write a file as a clone would bring it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(stored)


def test_a_planted_record_is_not_believed(
    root: Path, loaded: LoadedSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file in the tree, one that others can read, a link, and one of another tree count as
    nothing."""
    note(root, loaded, COMMAND)
    place = Path(file_of(str(root)))
    genuine = place.read_text()
    place.chmod(0o644)  # as git checks a file out
    assert not is_denied(root, COMMAND)
    place.unlink()
    elsewhere = root.parent / "elsewhere"
    plant(elsewhere, genuine)
    elsewhere.chmod(0o600)
    place.symlink_to(elsewhere)
    assert not is_denied(root, COMMAND)
    place.unlink()
    plant(place, genuine.replace(str(root), "/another"))
    place.chmod(0o600)
    assert not is_denied(root, COMMAND)
    place.unlink()
    monkeypatch.setenv("XDG_STATE_HOME", str(root / "state"))
    place = Path(file_of(str(root)))
    plant(place, genuine)
    place.chmod(0o600)
    assert not is_denied(root, COMMAND)
    monkeypatch.setenv("XDG_STATE_HOME", "state")  # relative: not taken
    assert not Path(state_folder()).is_relative_to(root)


@pytest.mark.parametrize(
    "damage",
    ["", "{", "[]", '{"root": 3}', '{"actions": [{"key": 3}, 7, {"at": "x"}]}', "\0" * 99],
)
def test_a_damaged_record_counts_as_none(
    damage: str, root: Path, loaded: LoadedSettings
) -> None:
    """Half a file, as a kill or a full disk may leave it, denies nothing and is replaced."""
    note(root, loaded, COMMAND)
    place = Path(file_of(str(root)))
    place.write_text(damage)
    assert not is_denied(root, COMMAND)
    note(root, loaded, COMMAND)
    assert is_denied(root, COMMAND)


def test_hooks_of_a_session_at_once_deny_once(root: Path, loaded: LoadedSettings) -> None:
    """However many ask at the same moment, one denial is answered; another session has its own."""
    note(root, loaded, COMMAND)
    for session in ("s1", "s2"):
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(partial(is_denied, root, COMMAND), [session] * 16))
        assert sum(answers) == 1


def test_what_cannot_be_noted_is_not_denied(root: Path, loaded: LoadedSettings) -> None:
    """On a full disk the denial could not be remembered, and would come every time."""
    note(root, loaded, COMMAND)

    def full_disk() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    assert run_line("pre-tool", call_message(root), before=full_disk) == b""
    assert denial(root) != ""


def test_a_clock_that_was_set_back_makes_nothing_old(
    root: Path, loaded: LoadedSettings
) -> None:
    """A failure of tomorrow is denied today and kept; one of last month is forgotten."""
    note(root, loaded, COMMAND)
    note_success(call_message(root, "git status"), "claude-code")
    record = read_actions(str(root))
    (action,) = record.actions
    action.at = time.time() + 86_400
    assert write_actions(record, now=time.time())
    assert is_denied(root, COMMAND)
    action.at = time.time() - 30 * 86_400
    assert write_actions(record, now=time.time())
    assert not Path(file_of(str(root))).exists()


def test_the_file_of_a_tree_that_is_gone_goes_with_the_next_failure(
    root: Path, loaded: LoadedSettings
) -> None:
    """A deleted working tree leaves nothing behind for good."""
    gone = root.with_name("gone")
    shutil.copytree(root, gone)
    note(gone, loaded, COMMAND)
    assert Path(file_of(str(gone))).exists()
    shutil.rmtree(gone)
    note(root, loaded, COMMAND)
    assert not Path(file_of(str(gone))).parent.exists()
    assert is_denied(root, COMMAND)


def test_erasing_a_memory_takes_what_failed(root: Path, loaded: LoadedSettings) -> None:
    """It may quote what is erased: no working tree of the store keeps any."""
    build_index(root)
    note(root, loaded, f"{COMMAND} --customer Zanzibar")
    # As a hook leaves it that was killed before it replaced the file.
    place = Path(file_of(str(root)))
    place.with_name(f"{place.name}.4711").write_bytes(place.read_bytes())
    with own_store(root) as store:
        stated = remember(store, Statement(text="Zanzibar pays in cents"))
        erase_memories(store, [stated.memory.id], now=2.0)
    state = Path(state_folder())
    assert [path for path in state.rglob("*") if path.is_file()] == []


def test_nothing_is_started_where_nothing_is_on_record(root: Path) -> None:
    """The shell finds no file and ends, whatever the program is; on record it starts it."""
    line = installed_line("pre-tool").replace(PROGRAM, "/nowhere/xscore")
    message = json.dumps(call_message(root)).encode()

    def run() -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(
            ["/bin/sh", "-c", line],
            cwd=root / "web",
            input=message,
            capture_output=True,
            check=False,
        )

    assert (run().returncode, run().stderr) == (0, b"")
    fail(root)
    assert b"/nowhere/xscore" in run().stderr


def test_the_gate_loads_what_it_needs(root: Path, loaded: LoadedSettings) -> None:
    """A denial loads a handful of our modules and none that takes time."""
    note(root, loaded, COMMAND)
    arguments = ("hook", "pre-tool", "--client", "claude-code")
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "xscore", *arguments],
        cwd=root,
        input=json.dumps(call_message(root)).encode(),
        capture_output=True,
        check=True,
    )
    assert b'"deny"' in done.stdout
    modules = {line.rpartition(b"|")[2].strip().decode() for line in done.stderr.splitlines()}
    ours = sorted(name for name in modules if name.startswith("xscore."))
    assert len(ours) <= 10, ours
    assert not modules & {"msgspec", "hashlib", "sqlite3", "subprocess", "click", "threading"}


def cpu_ms(command: Sequence[str], cwd: Path, message: bytes, runs: int) -> float:
    """Return the CPU time of a command, in milliseconds a run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for _ in range(runs):
        subprocess.run(command, cwd=cwd, input=message, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return 1_000 * used / runs


@pytest.mark.verify
def test_what_a_tool_call_costs(root: Path, loaded: LoadedSettings) -> None:
    """Without a failure a few times `true`; with one, little more than Python itself."""
    message = json.dumps(call_message(root)).encode()
    line = ["/bin/sh", "-c", installed_line("pre-tool")]
    without = cpu_ms(line, root, message, 100) / cpu_ms(["/bin/true"], root, message, 100)
    note(root, loaded, f"{COMMAND} -v")
    python = [sys.executable, "-c", "pass"]
    with_one = cpu_ms(line, root, message, 40) / cpu_ms(python, root, message, 40)
    assert without < 8
    assert with_one < 3
