"""Secrets: every planted one is found, code about secrets is left alone, and line numbers stay."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cpu_time import assert_growth
from tests.store.generated_secrets import (
    ASSIGNMENTS,
    PROSE,
    SAID,
    SecretGenerator,
    provider_keys,
)
from xscore.store.redaction import find_literals, redact

SEEDS = range(20)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_provider_key_is_found(seed: int) -> None:
    """Keys in a recognisable form are found bare, quoted and in the middle of a line (P01)."""
    for name, key in provider_keys(SecretGenerator(seed)).items():
        secret = key.partition("=")[2] if name == "azure_key" else key
        for line in (key, f'x = "{key}"', f"see {key}, please", f"a\n  f({key!r})\nb"):
            redacted = redact(line)
            assert secret not in redacted.text, (name, line, redacted.text)
            assert redacted.types == (name.partition(" ")[0],), (name, line, redacted.text)
            assert redacted.text.count("\n") == line.count("\n")


@pytest.mark.parametrize(
    "before",
    [
        r"\n",
        r"\t",
        r"\x1b[31m",
        r"\033[1;31m",
        "\x1b[0m",
        r"\u0020",
        r"\x20",
        "%20",
        "-",
        "_",
        "KEY_",
        "=",
        "'",
        "`",
        "é",
    ],
)
def test_a_key_right_behind_an_escape_or_a_sign_is_found(before: str) -> None:
    """Source text writes a line break as two characters; the second is no part of the key behind
    it."""
    for name, key in provider_keys(SecretGenerator(3)).items():
        if name not in ("sentry_key", "telegram_token"):  # their keys are inside
            redacted = redact(f'x = "{before}{key}"').text
            assert redacted.endswith('>"') and key[-12:] not in redacted, (name, redacted)


GLUED = [
    "openai_key classic",
    "anthropic_key",
    "aws_access_key",
    "aws_access_key temporary",
    "github_token",
    "github_token oauth",
    "github_token fine",
    "gitlab_token",
    "slack_token",
    "google_key",
    "npm_token",
    "pypi_token",
    "sendgrid_key",
    "huggingface_token",
    "digitalocean_token",
]


@pytest.mark.parametrize("name", GLUED)
@pytest.mark.parametrize("before", ["x", "key", "KEY", "7", "tokené"])
def test_a_key_glued_to_a_word_is_found(name: str, before: str) -> None:
    """A mark that hardly any word ends with shows a key wherever it is."""
    forge = SecretGenerator(5)
    keys = provider_keys(forge)
    keys["openai_key classic"] = f"sk-{forge.text(20)}T3BlbkFJ{forge.text(20)}"
    redacted = redact(f'x = "{before}{keys[name]}"').text
    assert redacted.startswith(f'x = "{before}<SECRET:')
    assert redacted.endswith('>"')


@pytest.mark.parametrize(
    "text",
    [
        "highs_and_lows_of_the_temperature_in_2024_and_2025",
        "task-1234567890abcdef1234567890abcdef",
        "task-proj-dashboard-of-2024-with-many-words-in-its-long-name",
        "disk_test_507f1f77bcf86cd799439011",
        "EURASIA2024PACIFIC2025REPORT",
        "halfhf_transformers_of_2024_and_of_2025_in_one_name",
    ],
)
def test_a_word_that_ends_like_a_mark_stays(text: str) -> None:
    """Names and ids are no keys because a mark is in them."""
    assert redact(text).text == text


@pytest.mark.parametrize("seed", [1, 2])
def test_a_secret_glued_to_a_fence_is_found(seed: int) -> None:
    """The dashes of `-----END … KEY-----` are no part of a key before or behind them."""
    forge = SecretGenerator(seed)
    block, _ = forge.pem("RSA PRIVATE KEY")
    for name, key in provider_keys(forge).items():
        if key not in redact(f" {key} ").text:
            assert key not in redact(f"{key}{block}{key}").text, name
    assert (
        "hunter2hunter2"
        not in redact(f"password=hunter2hunter2{block}password=hunter2hunter2").text
    )


@pytest.mark.parametrize("form", ASSIGNMENTS)
def test_values_of_secret_names_are_found(form: str) -> None:
    """A literal with a secret-like name is redacted, in every notation (P01)."""
    for seed in SEEDS:
        secret = (
            SecretGenerator(seed).text(20)
            if "Authorization" in form
            else SecretGenerator(seed).password()
        )
        line = form.format(secret)
        redacted = redact(f"before()\n{line}\nafter()")
        assert secret not in redacted.text, (line, redacted.text)
        assert redacted.count == 1, (line, redacted.text)
        assert redacted.text.startswith("before()\n") and redacted.text.endswith("\nafter()")


@pytest.mark.parametrize(
    "kind",
    ["RSA PRIVATE KEY", "PRIVATE KEY", "EC PRIVATE KEY", "OPENSSH PRIVATE KEY", "CERTIFICATE"],
)
def test_pem_blocks_lose_their_bodies(kind: str) -> None:
    """Whole, indented, escaped into one line, or cut by a window: the body is redacted, the lines
    stay."""
    block, body = SecretGenerator(1).pem(kind)
    lines = block.split("\n")
    forms = {
        "whole": f"x = 1\n{block}\ny = 2",
        "indented": "key: |\n" + "\n".join(f"    {line}" for line in lines) + "\nnext: 1",
        "escaped": 'KEY = "' + "\\n".join(lines) + '\\n"\nz = 3',
        "concatenated": (
            "KEY = (\n" + "\n".join(f'    "{line}\\n"' for line in lines) + "\n)\nz = 3"
        ),
        "head": "x = 1\n" + "\n".join(lines[:5]),
        "tail": "\n".join(lines[3:]) + "\nafter = 1",
        "lower case": "\n".join([lines[0].lower(), *lines[1:-1], lines[-1].lower()]),
    }
    for name, text in forms.items():
        redacted = redact(text)
        assert not [line for line in body if line in redacted.text], (name, redacted.text)
        assert redacted.text.count("\n") == text.count("\n"), name
        assert redacted.count == 1, (name, redacted.text)
        for plain_line in ("x = 1", "y = 2", "next: 1", "z = 3", "after = 1"):
            assert (plain_line in redacted.text) == (plain_line in text), (name, plain_line)


INNOCENT = [
    'password = os.environ["DB_PASSWORD"]',
    "password = getpass.getpass()",
    'password = "${DB_PASSWORD}"',
    'password = f"{secret}"',
    'password: "{{ vault_password }}"',
    "password: str",
    "password: Optional[str] = None",
    "    token: Token",
    "    secret: SecretStr",
    "password = user.password",
    "this.password = password;",
    'password = ""',
    'password="password"',
    'api_key = "YOUR_API_KEY"',
    'api_key = "<your key here>"',
    'api_key="xxxxxxxxxxxxxxxx"',
    "PASSWORD_HASHERS = ['django.contrib.auth.hashers.Argon2']",
    'password_field = "pw1_input_x9"',
    "if token == 'NAME' and next_token == \"STRING\":",
    'token_type = "bearer"',
    "SECRET_KEY = config('SECRET_KEY')",
    'primary_key = "user_id_2"',
    'help="The password to log in with."',
    '"password": "Your password must contain at least 8 characters."',
    "password = request.POST['password']",
    "postgresql://user:password@localhost/x",
    "postgresql+psycopg2://scott:tiger@localhost/test",
    "https://user:password123@example.org/",
    "    Use ``https://user:secret-word@proxy.example.com`` or http://me:letmein@localhost:8080.",
    '"Authorization": "Basic dXNlcm5hbWU6cGFzc3dvcmQ=",',
    "password: OAuthToken",
    "    password=getpass",
    "https://${USER}:${TOKEN}@github.com/x",
    "url = f'https://{user}:{password}@{host}'",
    "see https://example.org:8080/a@b",
    "Authorization: Bearer <token>",
    'headers["Authorization"] = f"Bearer {token}"',
    'PEM = re.compile("-----BEGIN PRIVATE KEY-----(.*?)-----END PRIVATE KEY-----")',
    "sk-learn-is-not-a-key-at-all",
    '<div class="lds-sk-circle-fade12-dot3 la_sk-cube-grid_x4">',
    "for key, token in tokens.items(): pass",
    "max_tokens = 4096",
    "request.withCredentials = !!config.withCredentials;",
    "send(request, host=self.host, secret=self._key, limits=limits)",
    "  id-token: write",
    '"pbkdf2-password": "^1.2.1",',
    "--token-file path/to/file",
    'fetch(url, { credentials: "omit" })',
    "credentials: 'same-origin',",
    "changePassword: 'label.change-password',",
    "noMatchPassword: 'message.no-match-password',",
    "export const AUTH_TOKEN = 'shop.auth';",
    'storageKey = "last_clean.json"',
    "private_key: 'server_key.pem'",
    "pakeInit(password: Uint8Array, role: string)",
    "  token: OAuth2Token;",
    "    token: Sha512Hash,",
    "f(password: Base64Password, salt: Buffer)",
    "secret: Ed25519Key",
    "\tPassword: pbkdf2Password,",
    "login(user, password=base64_password, once=True)",
    "login(user, password=user1_password, once=True)",
    "host, port, access_key, secret_key = s3_connection",
    "axios.CancelToken = CancelToken$1;",
    "static constexpr auto secret = kXxh3Secrets + AlgNum;",
    "if (password == user2NamesPassword1) return",
    "a = x; token = tokens; b = y",
    "f(token: crypto::Secp256k1Key, at: u64)",
    "f(secret: K8sServiceAccount, namespace: string)",
    "docker run -u node:node app",
    "mysql -p shop",
    "gh auth login -p https",
]


LANGUAGES_OWN = [
    'dsn := "root:{}@tcp(127.0.0.1:3306)/db"',
    'db, err := sql.Open("mysql", "root:{}@tcp(db:3306)/x")',
    "$db = new PDO('mysql:host=x','root','{}');",
    'curl_setopt($c, CURLOPT_USERPWD, "user:{}");',
    "mysql -uroot -p{} shop",
    "curl -u me:{} https://x.org",
    "sshpass -p {} ssh me@host",
    "docker login -u me -p {} registry.x.org",
    'source.setPassword("{}");',
    "$this->secret = <<<EOT\n{}\nEOT;",
]


@pytest.mark.parametrize("form", LANGUAGES_OWN)
def test_passwords_are_found_where_a_language_has_a_form_of_its_own(form: str) -> None:
    """Go's MySQL driver, PHP, Java and shell; placeholders in the same places are left alone."""
    assert "Kq7v9ZtR2" not in redact(form.format("Kq7v9ZtR2")).text
    assert not redact(form.format("password")).count


