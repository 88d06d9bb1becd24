"""Stores as the store's own tests have them; no test asks the keyring of whoever runs it."""

import pytest

from tests.store.conftest import other, store, user_dir

__all__ = ["other", "store", "user_dir"]


@pytest.fixture(autouse=True)
def no_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep every test away from the keyring of whoever runs it."""
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
