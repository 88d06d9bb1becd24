"""Hosts, and what follows from their being this machine."""

import pytest

from xscore.platform.errors import UsageError
from xscore.providers.hosts import default_concurrency, host_deadline_s, host_of, is_loopback


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://api.openai.com/v1", "api.openai.com"),
        ("http://LOCALHOST:11434/v1/", "localhost:11434"),
        ("http://[::1]:8080/v1", "[::1]:8080"),
        ("https://router.example/v1?key=secret", "router.example"),
    ],
)
def test_a_host_is_name_and_port(url: str, host: str) -> None:
    """Only name and port are shown of a base URL."""
    assert host_of(url) == host


@pytest.mark.parametrize("url", ["http://[::1", "ftp://x", "http://", "http://a:99999/", "http://u:p@x/"])
def test_what_is_no_base_url_is_said(url: str) -> None:
    """Whatever stands there, it is a usage error in words."""
    with pytest.raises(UsageError, match=r"openai\.base_url"):
        host_of(url)


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:1", "127.0.0.1:80", "127.9.9.9", "[::1]:8080", "a.localhost", "-"]
)
def test_this_machine_is_recognised(host: str) -> None:
    """Every loopback name and address counts as this machine."""
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["api.openai.com", "localhost.example.com", "127.0.0.1.nip.io", "10.0.0.1", "0.0.0.0:80", "notlocalhost"]
)
def test_another_machine_is_not_taken_for_this_one(host: str) -> None:
    """Names that only look like loopback are remote: they are priced, and need a key."""
    assert not is_loopback(host)


def test_a_local_model_is_given_time_and_few_calls() -> None:
    """A loopback host gets four calls in flight and five times the deadline."""
    assert (default_concurrency("localhost:1"), default_concurrency("api.openai.com")) == (4, 64)
    assert (host_deadline_s(60, "localhost:1"), host_deadline_s(60, "api.openai.com")) == (300, 60)
