"""Passwords in sentences and settings: what tells one is redacted, what speaks of one stays."""

import pytest

from tests.store.generated_secrets import PROSE, SAID
from xscore.store.redaction import find_literals, redact


@pytest.mark.parametrize("form", PROSE)
@pytest.mark.parametrize("secret", SAID)
def test_a_password_told_in_a_sentence_is_found(form: str, secret: str) -> None:
    """P01: a password stated in a memory, a task or a settings file is redacted."""
    redacted = redact(form.format(secret), prose=True)
    assert secret not in redacted.text and redacted.count == 1, redacted.text


ONLY_PASSWORDS = [
    "PGPASSWORD={}",
    "PGPASSWORD={} psql -h db",
    "export MYSQL_PWD='{}'",
    "SSHPASS={} sshpass -e ssh me@host",
    'env["REDISCLI_AUTH"] = "{}"',
    "      PGPASSWORD: {}",
    "ansible_become_pass: {}",
    "ansible_password: '{}'",
    "web1 ansible_host=10.0.0.7 ansible_ssh_pass={} ansible_user=me",
    "ansible_winrm_password = {}",
]


@pytest.mark.parametrize("form", ONLY_PASSWORDS)
@pytest.mark.parametrize("secret", ["x", "q7", "root", "hunter2", "Kq7v9ZtR2"])
def test_what_only_names_a_password_takes_any_value(form: str, secret: str) -> None:
    """A variable that only a program's password has (libpq, MySQL, Ansible) is redacted however
    short."""
    assert redact(form.format(secret)).text == form.format("<SECRET:password>")


@pytest.mark.parametrize("form", ONLY_PASSWORDS)
@pytest.mark.parametrize(
    "reference",
    ["$DB_PASS", "${X}", "{{ vault_pass }}", "<password>", "%PW%", "password", "***"],
)
def test_a_reference_to_a_password_is_none(form: str, reference: str) -> None:
    """With the same names a variable, a template or a placeholder stays."""
    assert redact(form.format(reference)).text == form.format(reference)


@pytest.mark.parametrize(
    "text",
    [
        "ansible_become_pass: !vault |",
        "ansible_ssh_pass: the password of the user",
        "PGPASSWORD: read by libpq",
        "if 'PGPASSWORD' in os.environ:",
        "os.environ['PGPASSWORD'] = settings.db_password",
        "unset PGPASSWORD",
        "dict(PGPASSWORD=pw, PGHOST=host)",
        "build 0123456789abcdef0123456789abcdef-01234567-89abcdef-0",
        "0123456789abcdef0123456789abcdef01234567-1234567-12345678",
    ],
)
def test_what_speaks_of_such_a_password_stays(text: str) -> None:
    """Prose, lookups and arguments that are variables; digests that are longer than a key."""
    assert redact(text).text == text


@pytest.mark.parametrize(
    "line",
    [
        "password: pa$$eTrVNxQ",
        "password: paSSeTrVNqz",
        "password=letmeinplease",
        "db.password=tigerlily",
        "DATABASE_URL=postgres://app:tigerlily@db/prod",
        "postgres://app:tigerlily@db.corp.io/prod",
        "https://me:h7x9qwer@localhost/x",
    ],
)
def test_unquoted_values_of_settings_files_are_found(line: str) -> None:
    """P01: unquoted values in `.yaml`, `.ini`, `.properties` and `.env` are redacted."""
    assert redact(line).count == 1
    assert redact(f"[db]\nport=5\n{line}\nuser=me\n").count == 1


@pytest.mark.parametrize(
    "line",
    [
        "f(password=Summer2024Pass, once=True)",
        "f(password: S0mm3rT1me2024, once=True)",
        "password: Sommer2024",
        "DB_PASS=Sommer2024",
        "curl -u bob:hunter2 https://x.org",
        "DB_PASSWORD: CompanyPassword7",
        "export DB_PASSWORD=Summer_pass24",
        "spring.datasource.password=Secret_Acme1",
        "Server=x;User Id=sa;Password=Secret_Acme1;",
        "password: web3Dragon",
        "--password utf8Horse_battery",
    ],
)
def test_a_password_that_could_be_a_name_is_found(line: str) -> None:
    """Digits make a name only where they belong to a known algorithm, with words of which types
    are named."""
    assert redact(line).types == redact(line, prose=True).types == ("password",)


@pytest.mark.parametrize("space", ["\xa0", "\u2003", "\u202f", "\u3000", "\u200b", "\xad"])
def test_a_space_of_another_width_hides_no_password(space: str) -> None:
    """Pages and word processors write them; the text keeps its own."""
    line = f'price: 9{space}EUR; password{space}={space}"Tr0ub4dor&3xyz"'
    redacted = redact(line, prose=True)
    assert redacted.count == 1 and redacted.text.startswith(
        f"price: 9{space}EUR; password{space}="
    )
    assert "Tr0ub4dor" not in redacted.text
    assert not find_literals([line], prose=True).is_clean


def test_the_port_of_a_database_is_no_password() -> None:
    """`-P` is a port, `-p` a password."""
    line = "mysql -h db -P3306 -uroot -p{} shop"
    assert redact(line.format("Hunter22x")).text == line.format("<SECRET:password>")


@pytest.mark.parametrize(
    "line", ["password: Uint8Array", "f(token: OAuth2Token, salt: string)"]
)
def test_types_stay_in_documents(line: str) -> None:
    """A README shows signatures, too."""
    assert redact(line, prose=True).text == line


NO_SECRET_SAID = [
    "the password is required",
    "The password is hashed with bcrypt.",
    "The password is stored in Vault, and the token is refreshed every hour.",
    "the password is wrong.",
    "password is always sha256.",
    "The password is 12 characters long",
    "Reset password: click the link",
    "the password is case-sensitive.",
    "the password is the user's birthday",
    "the secret to success is practice",
    "password was lost",
    "connect(password=pw)",
    "password=getpass()",
]


@pytest.mark.parametrize("text", NO_SECRET_SAID)
def test_sentences_about_passwords_are_left_alone(text: str) -> None:
    """Rules for passwords, and where they are kept, are not redacted."""
    assert redact(text, prose=True).text == text
