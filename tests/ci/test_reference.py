"""The generated references are up to date and complete."""

import re
from pathlib import Path

import click
import pytest

from ci import reference
from xscore.platform.errors import INSTALL_FROM, install_hint
from xscore.settings import setting_names

FOLDER = Path(__file__).parents[2] / "docs" / "reference"


@pytest.mark.parametrize("name", ["cli.md", "settings.md", "errors.md"])
def test_no_drift(name: str) -> None:
    """The pages match the program; `make docs` updates them."""
    assert (FOLDER / name).read_text("utf-8") == reference.reference_pages()[name], (
        "run `make docs`"
    )


def test_every_command_and_option_is_documented() -> None:
    """Each command has a heading, and names each of its options; the general ones are there
    once."""
    page = reference.cli_page()
    general = page.partition("\n## ")[0]
    for path, command in reference.all_commands():
        assert f"\n## {path}\n" in page
        section = page.split(f"\n## {path}\n")[1].split("\n## ")[0]
        for parameter in command.params:
            if getattr(parameter, "hidden", False):
                continue  # of a process that xscore starts itself
            if isinstance(parameter, click.Argument):
                assert parameter.human_readable_name.upper() in section.upper(), (
                    path,
                    parameter,
                )
                continue
            longest = max(parameter.opts, key=len)
            names_it = re.compile(rf"{re.escape(longest)}(?![\w-])")
            assert names_it.search(section) or names_it.search(general), (path, parameter.name)


def test_what_is_not_published_is_installed_from_the_checkout() -> None:
    """No hint or page gives pip a package name that someone else could register."""
    root = FOLDER.parents[1]
    pages = [
        *root.glob("xscore/**/*.py"),
        *root.glob("docs/**/*.md"),
        root / "README.md",
        root / "CHANGELOG.md",
    ]
    mentions = [
        page.name
        for page in pages
        if re.search(r"pip install (-\S+ )*['\"]?xscore\b", page.read_text("utf-8"))
    ]
    assert (INSTALL_FROM, mentions) == (".", [])
    assert "pip install '.[ray]'" in install_hint("ray")


def test_every_setting_is_documented() -> None:
    """Each setting has a heading and a sentence."""
    page = reference.settings_page()
    for name in setting_names():
        assert re.search(rf"\n### {re.escape(name)}\n\n\S.*\n", page), name


def test_every_error_is_documented() -> None:
    """Each error has a row, and the tree in the docstring names it."""
    page = reference.errors_page()
    for error in reference.all_errors():
        assert f"| `{error.__name__}` | `{error.kind}` | {error.exit_code} |" in page
        assert error.__name__ in page.split("```")[1], (
            f"draw {error.__name__} in the docstring of xscore.platform.errors"
        )
