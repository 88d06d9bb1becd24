"""`compose.yml` says what docs/shared.md asks of the servers, and opens nothing to the network."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
DOCS = (ROOT / "docs" / "shared.md").read_text()


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    """The services, by name."""
    read: dict[str, Any] = yaml.safe_load((ROOT / "compose.yml").read_text())
    assert set(read["volumes"]) == {"postgres", "redis"}
    services: dict[str, Any] = read["services"]
    return services


def test_only_the_two_servers_run_and_listen_on_this_machine(services: dict[str, Any]) -> None:
    """Nothing of ours is in it; what others reach is a tunnel's or a TLS proxy's to open."""
    assert set(services) == {"postgres", "redis"}
    for name, service in services.items():
        assert service["image"].startswith(("pgvector/pgvector:", "redis:"))
        assert "latest" not in service["image"] and "build" not in service
        for port in service["ports"]:
            assert port.startswith("127.0.0.1:")
        assert service["volumes"] and service["volumes"][0].startswith(f"{name}:")
        assert service["healthcheck"]["test"][0] == "CMD-SHELL"


def test_no_password_is_in_the_file(services: dict[str, Any]) -> None:
    """Both come from the environment, and nothing starts without them."""
    for name, variable in (("postgres", "POSTGRES_PASSWORD"), ("redis", "REDIS_PASSWORD")):
        assert services[name]["environment"][variable].startswith(f"${{{variable}:?")


def test_the_servers_keep_what_the_docs_say(services: dict[str, Any]) -> None:
    """Each setting that the docs ask of a server is set in its command."""
    redis = " ".join(services["redis"]["command"])
    (block,) = re.findall(r"```\n(appendonly yes\n.+?)```", DOCS, re.DOTALL)
    for line in block.strip().splitlines():
        assert f"--{line}" in redis
    postgres = services["postgres"]["command"]
    assert "default_transaction_isolation=read committed" in postgres
    assert "`default_transaction_isolation` must be `read committed`" in DOCS
    assert not [word for word in postgres if word.endswith("=off")]
