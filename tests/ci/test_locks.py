"""The locked packages: every declared dependency, each with checksums; and the release that
installs them."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, requires

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ci.rules import rule_files
from tests.ci.fake_runner import ROOT

LOCKS = ROOT / "ci/locks"


def locked(name: str) -> dict[str, str]:
    """Return each package of a lock file with the checksums below it."""
    parts = re.split(
        r"^(?=[a-z0-9])", (LOCKS / f"{name}.txt").read_text("utf-8"), flags=re.MULTILINE
    )
    return {
        re.split(r"[=\[ ]", part)[0]: part
        for part in parts
        if part and not part.startswith("#")
    }


def declared(*extras: str) -> set[str]:
    """Return the dependencies declared in pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    requirements = [
        *project["dependencies"],
        *(
            requirement
            for extra in extras
            for requirement in project["optional-dependencies"][extra]
        ),
    ]
    return {Requirement(requirement).name.lower() for requirement in requirements}


@pytest.mark.parametrize(
    ("name", "extras"), [("run", ()), ("test", ("test",)), ("verify", ("test", "verify"))]
)
def test_a_lock_holds_what_is_declared_and_every_package_has_checksums(
    name: str, extras: tuple[str, ...]
) -> None:
    """A dependency added without `make lock` fails here, before an installation lacks it."""
    packages = locked(name)
    assert declared(*extras) | {"hatchling", "editables"} <= set(packages)
    assert [
        package
        for package, text in packages.items()
        if "==" not in text or "--hash=sha256:" not in text
    ] == []


def with_dependencies(packages: set[str]) -> set[str]:
    """Return these packages and all that they need, on any platform, by what is installed here."""
    waiting = list(packages)
    seen: set[str] = set()
    while waiting:
        package = waiting.pop()
        if package in seen:
            continue
        seen.add(package)
        try:
            requirements = map(Requirement, requires(package) or [])
        except PackageNotFoundError:  # one of another platform
            continue
        for requirement in requirements:
            if "extra ==" not in str(requirement.marker):
                waiting.append(canonicalize_name(requirement.name))
    return seen


def test_what_runs_is_locked_to_what_is_needed_and_nothing_more() -> None:
    """A dependency that goes without `make lock` would still be installed where the lock is."""
    unneeded = locked("run").keys() - with_dependencies(declared() | {"hatchling", "editables"})
    assert unneeded == set()


def test_locks_agree_with_each_other() -> None:
    """Tested is what runs: a package has the same version in every lock."""
    run, test, verify = (locked(name) for name in ("run", "test", "verify"))
    version = re.compile(r"==([^ \\]+)")
    assert [
        package
        for package in run
        if version.findall(run[package]) != version.findall(test[package])
    ] == []
    assert [
        package
        for package in test
        if version.findall(test[package]) != version.findall(verify[package])
    ] == []


def test_a_release_publishes_what_was_tried_with_statements_of_origin_and_contents() -> None:
    """The publishing job builds nothing: it signs and uploads the files of the job that tested
    them."""
    jobs = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text("utf-8"))["jobs"]
    steps = jobs["publish"]["steps"]
    signed = [
        step["with"] for step in steps if step.get("uses", "").startswith("actions/attest@")
    ]
    assert [sorted(inputs) for inputs in signed] == [
        ["subject-path"],
        ["sbom-path", "subject-path"],
    ]
    assert not any("build" in step.get("run", "") for step in steps)
    assert jobs["publish"]["permissions"] == {
        "contents": "read",
        "id-token": "write",
        "attestations": "write",
    }
    assert "make sbom" in [step.get("run") for step in jobs["build"]["steps"]]


def test_the_json_of_the_rules_says_what_their_toml_says() -> None:
    """`make docs` was run after the last change of a rule."""
    assert {path: path.read_text("utf-8") for path in rule_files()} == rule_files()
