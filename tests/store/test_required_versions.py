"""Whether a version fits what a manifest requires."""

import pytest

from xscore.store.required_versions import allows, has_number


@pytest.mark.parametrize(
    ("requirement", "version", "fits"),
    [
        (">=3.11", "3.11", True),
        (">=3.11", "3.12", True),
        (">=3.11", "3.9", False),
        (">=3.11,<3.13", "3.13", False),
        ("^4.2.7", "4.2", True),
        ("^5.0", "4.2", False),
        ("~=4.2.1", "4.2", True),
        ("~=4.2.1", "4.3", False),
        ("==4.2", "4.2.1", True),
        ("18 || 20", "20", True),
        ("18 || 20", "19", False),
        ("1.21", "1.21", True),
        ("v1.2.3", "1.2", True),
        ("!=2.0,>=1", "2.0", False),
    ],
)
def test_versions_are_compared(requirement: str, version: str, *, fits: bool) -> None:
    """By the parts that both have; it fits too where it is the one that is required."""
    assert allows(requirement, version) is fits


def test_what_says_nothing_of_a_version() -> None:
    """A link, a workspace, a star."""
    assert not any(map(has_number, ("*", "workspace:*", "latest", "")))
    assert has_number("^4")
