"""The names that the site documents are there; read from its configuration, since Sphinx is not
installed for `make test`."""

import ast
import importlib
from pathlib import Path

CONFIGURATION = Path(__file__).parents[2] / "ci/site/conf.py"


def test_every_documented_name_exists() -> None:
    """A class that moves takes its line in the site's configuration with it."""
    assignments = {
        statement.targets[0].id: statement.value
        for statement in ast.parse(CONFIGURATION.read_text("utf-8")).body
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)
    }
    documented = ast.literal_eval(assignments["OTHERS"])
    assert documented
    for module, names in documented.values():
        for name in names:
            assert hasattr(importlib.import_module(module), name), f"{module} has no {name}"
