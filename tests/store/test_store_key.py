"""P04: the key of encrypted stores, and the errors if it is missing, wrong or badly stored."""

import os
from collections.abc import Iterator
from pathlib import Path

import keyring
import keyring.backend
import pytest

from tests.conftest import store_file
from tests.statements import facts
from tests.store.encrypted_stores import make_encrypted_store, open_store
from xscore.extensions.privacy import encryption
from xscore.extensions.recovery import rebuild
from xscore.platform import encrypted_sqlite, sqlite_drivers
from xscore.platform.errors import StoreDamaged, StoreError, StoreUntrusted
from xscore.store import encryption_key


class InMemory(keyring.backend.KeyringBackend):
    """A keyring in memory."""

    priority = 1

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # keyring leaves it untyped
        self.kept: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        """Return the stored value."""
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        """Store it."""
        self.kept[service, username] = password


@pytest.fixture(autouse=True)
def ring() -> Iterator[InMemory]:
    """Use a keyring for the test."""
    before, in_memory = keyring.get_keyring(), InMemory()
    keyring.set_keyring(in_memory)
    yield in_memory
    keyring.set_keyring(before)


@pytest.fixture
def in_a_file(ring: InMemory) -> None:
    """Simulate a machine without a keyring."""
    from keyring.backends.fail import Keyring

    keyring.set_keyring(Keyring())  # type: ignore[no-untyped-call]  # keyring leaves it untyped


def refused(root: Path, user_dir: Path, match: str) -> StoreError:
    """Assert that the store is refused with this message, exit 6, no mention of damage, and
    unchanged bytes."""
    path = store_file(root)
    before = path.read_bytes()
    for attempt in (
        lambda: open_store(root, user_dir),
        lambda: rebuild.rebuild_store(path.parent, user_data_dir=user_dir),
        lambda: encryption.decrypt_store(path, user_data_dir=user_dir),
    ):
        with pytest.raises(StoreError, match=match) as raised:
            attempt()
        assert raised.value.exit_code == 6
        assert not isinstance(raised.value, StoreDamaged | StoreUntrusted)
        assert raised.value.hint
        assert "rebuild" not in raised.value.hint
    assert path.read_bytes() == before
    return raised.value


def test_the_keyring_keeps_the_key_where_there_is_one(
    tmp_path: Path, user_dir: Path, ring: InMemory
) -> None:
    """The key is in the keyring and in no file; another store uses the same."""
    path = make_encrypted_store(tmp_path / "r", user_dir)
    ((service, account), key), *further_keys = ring.kept.items()
    assert (service, further_keys) == ("xscore", [])
    assert (
        account == sqlite_drivers.read_note(path) == encrypted_sqlite.key_id(bytes.fromhex(key))
    )
    assert not [
        file
        for file in tmp_path.rglob("*")
        if file.is_file() and key.encode() in file.read_bytes()
    ]
    make_encrypted_store(tmp_path / "s", user_dir)
    assert len(ring.kept) == 1
    ring.kept.clear()
    refused(tmp_path / "r", user_dir, "the keyring does not have key")


@pytest.mark.parametrize("backend", ["fail", "null"])
def test_a_machine_without_a_keyring_keeps_it_in_a_file_of_ones_own(
    tmp_path: Path, user_dir: Path, backend: str
) -> None:
    """A keyring that refuses or forgets counts as none: the key is in a 0600 file."""
    module = __import__(f"keyring.backends.{backend}", fromlist=["Keyring"])
    keyring.set_keyring(module.Keyring())
    make_encrypted_store(tmp_path / "r", user_dir)
    file = user_dir / "store.key"
    assert file.stat().st_mode & 0o777 == 0o600
    assert len(bytes.fromhex(file.read_text())) == 32
    assert encryption_key.key_location(user_dir) == str(file)


@pytest.mark.usefixtures("in_a_file")
def test_a_missing_key_is_said_to_be_missing(tmp_path: Path, user_dir: Path) -> None:
    """Nothing is called damaged or rebuilt, and with the key back everything is there."""
    make_encrypted_store(tmp_path / "r", user_dir)
    file = user_dir / "store.key"
    kept = file.rename(tmp_path / "kept")
    refused(tmp_path / "r", user_dir, "store.key is missing")
    kept.rename(file)
    with open_store(tmp_path / "r", user_dir) as store:
        assert len(facts(store)) == 5


