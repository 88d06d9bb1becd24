"""Stores as the store's own tests have them."""

from tests.store.conftest import other, store, user_dir

__all__ = ["other", "store", "user_dir"]
