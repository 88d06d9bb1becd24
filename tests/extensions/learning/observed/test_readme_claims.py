"""What README and CONTRIBUTING say and the files contradict, in `memory audit`."""

import pytest

from tests.extensions.learning.conftest import NOW
from tests.extensions.learning.observed.test_observing import put
from xscore.extensions.learning.audit import AuditProblem, audit_memories
from xscore.indexer.index import index_repository
from xscore.settings import IndexSettings, MemorySettings
from xscore.store.store import Store

FILES = {
    "pyproject.toml": (
        '[project]\nrequires-python = ">=3.11"\n[dependency-groups]\ndev = ["pytest"]\n'
    ),
    "Makefile": "test: deps\n\tpytest\n",
    "package.json": '{"engines": {"node": ">=20.1"}, "scripts": {"build": "tsc"}}',
    "scripts/lint": "#!/bin/sh\n",
}


def contradictions(store: Store) -> list[str]:
    """Return the findings about documents."""
    index_repository(store.connection, store.root, IndexSettings(git=False), now=NOW)
    audit = audit_memories(store, MemorySettings(), now=NOW)
    claims = [
        finding for finding in audit.findings if finding.problem is AuditProblem.CONTRADICTED
    ]
    assert all(finding.citations for finding in claims)
    return [finding.because for finding in claims]


@pytest.mark.parametrize(
    ("readme", "because"),
    [
        ("Run `make tests`.", "the Makefile has no target tests"),
        ("```sh\n$ npm run docs\n```", "package.json has no script docs"),
        ("    ./scripts/deploy.sh now\n", "there is no scripts/deploy.sh"),
        ("```\nnosetests tests\n```", "nothing here names, configures or imports nose"),
        ("Run `tox`.", "nothing here names, configures or imports tox"),
        ("Requires Python 3.8+.", "the manifest asks for at least 3.11"),
        ("Python >= 3.9 and more", "the manifest asks for at least 3.11"),
        ("It needs Node.js 14 or later.", "the manifest asks for at least 20.1"),
    ],
)
def test_a_claim_that_the_files_contradict_is_found(
    store: Store, readme: str, because: str
) -> None:
    """A missing target, script, file or framework, and another version, are named with their
    line."""
    put(store.root.path, FILES | {"README.md": f"# Shop\n\n{readme}\n"})
    (finding,) = contradictions(store)
    assert finding.startswith("README.md:")
    assert finding.endswith(because)


@pytest.mark.parametrize(
    "readme",
    [
        "Run `make test`, then `npm run build` and `scripts/lint`.",
        "Requires Python 3.11+ and Node 20 or newer.",
        "```sh\ncd web\nmake site\n```",
        "We make tests for Python 2 users; Python 3.12 is fastest.",
        "`pytest -q` runs `make` for you.",
        "",
    ],
)
def test_what_holds_or_is_no_claim_is_left_alone(store: Store, readme: str) -> None:
    """Right commands, other folders and prose are no findings."""
    put(store.root.path, FILES | {"README.md": readme})
    assert contradictions(store) == []


def test_targets_that_cannot_be_known_prove_nothing(store: Store) -> None:
    """A Makefile that includes others may have any target; without one there is none."""
    put(store.root.path, {"README.md": "`make site`", "Makefile": "include rules.mk\n"})
    assert contradictions(store) == []
    (store.root.path / "Makefile").unlink()
    assert contradictions(store) == ["README.md:1 says `make site`, but there is no Makefile"]


def test_a_makefile_that_cannot_be_read_contradicts_nothing(store: Store) -> None:
    """A link, which is not followed, is no missing Makefile; without one the claim is false."""
    put(store.root.path, {"README.md": "# Shop\n\nRun `make tests`.\n"})
    (finding,) = contradictions(store)
    assert finding.endswith("there is no Makefile")
    put(store.root.path, {"build.txt": "test:\n\tpytest\n"})
    (store.root.path / "Makefile").symlink_to("build.txt")
    assert contradictions(store) == []
