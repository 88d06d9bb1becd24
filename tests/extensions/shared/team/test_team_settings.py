"""Settings, names and keys of a team, without a server."""

import subprocess
import sys
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.extensions.shared.team.conftest import KEY, OTHER_KEY
from xscore.extensions.shared.team.address import connected, connection_terms, team_address
from xscore.extensions.shared.team.setup import setup_sql
from xscore.extensions.shared.team.team_key import OtherKey, RowPlace, TeamKey, team_key
from xscore.platform.errors import SharedUnavailable, StoreDamaged, UsageError
from xscore.platform.repository_name import checked_name, repository_name
from xscore.records.memory import key_of_all_members, member_key
from xscore.settings import Secret, load_settings
from xscore.settings.model import SharedSettings

PLACE = RowPlace("acme", "p" * 32, "m" * 32, "n" * 32, "memory")
ORIGINS = {
    "https://github.com/acme/pay.git": "github.com/acme/pay",
    "https://ann:token@GitHub.com/acme/pay/": "github.com/acme/pay",
    "ssh://git@github.com:22/acme/pay": "github.com/acme/pay",
    "git@github.com:acme/pay.git": "github.com/acme/pay",
    "github.com:acme/pay": "github.com/acme/pay",
    "/srv/git/pay.git": "",
    "file:///srv/git/pay": "",
    "https://github.com/../../etc": "",
    "https://[bad/acme": "",
    "": "",
}


@pytest.mark.parametrize("origin", ORIGINS)
def test_one_repository_has_one_name(origin: str) -> None:
    """However it was cloned; a folder has none."""
    assert repository_name(origin) == ORIGINS[origin]


@pytest.mark.parametrize("name", ["", "a b", "../x", "x\ny", "-x", "a" * 300])
def test_an_odd_name_is_refused(name: str) -> None:
    """What a user gives is a plain name."""
    with pytest.raises(UsageError):
        checked_name(name)


def test_a_row_is_read_only_where_it_belongs() -> None:
    """Another row, kind or member, a changed byte and another key are all found out."""
    key = TeamKey(bytes.fromhex(KEY))
    content = key.encrypt(b"herring", PLACE)
    assert content == key.encrypt(b"herring", PLACE)
    assert key.decrypt(content, PLACE) == b"herring"
    for place in (
        RowPlace("umbra", *PLACE.__struct_fields__[1:]),
        RowPlace(PLACE.organisation, PLACE.project, "x" * 32, PLACE.name, PLACE.kind),
        RowPlace(PLACE.organisation, PLACE.project, PLACE.member, PLACE.name, "checkpoint"),
    ):
        with pytest.raises(StoreDamaged):
            key.decrypt(content, place)
    for at in (0, 6, 20, len(content) - 1):
        changed = bytearray(content)
        changed[at] ^= 1
        with pytest.raises(StoreDamaged):
            key.decrypt(bytes(changed), PLACE)
    with pytest.raises(OtherKey):
        TeamKey(bytes.fromhex(OTHER_KEY)).decrypt(content, PLACE)
    with pytest.raises(StoreDamaged):
        key.decrypt(b"", PLACE)


@pytest.mark.parametrize("key", ["", "ab" * 32, "zz", "ab" * 8])
def test_a_weak_key_is_refused(key: str) -> None:
    """Without a good key nothing is shared, and no message shows it."""
    with pytest.raises(UsageError) as refused:
        team_key(SharedSettings(key=Secret(key)))
    assert not key or key not in f"{refused.value.message}{refused.value.hint}"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann@db.example/team?sslmode=require",
        "postgresql://ann@db.example/team?sslmode=disable",
        "postgresql://ann@127.0.0.1/team?host=db.example&sslmode=disable",
        "postgresql://ann@127.0.0.1/team?%68ost=db.example",
        "postgresql://ann@127.0.0.1/team?service=other",
        "postgresql://ann@127.0.0.1,db.example/team",
        "redis://127.0.0.1/0",
    ],
)
def test_beyond_this_machine_tls_is_checked(url: str) -> None:
    """A server elsewhere is not spoken to without a checked certificate, however it is named."""
    with pytest.raises(UsageError):
        team_address(url, timeout_s=1, setting="shared.memories_url")


@pytest.mark.parametrize(
    ("url", "option"),
    [
        ("postgresql://a@127.0.0.1/t", ("hostaddr", "127.0.0.1")),
        ("postgresql://a@localhost/t", ("hostaddr", "127.0.0.1")),
        ("postgresql://a@db.example/t", ("sslmode", "verify-full")),
        ("postgresql://a@db.example/t?sslmode=verify-ca&sslrootcert=x", ("sslrootcert", "x")),
    ],
)
def test_a_safe_url_is_taken_whatever_the_environment_says(
    url: str, option: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On loopback the address is fixed; elsewhere a checked certificate is the default."""
    monkeypatch.setenv("PGHOSTADDR", "203.0.113.7")
    monkeypatch.setenv("PGSSLMODE", "disable")
    address = team_address(url, timeout_s=1, setting="shared.memories_url")
    name, value = option
    assert connection_terms(address, conninfo_to_dict(url))[name] == value


def test_a_service_of_the_environment_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """libpq reads `PGSERVICE` for every connection; where it names nothing, the error says what to
    unset."""
    monkeypatch.setenv("PGSERVICE", "nowhere")
    address = team_address("postgresql://ann@127.0.0.1:1/team", timeout_s=2, setting="x")
    with pytest.raises(SharedUnavailable, match="PGSERVICE"), connected(address):
        pass


@pytest.mark.parametrize(
    "line",
    [
        'memories = "write"',
        'memories_url = "postgresql://evil.example/x"',
        'kinds = ["failure"]',
        f'key = "{KEY}"',
        'tenant = "umbra"',
    ],
)
def test_a_cloned_repository_switches_nothing_on(tmp_path: Path, line: str) -> None:
    """What a repository's own file says of the team is ignored with a warning."""
    (tmp_path / ".xscore.toml").write_text(f"[shared]\n{line}\n")
    loaded = load_settings(repo_root=tmp_path, user_file=None, environ={})
    assert loaded.settings.shared == SharedSettings()
    assert loaded.warnings


@pytest.mark.parametrize("login", ["ann; DROP TABLE x", 'a"b', "a'b", "", "a" * 64, "a\nb"])
def test_a_login_is_a_plain_name(login: str) -> None:
    """Nothing else gets into the SQL of the setup."""
    with pytest.raises(UsageError):
        setup_sql("acme", [login], database="team")


def test_a_member_s_key_is_everyone_s_topic() -> None:
    """Keys of members are kept apart, and compared as one."""
    key = member_key("orm", "0123456789abcdef" * 2)
    assert key != "orm" and key_of_all_members(key) == "orm"
    assert member_key("", "0123456789abcdef" * 2) == ""


def test_a_plain_start_loads_no_driver() -> None:
    """The settings of a team alone load neither its package nor a driver."""
    code = (
        "import sys; from xscore.pipeline import build, turn; from xscore.settings import Settings;"
        " print([m for m in sys.modules if 'psycopg' in m or 'cryptography' in m or '.team' in m])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_url_that_the_driver_refuses_is_shown_without_its_password() -> None:
    """The driver's own message would repeat the URL."""
    url = "postgresql://maria:pa%zzss@127.0.0.1/t"
    address = team_address(url, timeout_s=1, setting="shared.memories_url")
    with pytest.raises(UsageError) as refused, connected(address):
        pass
    shown = f"{refused.value.message} {refused.value.hint}"
    assert "zzss" not in shown and "maria" not in shown
