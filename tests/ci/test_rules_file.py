"""The rules that are read as JSON."""

from ci.rules import rule_files


def test_the_json_of_the_rules_says_what_their_toml_says() -> None:
    """`make docs` was run after the last change of a rule."""
    assert {path: path.read_text("utf-8") for path in rule_files()} == rule_files()
