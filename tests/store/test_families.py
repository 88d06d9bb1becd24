"""Secrets of more than 97 families of vendors, tools and files are found, wherever they stand."""

import pytest

from tests.store.planted import families, filled
from xscore.store.redaction import redact

SEEDS = range(5)
MIN_FOUND = 0.95
"""Share of the families that must be found in each setting."""

SETTINGS = {
    "in prose": "we rotated {} last week, I think",
    "alone": "{}",
    "behind a telling-nothing name": 'x = "{}"',
    "in YAML": "  value: {}",
    "in JSON": '{{"a": 1, "value": "{}"}}',
    "in .env": "SETTING_7={}",
    "in a command": "deploy --with {} --now",
    "in a URL": "https://api.acme.io/v1?x={}&y=2",
    "in a list": "[1, '{}', 2]",
    "in a markdown table": "| staging | `{}` | yes |",
    "in XML": "<v>{}</v>",
    "escaped": 'f("a\\n{}\\nb")',
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_key_is_found_by_its_form_in_every_setting(setting: str) -> None:
    """At least 95 % of the families are found bare or behind a name that tells nothing; nothing of a key is left."""
    forms = families("bare")
    missed = {family for family, form in forms.items() for seed in SEEDS if left_of(form, SETTINGS[setting], seed)}
    assert len(forms) >= 97
    assert len(forms) - len(missed) >= MIN_FOUND * len(forms), sorted(missed)


def left_of(form: str, setting: str, seed: int) -> list[str]:
    """Return the parts of a secret that redaction leaves there."""
    secret, parts = filled(form, seed)
    found = redact(setting.format(secret))
    assert redact(found.text).text == found.text
    return [part for part in parts if part in found.text]


@pytest.mark.parametrize("family", families("named"))
def test_a_secret_without_a_form_is_found_where_its_place_tells(family: str) -> None:
    """Behind the vendor's name, in a header, in a line of `.pgpass`, WireGuard, PuTTY, a connection string."""
    for seed in SEEDS:
        for before, after in (("", ""), ("x: 1\n", "\ny: 2\n")):
            secret, parts = filled(families("named")[family], seed)
            found = redact(before + secret + after, prose=True)
            assert not [part for part in parts if part in found.text], found.text
            assert found.text.startswith(before) and found.text.endswith(after)
            assert found.text.count("\n") == (before + secret + after).count("\n")
            assert redact(found.text, prose=True).text == found.text