@pytest.mark.parametrize("text", INNOCENT)
def test_code_that_speaks_of_secrets_is_left_alone(text: str) -> None:
    """Names, lookups, types, placeholders and prose are no secrets."""
    assert redact(text).text == text


forged = st.integers(0, 10_000).map(SecretGenerator)
fragment = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        [
            *INNOCENT,
            "<SECRET:password>",
            "<SECRET:",
            'password = "',
            "'",
            '"',
            "\\",
            "\n",
            "-----",
            "://",
            "@",
            "=",
        ]
    ),
    st.tuples(st.sampled_from(PROSE), st.sampled_from(SAID)).map(
        lambda pair: pair[0].format(pair[1])
    ),
    st.tuples(forged, st.sampled_from(ASSIGNMENTS)).map(
        lambda pair: pair[1].format(pair[0].password())
    ),
    forged.map(lambda forge: forge.pem("PRIVATE KEY")[0]),
    forged.map(lambda forge: " ".join(provider_keys(forge).values())),
    st.sampled_from(
        ["İ", "ß", "pass\u212aey api_\u212aey=", "\ud800", "\x00", "\r\n", "\u2028"]
    ),
    st.sampled_from(
        ["\x1b[31m", "\x1b", "\u0301", "user = bob, password = ", "password=" * 40]
    ),
)


