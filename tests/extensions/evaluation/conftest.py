"""The repository and the loopback judge of the pipeline's tests."""

from tests.pipeline.conftest import server, shop

__all__ = ["server", "shop"]
