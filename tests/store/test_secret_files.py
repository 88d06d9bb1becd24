"""Files that are made to hold secrets stay out of the index; those that only sound so are read."""

import pytest

from xscore.store.redaction import is_secret_file


@pytest.mark.parametrize(
    "name",
    [
        ".env",
        ".env.local",
        ".env.example",
        "deploy/.env.production",
        "prod.env",
        ".envrc",
        "server.pem",
        "tls/server.key",
        "a.p12",
        "a.pfx",
        "a.jks",
        "debug.keystore",
        "id_rsa",
        "id_ed25519",
        "id_ed25519_sk.pub",
        "home/.ssh/id_ecdsa.bak",
        ".npmrc",
        ".pypirc",
        ".netrc",
        "_netrc",
        "Vault.KDBX",
        ".aws/credentials",
        "credentials.json",
        ".git-credentials",
        ".htpasswd",
        "service-account-prod.json",
        "secrets.yaml",
        "terraform.tfstate",
        ".docker/config.json",
        "x\\.env",
        ".bash_history",
        ".zsh_history",
        ".python_history",
        ".psql_history",
        ".node_repl_history",
        ".ssh/config",
        "me/.ssh/known_hosts",
        ".gnupg/gpg.conf",
        ".aws/sso/cache/a.json",
        ".kube/cache/a",
        ".viminfo",
    ],
)
def test_files_of_secrets_stay_out(name: str) -> None:
    """Files meant for secrets are recognised by name, in any folder and case (P02)."""
    assert is_secret_file(name)


@pytest.mark.parametrize(
    "name",
    [
        "environment.py",
        "env.py",
        "keys.py",
        "id_map.py",
        "id_utils.ts",
        "identity.go",
        "config.json",
        "src/config.json",
        "credentials.py",
        "docs/credentials.md",
        "keyboard.js",
        "secrets.toml",
        "monkey.py",
        "README.md",
        "pem.py",
        "src/history.py",
        "command_history",
        "docs/ssh/config",
        "kube/config.yaml",
    ],
)
def test_other_files_are_indexed(name: str) -> None:
    """Code and documents about secrets are indexed normally."""
    assert not is_secret_file(name)