@given(
    texts=st.lists(st.lists(fragment, max_size=4).map("".join), max_size=4), prose=st.booleans()
)
def test_texts_searched_together_lose_what_each_would_lose(
    texts: list[str], prose: bool
) -> None:
    """The literals of a whole file apply to its parts: exactly the same is redacted."""
    literals = find_literals(texts, prose=prose)
    assert [redact(text, prose=prose, literals=literals) for text in texts] == [
        redact(text, prose=prose) for text in texts
    ]


@pytest.mark.parametrize("prose", [False, True])
@given(text=st.lists(fragment, max_size=8).map("".join))
def test_twice_is_once_and_lines_stay(text: str, prose: bool) -> None:
    """A second pass changes nothing, and the number of lines never changes."""
    once = redact(text, prose=prose)
    assert redact(once.text, prose=prose).text == once.text
    assert once.text.count("\n") == text.count("\n")
    assert (once.count == 0) == (once.text == text)


ADVERSARIAL = [
    "password=",
    'password="',
    "password='password=\"",
    'password = "\\',
    "://a:",
    "://" + "a" * 90,
    "-----BEGIN PRIVATE KEY-----",
    "-----END PRIVATE KEY-----\n",
    "-----BEGIN PRIVATE KEY-----\n" + "A" * 64 + "\n",
    "A" * 64 + "\n",
    "eyJ" + "a" * 60,
    "eyJaaaaaaaaa.eyJaaaaaaaaa",
    "authorization: bearer ",
    "AKIA",
    "sk-",
    "key key_key-key.",
    "aws " * 10,
    "define(",
    "host=x password=",
    "<password>",
    "password: a" + " " * 50,
    " " * 100 + "\n",
    "x" * 100 + "password",
    "--password-",
    "password is ",
    "password for x ",
    "password=\u200b",
    "p\u200bassword=x1\u200b",
    "password\x1b[0m=",
    "\x1b[",
    "password\u200b=token\u200b=secret\u200b=",
    "user id password = token ",
]


