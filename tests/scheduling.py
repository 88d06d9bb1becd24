"""Which tests run in one worker, and which are begun first.

pytest-xdist sends each test to whichever worker is free, so a fixture of a module is made once a
worker. Where it is dear (a model server that judges for a minute, a site, a browser), the file is
sent as a whole. xdist's own marks for that (`xdist_group`) have no effect since pytest 9.2, which
ignores the ids that xdist gives the tests. What is long is begun first, so that no worker is left
with it alone at the end.
"""

from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

WHOLE_FILES = frozenset(
    {
        "tests/ci/test_site.py",
        "tests/contract/test_contract.py",
        "tests/cost_reports/test_page_in_browser.py",
        "tests/extensions/view/test_view_in_browser.py",
        "tests/proof/test_estimates.py",
        "tests/proof/test_real_server.py",
        "tests/proof/test_real_trees.py",
        "tests/scorer/test_lexical.py",
        "tests/test_extras.py",
        "tests/test_patterns.py",
        "tests/test_promises.py",
        "tests/test_start_up.py",
    }
)
"""Their fixtures are made once; xdist begins them before single tests."""
LONG_FILES = frozenset(
    {
        "test_batch_kills.py",
        "test_layers_machine.py",
        "test_patterns.py",
        "test_public_names.py",
        "test_ray_engine.py",
        "test_store_place_machine.py",
    }
)
"""Each has a test that takes tens of seconds."""


class WholeFiles(LoadScopeScheduling):  # type: ignore[misc]  # pytest-xdist states no types
    """Sends single tests to the workers, and some files as a whole."""

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        return path if path in WHOLE_FILES else nodeid


class Scheduling:
    """The hooks of pytest and of pytest-xdist."""

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> WholeFiles:
        """Choose the scheduler, whatever `--dist` says."""
        return WholeFiles(config, log)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Begin with what is long, in the same order in every worker."""
        items.sort(key=lambda item: Path(item.path).name not in LONG_FILES)
