"""The machine's proxies and certificates: a real forward proxy and a real TLS server, both on
loopback."""

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from tests.providers.conftest import Connected, MakeRequest
from tests.servers import OpenAIServer
from tests.servers.proxy import ForwardProxy
from xscore.platform.errors import AuthenticationFailed, TlsFailed, Unreachable, UsageError
from xscore.providers.attempts import may_retry
from xscore.providers.transport import Route, route_to

ELSEWHERE = "http://models.example.test/v1"
"""A name unknown to DNS: only the proxy is ever connected to."""
KEY = "sk-test-0123456789abcdef"
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove proxies and certificates from the environment."""
    for name in (
        *PROXIES,
        *map(str.lower, PROXIES),
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "REQUESTS_CA_BUNDLE",
    ):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def authority() -> trustme.CA:
    """An unknown certificate authority."""
    return trustme.CA()


@pytest.fixture
def proxy(server: OpenAIServer) -> Iterator[ForwardProxy]:
    """A proxy that sends every name to the server."""
    with ForwardProxy(server.host) as running:
        yield running


@pytest.fixture
def secure(authority: trustme.CA) -> Iterator[OpenAIServer]:
    """A TLS server, as 127.0.0.1 and as models.example.test."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1", "models.example.test").configure_cert(context)
    with OpenAIServer(tls=context) as running:
        yield running