@pytest.mark.parametrize("unit", ADVERSARIAL)
def test_hostile_text_takes_linear_time(unit: str) -> None:
    """Eight times the text takes about eight times the CPU, not sixty-four."""
    assert_growth(
        lambda size: redact(unit * (size // len(unit) + 1), prose=True),
        small=4_000,
        large=32_000,
        at_most=24,
    )


@pytest.mark.parametrize(
    "text",
    [
        "user = bob, password = {}",
        "user = bob, password = {}, host = db",
        "connect(user = bob, password= {}, x = 1)",
        "host = db user = bob password = {} dbname = x",
        "user=bob; password ={}; x",
        "a, api_key = {} b",
    ],
)
def test_blanks_around_the_sign_hide_nothing_inside_a_line(text: str) -> None:
    """They hide nothing there, as at the start of a line."""
    for prose in (False, True):
        redacted = redact(text.format("hunter2Xy9kk"), prose=prose).text
        assert "hunter2" not in redacted and redacted.count("<SECRET:") == 1, redacted


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE USER bob WITH PASSWORD '{}';",
        "alter role bob encrypted password '{}';",
        "CREATE ROLE bob\n  WITH LOGIN\n  PASSWORD '{}'\n;",
        "CREATE USER MAPPING FOR bob SERVER s OPTIONS (user 'b', password '{}');",
        "GRANT ALL ON *.* TO 'bob'@'%' IDENTIFIED BY '{}'",
        "CREATE USER bob IDENTIFIED WITH mysql_native_password BY '{}'",
        "SET PASSWORD FOR 'bob'@'%' = '{}';",
        "SET PASSWORD FOR bob = PASSWORD('{}');",
    ],
)
def test_passwords_in_sql_are_found(statement: str) -> None:
    """Statements give one without a sign between the name and the value."""
    for prose in (False, True):
        redacted = redact(statement.format("hunter2Xy9kk"), prose=prose).text
        assert redacted == statement.format("<SECRET:password>")
        for placeholder in ("%s", "${PASSWORD}", "password"):
            assert redact(statement.format(placeholder), prose=prose).count == 0


@pytest.mark.parametrize(
    "text",
    [
        "users are identified by 'email'",
        "type password 'Enter your password'",
        "if field password 'confirm' is empty",
    ],
)
def test_words_of_sql_in_a_sentence_are_no_secret(text: str) -> None:
    """What is no statement stays."""
    assert redact(text, prose=True).count == 0


CHAINS = [
    "password=",
    "password=\u200b",
    "password=\xad",
    "&password=",
    "://auth&secret=",
    "ghp_" + "Zq8" * 9 + "sess=",
    "password: ",
    "pwd is ",
]


@pytest.mark.parametrize("unit", CHAINS)
@pytest.mark.parametrize("times", [31, 33, 600, 4_000])
def test_no_chain_of_names_outlasts_the_passes(unit: str, times: int) -> None:
    """What follows the last name of a long word is redacted, and a second time changes nothing."""
    once = redact(f"{unit * times}password=hunter2Xy9kk", prose=True)
    assert "hunter2" not in once.text
    assert redact(once.text, prose=True).count == 0


