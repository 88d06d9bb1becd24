"""The fixtures of the store's tests; no test touches the keyring of the user who runs it."""

import pytest

from tests.store.conftest import other, store, user_dir

__all__ = ["other", "store", "user_dir"]


@pytest.fixture(autouse=True)
def no_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep tests away from the keyring of the user who runs them."""
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
