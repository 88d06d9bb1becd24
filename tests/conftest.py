"""Fixtures for the whole suite: no connection leaves this machine, and every user file is in a test
folder."""

import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from sqlite3 import Connection
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from tests.garbage import Garbage
from tests.scheduling import Scheduling
from xscore.platform.clock import DAY_S

if TYPE_CHECKING:
    from tests.servers import OpenAIServer
    from xscore.store.store import Store

hypothesis_settings.register_profile(
    "same",
    derandomize=True,
    deadline=None,
    database=None,
    # It looks at the clock, and a machine may be busy.
    suppress_health_check=[HealthCheck.too_slow],
)
hypothesis_settings.register_profile("search", deadline=None)
hypothesis_settings.register_profile(
    "fuzz", deadline=None, max_examples=100_000, print_blob=True
)
hypothesis_settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

LOOPBACK = ("127.", "::1", "localhost")
MIDNIGHT_S = 40.0
"""Longer than nearly every test takes, and within what each may take."""
MEMORY_DISK = Path("/dev/shm")
ROOM_BYTES = 4_000_000_000
"""Room on it from which the folders of tests are made there; they take a tenth of that."""
GIT_SETTINGS = (
    "user.name=t",
    "user.email=t@example.invalid",
    "init.defaultBranch=main",
    # A commit starts no second process that looks for garbage, and none that outlives the test.
    "gc.auto=0",
    "maintenance.auto=false",
)


def pytest_configure(config: pytest.Config) -> None:
    """Spread the tests over the workers as `scheduling` says, and take nothing from who began them:
    neither how Ctrl-C is handled nor which modes files get."""
    config.pluginmanager.register(Scheduling())
    config.pluginmanager.register(Garbage())
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # Begun in the background by a shell: each process started here would ignore it, too.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.umask(0o022)
    if MEMORY_DISK.is_dir() and shutil.disk_usage(MEMORY_DISK).free >= ROOM_BYTES:
        # Each commit of a store waits for the disk, some ten thousand times.
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", os.fspath(MEMORY_DISK))


def pytest_runtest_setup() -> None:
    """Make waits of retries the same each time, and begin no test just before midnight: what is
    spent and shown is counted by days of UTC."""
    random.seed(1)
    seconds_left = DAY_S - time.time() % DAY_S
    if seconds_left < MIDNIGHT_S:
        time.sleep(seconds_left + 0.1)


def pytest_xdist_auto_num_workers() -> int | None:
    """Begin one worker more than there are processors: a fifth of the time of the tests is waiting
    for processes, deadlines and retries."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    return len(os.sched_getaffinity(0)) + 1


@pytest.fixture(autouse=True)
def only_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail any non-loopback connection in this process."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and not str(address[0]).startswith(
            LOOPBACK
        ):
            raise AssertionError(f"a test tried to reach {address!r}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)


@pytest.fixture(autouse=True, scope="session")
def no_real_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep fixtures that outlive a test from the real user's stores, settings and keys, too."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        _use_home(tmp_path_factory.mktemp("shared_home"), monkeypatch)
        yield


@pytest.fixture(autouse=True)
def own_home(
    no_real_home: None,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Path]:
    """Give each test its own home, without keys or a keyring."""
    home = tmp_path_factory.mktemp("home")
    _use_home(home, monkeypatch)
    yield home


def _use_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("XSCORE_", "XDG_", "GIT_")) or name.endswith(
            ("_API_KEY", "_BASE_URL", "_AUTH_TOKEN")
        ):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("NO_COLOR", "1")
    # Read once a process.
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")


def git(root: Path, *arguments: str, stdin: str | None = None) -> str:
    """Run git in a test repository. stdin: what it reads."""
    options = [word for setting in GIT_SETTINGS for word in ("-c", setting)]
    done = subprocess.run(
        ["git", *options, *arguments],
        cwd=root,
        input=stdin,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout


def write_files(root: Path, files: Mapping[str, str]) -> None:
    """Write files of `path -> text`, with the folders that they need."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def commit_all(root: Path) -> Path:
    """Make a folder a repository with one commit of all its files."""
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "start")
    return root


def store_dir(root: Path) -> Path:
    """Return the folder of a root's store."""
    from xscore.platform.paths import find_root

    return find_root(root).store_dir


def store_file(root: Path) -> Path:
    """Return the database of a root's store."""
    return store_dir(root) / "memory.db"


MakeRepo = Callable[[Mapping[str, str]], Path]


@pytest.fixture
def make_repo(tmp_path: Path) -> MakeRepo:
    """Make a committed git repository from `path -> text`."""

    def make(files: Mapping[str, str]) -> Path:
        root = tmp_path / "repo"
        root.mkdir()
        write_files(root, files)
        return commit_all(root)

    return make


@pytest.fixture
def shop(make_repo: MakeRepo) -> Path:
    """A committed repository of a few files."""
    from tests.pipeline.conftest import FILES

    return make_repo(FILES)


@pytest.fixture
def server() -> Iterator["OpenAIServer"]:
    """A loopback host of the OpenAI dialect, well-behaved by default."""
    from tests.servers import OpenAIServer

    with OpenAIServer() as running:
        yield running


@pytest.fixture
def user_dir(tmp_path: Path) -> Path:
    """Return the folder of the user's secret."""
    return tmp_path / "user"


@pytest.fixture
def store(tmp_path: Path, user_dir: Path) -> Iterator["Store"]:
    """Open a new, empty, trusted store."""
    yield from _opened_store(tmp_path / "project", user_dir)


@pytest.fixture
def second_store(tmp_path: Path, user_dir: Path) -> Iterator["Store"]:
    """Open another empty store of the same user."""
    yield from _opened_store(tmp_path / "other", user_dir, clock=lambda: 1_000.0)


def _opened_store(folder: Path, user_dir: Path, **how: Any) -> Iterator["Store"]:
    from xscore.platform.paths import find_root
    from xscore.store.store import Store

    folder.mkdir()
    with Store.open(find_root(folder), user_data_dir=user_dir, **how) as opened:
        yield opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a database."""
    return tmp_path / "memory.db"


@pytest.fixture
def connection(path: Path) -> Iterator[Connection]:
    """Open a new database."""
    from xscore.store.opening import connect_store
    from xscore.store.worktrees import enter_worktree

    opened = connect_store(path)
    enter_worktree(opened)
    yield opened
    opened.close()


@pytest.fixture
def open_ground() -> Iterator[Path]:
    """Make a folder that other users may enter."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(os.path.realpath(name))


@pytest.fixture(scope="module")
def devtools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a browser for a module's tests; without one skip them, except in continuous
    integration."""
    from tests.servers import browser  # few modules show pages

    with browser.running_or_skip(tmp_path_factory.mktemp("browser")) as address:
        yield address
