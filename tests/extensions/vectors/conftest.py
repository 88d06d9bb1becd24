"""Stores as the store's own tests have them; the repository and the loopback judge of the pipeline's."""

from tests.pipeline.conftest import server, shop
from tests.store.conftest import other, store, user_dir

__all__ = ["other", "server", "shop", "store", "user_dir"]