@pytest.mark.usefixtures("in_a_file")
def test_a_wrong_key_is_said_to_be_wrong(tmp_path: Path, user_dir: Path) -> None:
    """Both keys are named by their ids, and neither is shown."""
    path = make_encrypted_store(tmp_path / "r", user_dir)
    (user_dir / "store.key").write_text("ab" * 32)
    error = refused(
        tmp_path / "r",
        user_dir,
        f"encrypted with key {sqlite_drivers.read_note(path)}, and your key is",
    )
    assert "abab" not in error.message + error.hint
    with pytest.raises(StoreError, match="your key is"):
        encryption.encrypt_store(path, user_data_dir=user_dir)


@pytest.mark.usefixtures("in_a_file")
@pytest.mark.parametrize("text", ["", "ab" * 31, "XY" * 32, "ab" * 200, "keyring ../../etc"])
def test_a_file_that_is_no_key_is_not_taken_for_one(
    tmp_path: Path, user_dir: Path, text: str
) -> None:
    """Exactly 64 hexadecimal digits, or an error says so."""
    make_encrypted_store(tmp_path / "r", user_dir)
    (user_dir / "store.key").write_text(text)
    refused(tmp_path / "r", user_dir, "is not a key")


@pytest.mark.usefixtures("in_a_file")
def test_a_key_that_others_may_read_is_refused(tmp_path: Path, user_dir: Path) -> None:
    """Mode 0644, a link and a pipe are refused, with a remedy."""
    make_encrypted_store(tmp_path / "r", user_dir)
    file = user_dir / "store.key"
    file.chmod(0o644)
    assert "chmod 600" in refused(tmp_path / "r", user_dir, "others may open it").hint
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    refused(tmp_path / "r", user_dir, "cannot be read")
    file.unlink()
    os.mkfifo(file, 0o600)
    refused(tmp_path / "r", user_dir, "is not a file of yours")


@pytest.mark.usefixtures("in_a_file")
@pytest.mark.parametrize("kind", ["words", "foreign", "link", "pipe", "folder"])
def test_a_planted_note_reads_nothing_and_tells_nothing(
    tmp_path: Path, user_dir: Path, kind: str
) -> None:
    """A marker that came with a clone can make a store refuse to open; it never says where a key
    is."""
    (tmp_path / "r").mkdir()
    path = store_file(tmp_path / "r")
    with open_store(tmp_path / "r", user_dir):
        pass
    note = sqlite_drivers.note_path(path)
    secret = tmp_path / "secret"
    secret.write_text("a secret of the user")
    match kind:
        case "words":
            note.write_text(f"encrypted with key {secret}\n")
        case "foreign":
            note.write_text("encrypted with key 0123456789abcdef\n")
        case "link":
            note.symlink_to(secret)
        case "pipe":
            os.mkfifo(note)
        case "folder":
            note.mkdir()
    with pytest.raises(StoreError) as raised:
        open_store(tmp_path / "r", user_dir)
    assert not isinstance(raised.value, StoreDamaged)
    assert "a secret" not in raised.value.message


@pytest.mark.usefixtures("in_a_file")
def test_a_planted_note_does_not_stop_a_clone_from_being_set_aside(
    tmp_path: Path, user_dir: Path
) -> None:
    """A foreign store is set aside with its marker, and the new one is a normal store."""
    path = make_encrypted_store(tmp_path / "r", user_dir)
    other_user = tmp_path / "other user"
    rebuilt = rebuild.rebuild_store(path.parent, user_data_dir=other_user)
    assert rebuilt.set_aside_at is not None
    assert sqlite_drivers.note_path(rebuilt.set_aside_at / "memory.db").is_file()
    assert sqlite_drivers.read_note(path) is None
    open_store(tmp_path / "r", other_user).close()


@pytest.mark.usefixtures("in_a_file")
def test_a_lost_note_is_written_again(tmp_path: Path, user_dir: Path) -> None:
    """Without its marker the store is reported as encrypted, not damaged; `encrypt` restores the
    marker."""
    path = make_encrypted_store(tmp_path / "r", user_dir)
    sqlite_drivers.note_path(path).unlink()
    with pytest.raises(StoreError, match="encrypted") as raised:
        open_store(tmp_path / "r", user_dir)
    assert not isinstance(raised.value, StoreDamaged)
    assert "`xscore store encrypt`" in raised.value.hint
    encryption.restore_note(path, user_data_dir=user_dir)
    open_store(tmp_path / "r", user_dir).close()
