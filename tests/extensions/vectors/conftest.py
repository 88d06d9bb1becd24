"""The fixtures of the store's tests, and the repository and loopback judge of the pipeline's tests."""

from tests.pipeline.conftest import server, shop
from tests.store.conftest import other, store, user_dir

__all__ = ["other", "server", "shop", "store", "user_dir"]
