"""What pages are drawn with: checksums, versions and licences are what the package says."""

import hashlib
import json
from pathlib import Path

import pytest

import xscore
from tests.ci.fake_runner import ROOT

PACKAGE = Path(xscore.__file__).parent
BUNDLES = (
    (PACKAGE / "extensions/pages/vendor/drawing.json", 200_000),
    (PACKAGE / "cost_reports/vendor/plotting.json", 70_000),
)


@pytest.mark.parametrize(("written", "most_bytes"), BUNDLES)
def test_a_bundle_is_what_its_manifest_says(written: Path, most_bytes: int) -> None:
    """The bundled script has the checksum that was written when it was made, and is small."""
    manifest = json.loads(written.read_text("utf-8"))
    script = (written.parent / manifest["file"]).read_bytes()
    assert hashlib.sha256(script).hexdigest() == manifest["sha256"]
    assert len(script) == manifest["bytes"] <= most_bytes
    assert b"</script" not in script


@pytest.mark.parametrize("written", [written for written, _ in BUNDLES])
def test_every_package_in_it_is_locked_and_has_its_licence(written: Path) -> None:
    """Each package of a bundle has the version and integrity of the lock file, and its licence
    is next to the bundle."""
    manifest = json.loads(written.read_text("utf-8"))
    lock = json.loads((ROOT / "ci/page_parts/package-lock.json").read_text("utf-8"))["packages"]
    licences = (written.parent / "LICENSES.txt").read_text("utf-8")
    assert manifest["packages"]
    for package in manifest["packages"]:
        locked = lock[f"node_modules/{package['name']}"]
        assert locked["version"] == package["version"]
        assert locked["integrity"] == package["integrity"]
        assert package["licence"] in {"ISC", "MIT", "BSD-3-Clause"}
        assert f"{package['name']} {package['version']}\n" in licences
