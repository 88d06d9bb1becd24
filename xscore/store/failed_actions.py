"""The actions of coding agents that failed in a working tree and have not succeeded since: one
small private file per tree, in the user's own folder.

A hook looks at it before each tool call, so where no failure is on record there is no file: a shell
tests for that before anything is started (`agents/hook_guards`). The file's folder mirrors the path
of the tree, so that a shell can find it. It holds no secret (`agents/tool_failures` redacts) and is
not believed if it is not this user's alone or lies in the tree, where a clone could plant it. A
missing or damaged file counts as empty. Trade-off: plain classes and `json` instead of structs,
because the hook has 25 ms and msgspec takes 30 to load; so nothing here imports more than that.
"""

import fcntl
import json
import os
import stat
import time
from _blake2 import blake2b  # `hashlib` would load OpenSSL first, which takes 2 ms
from collections.abc import Iterator

MARKER = ".open"
"""Name of the file that marks a folder with failures."""
MOST_ACTIONS, MOST_STEPS, MOST_SESSIONS = 32, 8, 20
KEPT_S = 14 * 86_400.0
"""How long a failed action is remembered."""
_MAX_BYTES = 400_000
_LOCK_WAIT_S, _LOCK_STEP_S = 0.1, 0.002
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class FailedAction:
    """An action of an agent that failed."""

    def __init__(self, key: str) -> None:
        self.key = key
        """Digest of the action's tool, its arguments and its folder."""
        self.kind = ""
        """What commands of its kind share, such as `npm run`; empty if it has no such kind."""
        self.shown = ""
        """The command or the edited file, redacted and on one line."""
        self.error = ""
        """The end of its error, redacted and safe to quote."""
        self.state = ""
        """Fingerprint of what it depends on, taken after it failed; empty: unknown."""
        self.path = ""
        """The file that an edit was for; empty for a command, which depends on the whole tree."""
        self.at: float = 0.0
        """When it last failed, in Unix seconds."""
        self.times = 0
        self.is_usage = False
        """Whether the command was called wrongly, so that another call of its kind may be the
        right one."""
        self.may_deny = False
        """Whether nothing outside the tree decides whether it fails."""
        self.changed = False
        """Whether another command has run since that may have changed something."""
        self.steps: list[str] = []
        """What was done since: edited files and kinds of commands."""
        self.fixed = ""
        """What helped, once that is known."""
        self.succeeded = False
        """Whether it has succeeded since; kept until what helped is stored."""
        self.denied: list[str] = []
        """Digests of the sessions in which it was denied."""
        self.memory = ""
        """Id of the failure's memory; empty if none was made."""

    def add_step(self, step: str) -> None:
        """Note something that was done since it failed."""
        if step and step not in self.steps:
            self.steps = [*self.steps, step][-MOST_STEPS:]


class FailedActions:
    """What the file of a working tree holds."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.mode = "deny"
        """`agents.failures` when it was last written."""
        self.settings_file = ""
        """The user's settings file, and what changes when it does: the mode may have changed."""
        self.settings_state = ""
        self.git_files: list[str] = []
        self.actions: list[FailedAction] = []
        """Failed actions, the latest last."""

    def find(self, key: str) -> FailedAction | None:
        """Return the action with this key."""
        for action in self.actions:
            if action.key == key:
                return action
        return None

    def put(self, action: FailedAction) -> None:
        """Add an action, or replace the one with its key, as the latest."""
        kept = [earlier for earlier in self.actions if earlier.key != action.key]
        self.actions = [*kept, action][-MOST_ACTIONS:]


def state_folder() -> str:
    """Return the folder of all these files: by the rule of the shell in `agents/hook_guards`."""
    chosen = os.environ.get("XDG_STATE_HOME", "")
    if not chosen.startswith("/"):  # the specification has relative paths ignored
        chosen = os.path.expanduser("~/.local/state")  # noqa: PTH111  `pathlib` takes 3 ms to load
    return f"{chosen}/xscore/failures"


def file_of(root: str) -> str:
    """Return the path of the file of a working tree, whether or not it exists.

    root: absolute, links resolved.
    """
    return f"{state_folder()}{root.rstrip('/')}/{MARKER}"


def tree_with_failures(folder: str) -> str:
    """Return the nearest folder, from this one up, that has a file; empty if there is none."""
    if not folder.startswith("/") or "\0" in folder:
        return ""
    place = os.path.realpath(folder)
    top = state_folder()
    while place.strip("/"):
        if os.path.lexists(f"{top}{place}/{MARKER}"):
            return place
        place = place.rpartition("/")[0]
    return ""


