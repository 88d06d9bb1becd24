"""Secrets of more than 150 families are found wherever they are, and other code stays as it
is."""

from functools import partial
from pathlib import Path

import msgspec
import pytest

from tests.cpu_time import assert_costs, assert_growth
from tests.store.generated_secrets import families, filled
from xscore.store.redaction import find_literals, redact
from xscore.store.secret_rules import secret_rules

SEEDS = range(2)
MIN_FOUND = 0.95
"""Share of the families that must be found in each setting."""

SETTINGS = {
    "in prose": "we rotated {} last week, I think",
    "alone": "{}",
    "behind a name that tells nothing": 'x = "{}"',
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


def left_of(form: str, setting: str, seed: int) -> list[str]:
    """Return the parts of a secret that redaction leaves there."""
    secret, parts = filled(form, seed)
    clean = redact(setting.format(secret)).text
    assert redact(clean).text == clean
    return [part for part in parts if part in clean]


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_key_is_found_by_its_form_in_every_setting(setting: str) -> None:
    """At least 95 % of the families are found bare, with nothing left of a key."""
    forms = families("bare")
    missed = set()
    for family, form in forms.items():
        if any(left_of(form, SETTINGS[setting], seed) for seed in SEEDS):
            missed.add(family)
    assert len(forms) >= 150
    assert len(forms) - len(missed) >= MIN_FOUND * len(forms), sorted(missed)


@pytest.mark.parametrize("family", families("named"))
def test_a_secret_without_a_form_is_found_where_its_place_tells(family: str) -> None:
    """Behind the vendor's name, in a header, in a line of `.pgpass`, WireGuard, PuTTY, a DSN."""
    for seed in SEEDS:
        for before, after in (("", ""), ("x: 1\n", "\ny: 2\n")):
            secret, parts = filled(families("named")[family], seed)
            text = before + secret + after
            clean = redact(text).text
            assert not [part for part in parts if part in clean], clean
            assert clean.startswith(before) and clean.endswith(after)
            assert clean.count("\n") == text.count("\n")
            assert redact(clean).text == clean


def test_families_searched_together_lose_what_each_would_lose() -> None:
    """What `find_literals` keeps for a file redacts each of its parts as if it were alone."""
    texts = [
        filled(form, 1)[0] for part in ("bare", "named") for form in families(part).values()
    ]
    literals = find_literals(texts, prose=False)
    assert [redact(text, literals=literals) for text in texts] == [
        redact(text) for text in texts
    ]


@pytest.mark.parametrize(
    "line",
    [
        "DB_PASS=tigerlily",
        "db_pass: tigerlily",
        "dbPass = 'tigerlily'",
        "ROOT_PW=tigerlily",
        "mail.smtp.pass=tigerlily",
        "PASS=Kq7v9ZtR2",
        "KEYSTORE_PASSWD=tigerlily",
        "SSH_PASSPHRASE_OLD=tigerlily",
        "MYSQL_PWD=tigerlily",
    ],
)
def test_names_that_end_in_pass_or_pw_count(line: str) -> None:
    """`DB_PASS=` tells as much as `DB_PASSWORD=`."""
    assert redact(line).types == ("password",)


A64 = "b5bb9d8014a0f9b1d61e21e796d78dccdf1352f23cd32812f4850b878ae4944c"
INNOCENT = [
    f"sha256:{A64}",
    f"commit {A64[:40]}",
    f'checksum = "{A64}"',
    f"md5-{A64[:32]}",
    f"test_{A64[:32]}",
    '"integrity": "sha512-' + "aB3/x+9z" * 10 + 'abcdef==",',
    "github.com/acme/x v1.2.3 h1:" + "aB3/x+9z" * 5 + "abc=",
    "id = 'd9428888-122b-11e1-b85c-61cd3cbb3210'",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKd7v9ZtR2Lq8Xw3Rt6Yb1Nc5Xd9Kf2Hj7Ma4Ps0Vg me@host",
    "src='data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9Q'",
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAB0AAAAAAAAAA8D8AAAAAAAAAQAAAAAAAAAhA1b2c3d4e5f6a7b8c9",
    "def test_a_name_of_exactly_forty_characters_is_no_key_2(self): pass",
    "live_reload_server_for_development_builds_2 = True",
    "secret_manager_client_library_for_python_version_2",
    "re_compile_the_pattern_with_flags_2_and_3",
    "pat.replace('a', 'b').replace('c', 'd').upper()",
    "fw_update_the_firmware_of_device_2",
    "https://acme.io/pages/sc_overview.v1.html?x=key-value-pairs-2",
    "npm_config_cache=/tmp/npm_cache_folder_2",
    "bypass = 'a1b2c3d4e5f6'",
    "compass: a1b2c3d4e5f6",
    "first_pass = None",
    "PASS: 12 tests",
    "PASS=$DB_PASS",
    'document.cookie = "theme=dark; path=/"',
    'headers.get("Cookie", "")',
    "Cookie: <cookie>",
    "publickey = 'x'",
    "arn:aws:s3:*:*:amzn-s3-demo-bucket",
    "localhost:5432:",
    '("authorization", "x-amz-content-sha256", "x-amz-date")',
    "<path d='M12.34-5.6c1.1-.3 2.2-.7 3.3-1.2l4.4 5.5-6.6 7.7z'/>",
    "/* .sk-circle-fade12 .pul-left .ico-arrow-right-2 */",
]


@pytest.mark.parametrize("text", INNOCENT)
def test_hashes_and_names_that_begin_like_a_key_stay(text: str) -> None:
    """Checksums, commits, ids, public keys, images and identifiers are no secrets."""
    assert redact(text).text == text


@pytest.mark.parametrize(
    "unit",
    [
        "eyJ_",
        "sk-",
        "key=",
        "pw: ",
        "Cookie: a=b; ",
        ":5432:a:",
        "Private-Lines: 1\n",
        "LS0tLS1CRUdJTi_",
        "Private-Lines: 1\n" + "A" * 64 + "\n",
        "authorization: x ",
        "me:$2y$",
        "pat",
        "a1-us",
        "00Daaaaaaaaaaaa!AQ",
    ],
)
def test_hostile_text_takes_linear_time(unit: str) -> None:
    """Eight times a rule's beginning takes about eight times the CPU."""
    assert_growth(
        lambda size: redact(unit * (size // len(unit))), small=8_000, large=64_000, at_most=24
    )


@pytest.mark.verify
def test_the_mark_of_a_key_repeated_costs_little_more_than_plain_text() -> None:
    """20 kB of any vendor's mark, glued or with more behind it, cost at most 60 times the same of
    one letter."""
    plain = partial(redact, "a" * 20_000)
    for key in secret_rules().token:
        for mark in key.starts:
            for unit in (mark + "_", mark + "a1B2c3D4"):
                hostile = partial(redact, unit * (20_000 // len(unit)))
                assert_costs(hostile, than=plain, at_most=60)


@pytest.mark.verify
def test_installed_packages_stay_as_they_are() -> None:
    """Of up to 6,000 installed Python files, redaction changes at most 0.3 %.

    What remains: literals used as credentials in tests, types named after keys
    (`private_key: Ed25519PrivateKey`), names of variables as values.
    """
    paths = sorted(
        path for path in Path(msgspec.__file__).parents[1].rglob("*.py") if path.is_file()
    )
    sample = paths[:: max(1, len(paths) // 6_000)][:6_000]
    changed = [path for path in sample if redact(path.read_text("utf-8", "replace")).count]
    assert len(sample) > 1_000
    assert len(changed) <= 0.003 * len(sample), changed
