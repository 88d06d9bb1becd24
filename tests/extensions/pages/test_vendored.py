"""What the page is drawn with: its checksum, versions and licences are what the package says."""

import hashlib
import json
from pathlib import Path

import xscore
from tests.ci.fake_runner import ROOT

VENDOR = Path(xscore.__file__).parent / "extensions/pages/vendor"
MOST_BYTES = 200_000


def test_the_bundle_is_what_its_manifest_says() -> None:
    """The bundled script has the checksum that was written when it was made, and is small."""
    manifest = json.loads((VENDOR / "drawing.json").read_text("utf-8"))
    script = (VENDOR / manifest["file"]).read_bytes()
    assert hashlib.sha256(script).hexdigest() == manifest["sha256"]
    assert len(script) == manifest["bytes"] <= MOST_BYTES
    assert b"</script" not in script


def test_every_package_in_it_is_locked_and_has_its_licence() -> None:
    """Each package of the bundle has the version and integrity of the lock file, and its licence
    is beside the bundle."""
    manifest = json.loads((VENDOR / "drawing.json").read_text("utf-8"))
    lock = json.loads((ROOT / "ci/page_parts/package-lock.json").read_text("utf-8"))["packages"]
    licences = (VENDOR / "LICENSES.txt").read_text("utf-8")
    assert manifest["packages"]
    for package in manifest["packages"]:
        locked = lock[f"node_modules/{package['name']}"]
        assert locked["version"] == package["version"]
        assert locked["integrity"] == package["integrity"]
        assert package["licence"] in {"ISC", "MIT", "BSD-3-Clause"}
        assert f"{package['name']} {package['version']}\n" in licences