def read_actions(root: str) -> FailedActions:
    """Return what is on record for a working tree; nothing if the file is missing, damaged, not
    this user's alone, or in the tree."""
    record = FailedActions(root)
    path = file_of(root)
    if os.path.realpath(path).startswith(f"{root.rstrip('/')}/"):
        return record
    try:
        stored = json.loads(_own_bytes(path))
    except (OSError, ValueError, RecursionError):
        return record
    if not isinstance(stored, dict) or stored.get("root") != root:
        return record
    _fill(record, stored)
    actions = stored.get("actions")
    if not isinstance(actions, list):
        return record
    for fields in actions:
        key = fields.get("key") if isinstance(fields, dict) else None
        if isinstance(key, str):
            action = FailedAction(key)
            _fill(action, fields)
            record.put(action)
    return record


def write_actions(record: FailedActions, *, now: float) -> bool:
    """Replace the file in one step, or remove it where nothing is left; return whether that
    worked."""
    # A clock that was set back makes nothing old.
    record.actions = [action for action in record.actions if now - action.at < KEPT_S]
    path = file_of(record.root)
    if not record.actions:
        return remove_actions(record.root)
    fields = {**vars(record), "actions": [vars(action) for action in record.actions]}
    data = json.dumps(fields).encode("utf-8", "replace")
    aside = f"{path}.{os.getpid()}"
    try:
        _make_folder(path.rpartition("/")[0])
        descriptor = os.open(
            aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600
        )
        try:
            while data:
                data = data[os.write(descriptor, data) :]
        finally:
            os.close(descriptor)
        os.replace(aside, path)  # noqa: PTH105  `pathlib` takes 3 ms to load
    except (OSError, ValueError):
        _unlink(aside)
        return False
    return True


def remove_actions(root: str) -> bool:
    """Remove the file of a working tree and the folders that held nothing else; return whether it
    is gone."""
    folder = file_of(root).rpartition("/")[0]
    top = state_folder()
    try:
        # A hook that was killed may have left its new file next to the old one.
        for name in os.listdir(folder):  # noqa: PTH208  `pathlib` takes 3 ms to load
            if name.startswith(MARKER) and not _unlink(f"{folder}/{name}"):
                return False
    except FileNotFoundError:
        return True
    except (OSError, ValueError):
        return False
    try:
        while folder.startswith(f"{top}/"):
            os.rmdir(folder)  # noqa: PTH106  `pathlib` takes 3 ms to load
            folder = folder.rpartition("/")[0]
    except OSError:  # it holds others
        pass
    return True


def session_digest(session: str) -> str:
    """Return a short name of an agent's session."""
    return str(blake2b(session.encode("utf-8", "replace"), digest_size=8).hexdigest())


class ActionsLock:
    """Keeps other hooks from changing a tree's file meanwhile; `held` says whether that worked."""

    def __init__(self, root: str) -> None:
        self.held: bool = False
        self._folder = file_of(root).rpartition("/")[0]
        self._descriptor = -1

    def __enter__(self) -> "ActionsLock":
        give_up = time.monotonic() + _LOCK_WAIT_S
        try:
            _make_folder(self._folder)
            self._descriptor = os.open(
                self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
            )
        except (OSError, ValueError):
            return self
        # Tried once however late it is: on a busy machine opening the folder may take all the time.
        self.held = self._take()
        while not self.held and time.monotonic() < give_up:
            time.sleep(_LOCK_STEP_S)
            self.held = self._take()
        return self

    def _take(self) -> bool:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def __exit__(self, *_: object) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)


def all_trees() -> Iterator[str]:
    """Yield the working trees that have a file, or what a killed hook left of one."""
    top = state_folder()
    for place, _, names in os.walk(top):
        if any(name.startswith(MARKER) for name in names):
            yield place.removeprefix(top)


def forget_gone_trees() -> None:
    """Remove the files of working trees that are no longer there."""
    for tree in list(all_trees()):
        if not os.path.lexists(tree):
            remove_actions(tree)


def _own_bytes(path: str) -> bytes:
    """Read a file that only this user can have written. Raises OSError."""
    descriptor = os.open(path, _READ_FLAGS)
    try:
        info = os.fstat(descriptor)
        is_own = stat.S_ISREG(info.st_mode) and info.st_uid == os.geteuid()
        if not is_own or info.st_mode & 0o077 or info.st_size > _MAX_BYTES:
            return b""
        return os.read(descriptor, _MAX_BYTES)
    finally:
        os.close(descriptor)


def _fill(record: object, fields: dict[str, object]) -> None:
    """Copy the fields whose types are those of a new record; the rest keeps its default."""
    for name, default in vars(record).items():
        value = fields.get(name)
        if isinstance(default, list):
            if name != "actions" and isinstance(value, list):
                setattr(record, name, [text for text in value if isinstance(text, str)])
        elif type(value) is type(default):
            setattr(record, name, value)


def _make_folder(folder: str) -> None:
    # It names the user's projects, so it is private.
    before = os.umask(0o077)
    try:
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103  `pathlib` takes 3 ms to load
    finally:
        os.umask(before)


def _unlink(path: str) -> bool:
    try:
        os.unlink(path)  # noqa: PTH108  `pathlib` takes 3 ms to load
    except FileNotFoundError:
        return True
    except (OSError, ValueError):
        return False
    return True
