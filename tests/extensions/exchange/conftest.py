"""Stores and databases as the tests of store and cache have them."""

from tests.cache.conftest import connection, path
from tests.store.conftest import other, store, user_dir

__all__ = ["connection", "other", "path", "store", "user_dir"]
