"""Secrets generated at run time, one of every kind, so that no file of this project contains
one."""

import base64
import random
import re
import string
import tomllib
import uuid
from pathlib import Path

UPPER = string.ascii_uppercase + string.digits
LETTERS = string.ascii_letters + string.digits
HEX = "0123456789abcdef"
BASE64 = LETTERS + "+/"
SECRET = "sk-proj-" + "Zq8Lw3Rt6Yb1Nc5Xd9Kf2Hj7Ma4Ps0Vg"


class SecretGenerator:
    """Makes secrets from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def text(self, size: int, letters: str = LETTERS) -> str:
        """Return random characters, with at least one letter and one digit."""
        return "a7" + "".join(self._random.choice(letters) for _ in range(size - 2))

    def upper(self, size: int) -> str:
        """Return random capitals and digits."""
        return "Q7" + "".join(self._random.choice(UPPER) for _ in range(size - 2))

    def password(self) -> str:
        """Return a typical human password."""
        return self.text(9, LETTERS + "!_+*") + "Z"

    def pem(self, kind: str, lines: int = 6) -> tuple[str, list[str]]:
        """Return a PEM block and the lines of its body."""
        body = [self.text(64, BASE64) for _ in range(lines)] + [self.text(30, BASE64) + "=="]
        dashes = "-" * 5
        return "\n".join(
            [f"{dashes}BEGIN {kind}{dashes}", *body, f"{dashes}END {kind}{dashes}"]
        ), body


def provider_keys(forge: SecretGenerator) -> dict[str, str]:
    """Type -> a key in that provider's form."""
    return {
        "openai_key": "sk-" + forge.text(48),
        "openai_key project": "sk-proj-" + forge.text(60, LETTERS + "_-"),
        "anthropic_key": "sk-ant-api03-" + forge.text(80, LETTERS + "_-"),
        "aws_access_key": "AKIA" + forge.upper(16),
        "aws_access_key temporary": "ASIA" + forge.upper(16),
        "github_token": "ghp_" + forge.text(36),
        "github_token oauth": "gho_" + forge.text(36),
        "github_token fine": "github_pat_" + forge.text(22) + "_" + forge.text(59),
        "gitlab_token": "glpat-" + forge.text(20),
        "slack_token": "xoxb-" + forge.text(12, string.digits) + "-" + forge.text(24),
        "google_key": "AIza" + forge.text(35),
        "stripe_key": "sk_live_" + forge.text(24),
        "stripe_key restricted": "rk_live_" + forge.text(24),
        "npm_token": "npm_" + forge.text(36),
        "pypi_token": "pypi-AgEIcHlwaS5vcmc" + forge.text(60),
        "twilio_key": "SK" + forge.text(32, HEX),
        "sendgrid_key": "SG." + forge.text(22) + "." + forge.text(43),
        "huggingface_token": "hf_" + forge.text(34),
        "azure_key": "AccountKey=" + forge.text(86, BASE64) + "==",
        "digitalocean_token": "dop_v1_" + forge.text(64, HEX),
        "jwt": "eyJ" + forge.text(20) + ".eyJ" + forge.text(40) + "." + forge.text(43),
        "vault_token": "hvs." + forge.text(40),
        "sentry_key": "https://" + forge.text(32, HEX) + "@o1.ingest.sentry.io/12",
        "telegram_token": "1234567890:AA" + forge.text(33),
    }


ASSIGNMENTS = [
    "machine github.com login me password {}",
    'API_KEY = "{}"',
    "api_key='{}',",
    'connect(user="me", password="{}")',
    'self.db_password: str = "{}"',
    '"client_secret": "{}",',
    "{{'SECRET_KEY': '{}'}}",
    "os.environ['AUTH_TOKEN'] = '{}'",
    'os.environ.setdefault("SECRET_KEY", "{}")',
    "define('DB_PASSWORD', '{}');",
    'const apiKey = "{}";',
    "let accessToken: string = `{}`;",
    'password := "{}"',
    '#define WIFI_PASSWORD "{}"',
    "DB_PASSWORD={}",
    "export API_TOKEN={}",
    "ENV SECRET_KEY={}",
    "  password: {}",
    "- db_password: {}  # production",
    "client_secret = {}",
    'client_secret = "{}"',
    "spring.datasource.password={}",
    "+API_KEY={}",
    "<password>{}</password>",
    "login --password {} --verbose",
    "host=db user=me password={} dbname=x",
    "Server=db;User Id=me;Password={};",
    r'"{{\"password\": \"{}\"}}"',
    'if token_secret == "{}":',
    'api_key = """{}"""',
    'curl -H "Authorization: Bearer {}"',
    '"Authorization": "Basic {}"',
    "https://me:{}@example.org/x.git",
    "postgresql://me:{}@db:5432/x",
    "//registry.npmjs.org/:_authToken={}",
    "ENV API_TOKEN {}",
    "log in with password: {}, then go on",
    "* password: {}",
    "curl -u me:{} https://example.org",
]
"""Ways to write down a secret without a recognisable form."""

LETTERS_OF = {
    "a": LETTERS,
    "b": BASE64,
    "d": string.digits,
    "h": HEX,
    "l": string.ascii_lowercase + string.digits,
    "u": UPPER,
    "w": LETTERS + "-_",
}
"""Kind of a blank of `families.toml` -> what fills it."""


def families(part: str) -> dict[str, str]:
    """Family -> form, of a part of `families.toml`."""
    forms: dict[str, dict[str, str]] = tomllib.loads(
        Path(__file__).with_name("families.toml").read_text("utf-8")
    )
    return forms[part]


def filled(form: str, seed: int) -> tuple[str, list[str]]:
    """Fill the blanks of a form; return it and the secret parts, which are small letters' blanks of
    8 characters on."""
    chance = random.Random(f"{form} {seed}")
    parts: list[str] = []

    def fill(blank: re.Match[str]) -> str:
        kind, size = blank[1], int(blank[2] or 0)
        if kind == "uuid":
            secret = str(uuid.UUID(int=chance.getrandbits(128), version=4))
        elif kind in ("begin", "end"):
            return "-" * 5 + kind.upper() + " "
        elif kind.lower() not in LETTERS_OF and kind != "discord":
            return blank[0]
        elif kind == "discord":
            secret = base64.b64encode(str(chance.randrange(10**14, 10**15)).encode()).decode()
        else:
            secret = "".join(chance.choice(LETTERS_OF[kind.lower()]) for _ in range(size))
        if len(secret) >= 8 and kind.islower():
            parts.append(secret)
        return secret

    text = re.sub(r"\{([A-Za-z]+?)(\d*)\}", fill, form)
    return text.replace("{{", "{").replace("}}", "}"), parts


PROSE = [
    "use password={} for staging",
    "log in with password={}, then go on",
    "the db password is {}",
    "The password is {} and the user is bob.",
    "the staging password for bob is {} on host db1",
    "the password was changed to {}!",
    'The password is "{}"',
    "db password: {}, user: bob",
    "  password = {}",
]
SAID = [
    "hunter2",
    "tigerlily",
    "letmeinplease",
    "correct-horse",
    "Winter2024!x",
    "pa$$eTrVNxQ",
    "471182x",
]
