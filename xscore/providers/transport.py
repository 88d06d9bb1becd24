"""How calls travel: one HTTP client for the SDKs, through the user's proxy and under the user's certificates.

Redirects are not followed, replies are read within bounds (`bounded_stream`), a connection must stand within
`CONNECT_TIMEOUT_S`, and every other deadline is the caller's. It is the one place beside the settings that reads the
environment: `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`, `SSL_CERT_FILE`, `SSL_CERT_DIR` and
`REQUESTS_CA_BUNDLE` belong to the machine and are the same for every program on it, so a setting of our own would only
be one more place where they can be wrong. The client itself reads none of them (`trust_env=False`), so that what is
decided here is what happens: a loopback host never goes through a proxy, which would carry the text off this machine.
Trade-off: no SOCKS proxies, which the aiohttp transport lacks.
"""

import os
from collections.abc import Iterator
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import getproxies_environment

from msgspec import Struct

from xscore.platform.errors import AuthenticationFailed, ProviderError, Unreachable, UnreadableResponse, UsageError
from xscore.providers.hosts import host_of, is_loopback

if TYPE_CHECKING:
    import ssl

    from httpx2 import AsyncClient


CONNECT_TIMEOUT_S = 10.0
CERTIFICATE_FILES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
"""Variables that name a file of trusted certificates; the first that is set holds."""
CERTIFICATE_FOLDER = "SSL_CERT_DIR"
PROXY_SCHEMES = ("http", "https")
PROXY_REFUSAL_STATUSES = (403, 407)
"""Statuses by which a proxy says that it will not carry the call for this user."""


class Route(Struct, frozen=True):
    """The way from here to one host."""

    host: str
    proxy: str | None
    """URL of the proxy, which may hold a password; None: straight."""
    is_encrypted: bool = True
    """Whether anyone on the way has to show a certificate."""

    @property
    def proxy_host(self) -> str:
        """The proxy's `name[:port]`, fit to be shown; empty where there is none."""
        return urlsplit(self.proxy).netloc.rpartition("@")[2] if self.proxy else ""

    def client(self, kind: "type[AsyncClient]") -> "AsyncClient":
        """Return an HTTP client of an SDK's own kind. Raises UsageError for certificates that cannot be read."""
        import httpx2

        from xscore.providers.bounded_stream import IDENTITY_ENCODING, bound_response

        return kind(
            follow_redirects=False,
            timeout=httpx2.Timeout(None, connect=CONNECT_TIMEOUT_S),
            trust_env=False,
            proxy=self.proxy,
            verify=trusted_ssl_context() if self.is_encrypted else _trusting_nobody(),
            headers=IDENTITY_ENCODING,
            event_hooks={"response": [bound_response]},
        )

    def explained(self, ours: ProviderError, error: BaseException) -> ProviderError:
        """Return our error for one of the SDK, or a clearer one where a proxy, certificate or bound is behind it."""
        beyond = next((link for link in _chain(error) if _is(link, "ReplyTooLarge")), None)
        if beyond is not None:
            hint = f"Check what answers at {self.host}; nothing more was read of it."
            return UnreadableResponse(f"{self.host} answered {beyond}", hint=hint)
        untrusted = next((link for link in _chain(error) if _is(link, "ClientConnectorCertificateError")), None)
        if untrusted is not None:
            why = getattr(getattr(untrusted, "certificate_error", None), "verify_message", "") or "it is not trusted"
            return Unreachable(
                f"{self.host}: no connection could be made, because of its certificate: {why}",
                hint="Set SSL_CERT_FILE to a file that holds the certificate of whoever signed it, if you trust them.",
            )
        return self._of_the_proxy(error) or ours

    def _of_the_proxy(self, error: BaseException) -> ProviderError | None:
        if not self.proxy:
            return None
        refusal = next((link for link in _chain(error) if _is(link, "ClientHttpProxyError")), None)
        status = getattr(refusal, "status", None) if refusal else getattr(error, "status_code", None)
        where = f"the proxy {self.proxy_host}, on the way to {self.host},"
        if status == 407 or (refusal and status in PROXY_REFUSAL_STATUSES):
            hint = "Check the name and password in HTTPS_PROXY or HTTP_PROXY, or add the host to NO_PROXY."
            return AuthenticationFailed(f"{where} answered {status}", hint=hint)
        if refusal:
            return Unreachable(f"{where} answered {status}", hint="Check the proxy, or add the host to NO_PROXY.")
        if any(_is(link, "ClientProxyConnectionError") for link in _chain(error)):
            hint = "Check HTTPS_PROXY or HTTP_PROXY, or add the host to NO_PROXY."
            return Unreachable(f"{where} cannot be reached", hint=hint)
        return None


def route_to(base_url: str) -> Route:
    """Return the way to the host of this URL. Raises UsageError for a proxy that cannot be used."""
    host = host_of(base_url)
    parts = urlsplit(base_url)
    proxies = getproxies_environment()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or is_loopback(host) or _goes_straight(host, proxies.get("no", "")):
        return Route(host, None, is_encrypted=parts.scheme == "https")
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    scheme = urlsplit(proxy).scheme
    if scheme not in PROXY_SCHEMES or not urlsplit(proxy).hostname:
        raise UsageError(
            f"the environment names a proxy of the kind `{scheme}`, and only http and https proxies can be used",
            hint=f"Name another in {parts.scheme.upper()}_PROXY, or add {host} to NO_PROXY.",
        )
    return Route(host, proxy, is_encrypted="https" in (parts.scheme, scheme))


def trusted_ssl_context() -> "ssl.SSLContext":
    """Return whom to trust: what the environment names, else the system's. Raises UsageError for what holds none."""
    import ssl

    import httpx2

    name = next((name for name in CERTIFICATE_FILES if os.environ.get(name)), None)
    file = os.environ[name] if name else None
    folder = os.environ.get(CERTIFICATE_FOLDER) or None
    if file is None and folder is None:
        return httpx2.create_ssl_context(trust_env=False)
    try:
        is_folder = file is not None and Path(file).is_dir()  # `requests` takes a folder in its variable as well
        return ssl.create_default_context(cafile=None if is_folder else file, capath=file if is_folder else folder)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(
            f"{name or CERTIFICATE_FOLDER} names {file or folder}, where no certificates can be read",
            hint="Name a file of PEM certificates, or unset it.",
        ) from error


def _trusting_nobody() -> "ssl.SSLContext":
    """Return what plain HTTP needs; reading the system's certificates takes 30 ms."""
    import ssl

    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _goes_straight(host: str, no_proxy: str) -> bool:
    """Whether NO_PROXY spares this `name[:port]`: by name, ending, address, network (`10.0.0.0/8`) or `*`."""
    name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
    entries = [entry.strip().lower().lstrip(".") for entry in no_proxy.split(",")]
    return any(
        entry == "*" or entry in (name, host) or name.endswith(f".{entry}") or _is_within(name, entry)
        for entry in entries
        if entry
    )


def _is_within(name: str, network: str) -> bool:
    try:
        return ip_address(name) in ip_network(network, strict=False)
    except ValueError:
        return False


def _chain(error: BaseException) -> Iterator[BaseException]:
    link: BaseException | None = error
    while link is not None:
        yield link
        link = link.__cause__


def _is(error: BaseException, name: str) -> bool:
    return any(kind.__name__ == name for kind in type(error).__mro__)