def test_colors_within_a_word_take_no_further_passes() -> None:
    """What is found takes the rest of its word, colors included: otherwise each pass would find
    a few names more."""
    chain = "\x1b[31mpassword\x1b[0m=token=" * 1_000
    once = redact(f"{chain}password=hunter2Xy9kk", prose=True)
    assert "hunter2" not in once.text
    # Nineteen findings took ten passes.
    assert once.count <= 4


@pytest.mark.parametrize("times", [1, 31, 600])
def test_a_secret_at_the_end_of_a_long_address_is_found(times: int) -> None:
    """However many words before it name one: an address has no blank."""
    address = "https://x.org/?" + "key=a&" * times + "access_token=hunter2Xy9kkQ1"
    assert redact(f"see {address} there").text.endswith("access_token=<SECRET:token> there")


UNSEEN = [
    *("\u200b", "\u200d", "\u2060", "\xad", "\u202e", "\ufe0f", "\u0301", "\u20d2"),
    *("\x00", "\x08", "\x1b", "\x7f", "\x1b[31m", "\x1b[38;5;9m"),
]
"""Nothing of it takes up room of its own: controls, colors of terminals, marks on other letters."""


@pytest.mark.parametrize("unseen", UNSEEN)
def test_nothing_unseen_parts_a_secret_or_its_name(unseen: str) -> None:
    """The rules see through it wherever it is, alone and among other texts; clean text with it
    stays as it is."""
    token = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
    texts = [
        f'pass{unseen}word = "hunter2hunter2XyZ81"\nnext = 1',
        f"see {token[:9]}{unseen}{token[9:30]}{unseen}{token[30:]} there",
        f"all is{unseen} well",
    ]
    together = find_literals(texts, prose=False)
    for literals in (None, together):
        named, keyed, clean = (redact(text, literals=literals) for text in texts)
        assert named.text == f'pass{unseen}word = "<SECRET:password>"\nnext = 1'
        assert keyed.text == "see <SECRET:github_token> there"
        assert (clean.text, clean.count) == (texts[2], 0)
    assert find_literals(texts[2:], prose=False).is_clean


@pytest.mark.parametrize(
    "unseen", ["\u200b", "\u200f", "\xad", "\ufeff", "\x00", "\x1b[1m", "\u0301"]
)
def test_nothing_unseen_hides_a_private_key(unseen: str) -> None:
    """Neither in the fence above it nor in its body, closed or cut off."""
    body = "MIIEpAIBAAKCAQEA7bq8Xz9YkQh3P0sVn1mW2rT4uE6oL8iJ"
    fence = f"-----BEGIN RSA PRI{unseen}VATE KEY-----"
    halves = f"{body[:9]}{unseen}{body[9:]}"
    for text in (
        f"{fence}\n{body}\n-----END RSA PRIVATE KEY-----\nnext",
        f"{fence}\n{halves}\nnext one",
    ):
        for literals in (None, find_literals([text], prose=False)):
            redacted = redact(text, literals=literals)
            assert redacted.types == ("private_key",)
            assert body[9:20] not in redacted.text
            assert redacted.text.count("\n") == text.count("\n")


@pytest.mark.parametrize(
    "text",
    [
        "AKIA\nIOSFODNN7EXAMPLQ",
        "ghp_16C7e42F292c6912E7710c  \n  838347Ae178B4a",
        "sk-ant-api03-AbCdEfGhIjKlMnOpQrStUvWx\nYz0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJ",
    ],
)
def test_a_secret_goes_on_in_the_next_line_of_a_page(text: str) -> None:
    """Only where lines end for want of room; words of the next line are none of it."""
    page = f"The key is {text} and\nThe rest is plain."
    redacted = redact(page, across_lines=True)
    assert redacted.count == 1
    assert redacted.text.startswith("The key is <SECRET:")
    assert redacted.text.endswith(">\n and\nThe rest is plain.")
    assert redact(redacted.text, across_lines=True).text == redacted.text
    closed = redact("sk-ant-api03-AbCdEfGhIjKlMnOpQrStUvWx012345\nThe rest", across_lines=True)
    assert closed.text.endswith("\nThe rest")
