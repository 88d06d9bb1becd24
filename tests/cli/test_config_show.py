"""`config show`: the effective settings and where they come from."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from xscore.settings import setting_names

KEY = "sk-test-0123456789abcdef"


def test_origins(xscore: Run, tmp_path: Path) -> None:
    """Each setting names the source of its value."""
    (tmp_path / ".xscore.toml").write_text("[selection]\ntop_k = 7\n")
    done = xscore(
        "config", "show", "--origin", "--json", cwd=tmp_path, environ={"XSCORE_JUDGE_RPM": "50"}
    )
    shown = {setting["name"]: setting for setting in json.loads(done.stdout)["settings"]}
    assert set(shown) == set(setting_names())
    assert shown["selection.top_k"] == {
        "name": "selection.top_k",
        "value": "7",
        "origin": ".xscore.toml",
    }
    assert shown["judge.rpm"]["origin"] == "environment XSCORE_JUDGE_RPM"
    assert shown["selection.threshold"]["origin"] == "default"


def test_a_key_is_masked(xscore: Run, tmp_path: Path) -> None:
    """A key shows only its last four characters, in every format."""
    for form in ((), ("--json",), ("--origin",)):
        done = xscore("config", "show", *form, cwd=tmp_path, environ={"OPENAI_API_KEY": KEY})
        assert KEY[:-4] not in done.stdout + done.stderr
        assert "cdef" in done.stdout


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (
            "http://me:hunter22@localhost:9/v1?api_key=abcdefghijk#frag",
            "http://…@localhost:9/v1?api_key=…#…",
        ),
        ("https://host/v1/" + KEY, "https://host/v1/"),
        ("http://localhost:8080/v1", "http://localhost:8080/v1"),
    ],
)
def test_a_url_shows_no_password_and_no_key(
    url: str, shown: str, xscore: Run, tmp_path: Path
) -> None:
    """User, password, query and keys in a path are masked; the host stays."""
    for form in ((), ("--json",)):
        done = xscore("config", "show", *form, cwd=tmp_path, environ={"OPENAI_BASE_URL": url})
        assert shown in done.stdout
        assert not [
            secret
            for secret in ("hunter22", "abcdefghijk", "frag", KEY)
            if secret in done.stdout
        ]
    shared = xscore(
        "config",
        "show",
        cwd=tmp_path,
        environ={"XSCORE_SHARED_URL": "redis://user:se/cret@host"},
    )
    assert "redis://…@host" in shared.stdout and "cret" not in shared.stdout