def trust(authority: trustme.CA, place: Path) -> str:
    """Write an authority's certificate."""
    file = place / "authority.pem"
    authority.cert_pem.write_to_path(str(file))
    return str(file)


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
async def test_a_call_goes_through_the_proxy(
    proxy: ForwardProxy,
    judging: MakeRequest,
    connected: Connected,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    """A remote host is reached through the environment's proxy, which resolves its name."""
    monkeypatch.setenv(name, proxy.url)
    async with connected(ELSEWHERE, key=KEY) as provider:
        assert (await provider.complete(judging())).text
    assert proxy.asked == [f"POST {ELSEWHERE}/chat/completions"]


async def test_the_proxys_password_goes_to_the_proxy(
    proxy: ForwardProxy,
    judging: MakeRequest,
    connected: Connected,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Name and password in the proxy's URL are sent to it, and shown nowhere."""
    monkeypatch.setenv("HTTP_PROXY", f"http://ann:secret@{proxy.host}")
    async with connected(ELSEWHERE, key=KEY) as provider:
        await provider.complete(judging())
    assert proxy.authorizations == {"Basic YW5uOnNlY3JldA=="}
    assert route_to(ELSEWHERE).proxy_host == proxy.host


async def test_a_loopback_host_never_goes_through_a_proxy(
    server: OpenAIServer,
    proxy: ForwardProxy,
    judging: MakeRequest,
    connected: Connected,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Text for a local server stays on this machine, with every proxy variable set."""
    for name in PROXIES[:3]:
        monkeypatch.setenv(name, proxy.url)
    async with connected(server.url) as provider:
        await provider.complete(judging())
    assert proxy.asked == []
    assert server.counts.requests == 1


async def test_tls_goes_through_a_tunnel(
    secure: OpenAIServer,
    authority: trustme.CA,
    judging: MakeRequest,
    connected: Connected,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """https through a proxy is a CONNECT: the proxy cannot read it."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", trust(authority, tmp_path))
    with ForwardProxy(secure.host) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        async with connected("https://models.example.test/v1", key=KEY) as provider:
            assert (await provider.complete(judging())).text
    assert proxy.asked == ["CONNECT models.example.test:443"]
    assert secure.counts.requests == 1


@pytest.mark.parametrize("user", ["", "ann:secret@"])
@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
async def test_a_proxy_never_gets_the_key_of_a_host_behind_tls(
    secure: OpenAIServer,
    authority: trustme.CA,
    judging: MakeRequest,
    connected: Connected,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    user: str,
    is_streamed: bool,
) -> None:
    """It does not get the user's own headers either; the host gets both."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", trust(authority, tmp_path))
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Own: own-value")
    with ForwardProxy(secure.host) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://{user}{proxy.host}")
        async with connected("https://models.example.test/v1", key=KEY) as provider:
            await provider.complete(judging(), print if is_streamed else None)
    (head,) = proxy.heads
    assert head.startswith("CONNECT")
    assert KEY not in head
    assert "own-value" not in head
    assert ("Basic YW5uOnNlY3JldA==" in proxy.authorizations) is bool(user)
    (received,) = secure.counts.headers
    assert received["authorization"] == f"Bearer {KEY}"
    assert received["x-own"] == "own-value"


@pytest.mark.parametrize("value", ["X: a\rb", "X\x01Y: a"])
async def test_a_header_of_the_environment_that_cannot_be_sent_is_a_usage_error(
    server: OpenAIServer,
    judging: MakeRequest,
    connected: Connected,
    monkeypatch: pytest.MonkeyPatch,
    value: str,
) -> None:
    """The error names its variable."""
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", value)
    async with connected(server.url, key=KEY) as provider:
        with pytest.raises(UsageError, match="OPENAI_CUSTOM_HEADERS"):
            await provider.complete(judging())
    assert server.counts.requests == 0


@pytest.mark.parametrize("status", [407, 403])
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_proxy_that_refuses_says_so(
    proxy: ForwardProxy,
    judging: MakeRequest,
    connected: Connected,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    scheme: str,
) -> None:
    """407 and 403 of a proxy stop the run at once; the message names the proxy, without its
    password."""
    proxy.refuse_with = status
    monkeypatch.setenv("ALL_PROXY", f"http://ann:secret@{proxy.host}")
    async with connected(ELSEWHERE.replace("http", scheme), key=KEY) as provider:
        with pytest.raises(AuthenticationFailed) as caught:
            await provider.complete(judging())
    message = f"{caught.value} {caught.value.hint}"
    assert str(status) in message
    assert "secret" not in message
    assert len(proxy.asked) == 1
    # There a proxy's 403 cannot be told from the host's own.
    if (scheme, status) != ("http", 403):
        assert proxy.host in message
        assert "PROXY" in message


async def test_a_proxy_that_is_not_there_says_so(
    judging: MakeRequest, connected: Connected, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unreachable proxy is named, and nothing was sent."""
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    async with connected("https://models.example.test/v1", key=KEY) as provider:
        with pytest.raises(Unreachable, match=r"127\.0\.0\.1:9") as caught:
            await provider.complete(judging())
    assert "NO_PROXY" in caught.value.hint


async def test_an_unknown_authority_is_named_as_the_cause(
    secure: OpenAIServer, judging: MakeRequest, connected: Connected
) -> None:
    """An untrusted certificate is not a network error: the hint says what to set; nothing was
    sent."""
    async with connected(secure.url, key=KEY) as provider:
        with pytest.raises(Unreachable, match="certificate") as caught:
            await provider.complete(judging())
    assert "SSL_CERT_FILE" in caught.value.hint
    assert secure.counts.requests == 0


async def test_a_plain_host_behind_https_is_named_as_the_cause(
    server: OpenAIServer,
    judging: MakeRequest,
    connected: Connected,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The base URL's scheme is in doubt, not the network: one attempt, whose hint names it."""
    async with connected(server.url.replace("http:", "https:"), key=KEY) as provider:
        with pytest.raises(TlsFailed) as caught:
            await provider.complete(judging())
        with pytest.raises(TlsFailed):
            await provider.complete(judging(), lambda _: None)
    assert "http://" in caught.value.hint and not may_retry(caught.value)


async def test_a_silent_port_behind_https_is_named_as_the_cause(
    judging: MakeRequest, connected: Connected, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A port of this machine that takes the connection and never begins to encrypt it."""
    monkeypatch.setattr("xscore.providers.connection.CONNECT_TIMEOUT_S", 0.2)
    with socket.socket() as ear:
        ear.bind(("127.0.0.1", 0))
        ear.listen()
        async with connected(
            f"https://127.0.0.1:{ear.getsockname()[1]}/v1", key=KEY
        ) as provider:
            with pytest.raises(TlsFailed):
                await provider.complete(judging())


async def test_certificates_that_cannot_be_read_are_a_usage_error(
    secure: OpenAIServer,
    judging: MakeRequest,
    connected: Connected,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """A variable that names no certificates is reported by name."""
    (tmp_path / "empty.pem").write_text("nothing")
    for file in ("empty.pem", "missing.pem"):
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / file))
        async with connected(secure.url) as provider:
            with pytest.raises(UsageError, match=f"SSL_CERT_FILE names .*{file}"):
                await provider.complete(judging())


@pytest.mark.parametrize(
    ("no_proxy", "is_direct"),
    [
        ("", False),
        ("*", True),
        ("example.test", True),
        (".example.test", True),
        ("other.test, models.example.test", True),
        ("models.example.test:80", False),
        ("ample.test", False),
    ],
)
def test_no_proxy_spares_by_name(
    monkeypatch: pytest.MonkeyPatch, no_proxy: str, is_direct: bool
) -> None:
    """NO_PROXY names hosts and domain suffixes; part of a name does not match."""
    monkeypatch.setenv("HTTP_PROXY", "proxy.test:3128")
    monkeypatch.setenv("NO_PROXY", no_proxy)
    assert (route_to(ELSEWHERE).proxy is None) is is_direct
    assert route_to(ELSEWHERE).proxy in (None, "http://proxy.test:3128")


def test_no_proxy_spares_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host given by address is matched by network."""
    monkeypatch.setenv("ALL_PROXY", "http://proxy.test:3128")
    monkeypatch.setenv("NO_PROXY", "10.0.0.0/8,fd00::/8,10.9.0.7:8080")
    assert route_to("http://10.1.2.3:8000/v1").proxy is None
    assert route_to("http://[fd00::1]:8000/v1").proxy is None
    assert route_to("http://11.1.2.3:8000/v1").proxy == "http://proxy.test:3128"


def test_a_proxy_that_is_no_url_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is reported by its variable, before anything is sent."""
    monkeypatch.setenv("HTTPS_PROXY", "http://[::1")
    with pytest.raises(UsageError, match="not a URL") as raised:
        route_to("https://api.example.com/v1")
    assert "HTTPS_PROXY" in raised.value.hint


@pytest.mark.parametrize("rest", ["?key=x", "#top", " /v1"])
def test_a_base_url_is_a_base_alone(rest: str) -> None:
    """A query, a fragment or a blank would swallow the path of every call."""
    with pytest.raises(UsageError, match="fragment"):
        route_to(f"https://api.example.com/v1{rest}")


def test_a_socks_proxy_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unsupported proxy is reported before anything is sent; a loopback host works without
    it."""
    monkeypatch.setenv("ALL_PROXY", "socks5://ann:secret@127.0.0.1:1080")
    with pytest.raises(UsageError, match="socks5") as caught:
        route_to(ELSEWHERE)
    assert "secret" not in f"{caught.value} {caught.value.hint}"
    assert route_to("http://localhost:8000/v1") == Route(
        "localhost:8000", None, is_encrypted=False
    )
