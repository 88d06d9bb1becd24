"""How calls travel: through the user's proxy, under the user's certificates, on the user's account.

Besides the settings, only this module reads the environment (`HTTP_PROXY`, `HTTPS_PROXY`,
`ALL_PROXY`, `NO_PROXY`, `SSL_CERT_FILE`, `SSL_CERT_DIR`, `REQUESTS_CA_BUNDLE`, and the headers that
a vendor's own variables name), because those variables mean the same to every program here. The
HTTP client itself reads none of them, so that a loopback host never goes through a proxy.
Trade-off: no SOCKS proxies, which aiohttp lacks.
"""

import os
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec import Struct

from xscore.platform.errors import (
    AuthenticationFailed,
    ProviderError,
    TlsFailed,
    Unreachable,
    UnreadableResponse,
    UsageError,
)
from xscore.providers.hosts import host_of, is_loopback
from xscore.providers.wire_errors import error_chain

if TYPE_CHECKING:
    import ssl

CONNECT_TIMEOUT_S = 10.0
CERTIFICATE_FILES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
"""Variables that name a file of trusted certificates; the first that is set holds."""
CERTIFICATE_FOLDER = "SSL_CERT_DIR"
ACCOUNT_HEADERS = {
    "OPENAI_ORG_ID": "OpenAI-Organization",
    "OPENAI_PROJECT_ID": "OpenAI-Project",
}
"""Variable -> header that names the account; sent to the vendor and to no other host."""
PROXY_SCHEMES = ("http", "https")
PROXY_REFUSAL_STATUSES = (403, 407)
"""Statuses by which a proxy says that it will not carry the call for this user."""


class Route(Struct, frozen=True):
    """How to reach one host."""

    host: str
    proxy: str | None
    """URL of the proxy, which may hold a password; None: a direct connection."""
    is_encrypted: bool = True
    """Whether the host or the proxy has to show a certificate."""

    @property
    def proxy_host(self) -> str:
        """The proxy's `name[:port]`, fit to be shown; empty where there is none."""
        if self.proxy:
            return urlsplit(self.proxy).netloc.rpartition("@")[2]
        return ""

    def explained(self, ours: ProviderError, error: BaseException) -> ProviderError:
        """Return our error, or a clearer one where a proxy, certificate or bound
        is behind it."""
        causes: dict[str, BaseException] = {}
        # The outermost error of a class counts, so it is written last.
        for link in reversed(error_chain(error)):
            causes.update({base.__name__: link for base in type(link).__mro__})
        if oversized := causes.get("OversizedReply"):
            hint = f"Check what answers at {self.host}; nothing more was read from it."
            return UnreadableResponse(f"{self.host} answered {oversized}", hint=hint)
        if untrusted := causes.get("ClientConnectorCertificateError"):
            why = (
                getattr(getattr(untrusted, "certificate_error", None), "verify_message", "")
                or "it is not trusted"
            )
            return TlsFailed(
                f"{self.host}: no connection could be made, because of its certificate: {why}",
                hint=(
                    "If you trust its issuer, set SSL_CERT_FILE to a file that holds the issuer's"
                    " certificate."
                ),
            )
        if not self.proxy and self._failed_in_handshake(causes):
            return TlsFailed(
                f"{self.host}: no connection could be made, because it does not speak TLS",
                hint=(
                    "Check the port, or write http:// where the base URL says https:// if this host"
                    " is meant to be spoken to in plain text."
                ),
            )
        return (self._proxy_error(error, causes) if self.proxy else None) or ours

    def _failed_in_handshake(self, causes: dict[str, BaseException]) -> bool:
        """Return whether the host took the connection and then did not begin to encrypt it."""
        if not self.is_encrypted:
            return False
        # a host of this machine takes a connection at once or refuses it, so what was waited for is
        # the handshake
        is_silent = "ConnectionTimeoutError" in causes and is_loopback(self.host)
        return is_silent or "ClientConnectorSSLError" in causes

    def _proxy_error(
        self, error: BaseException, causes: dict[str, BaseException]
    ) -> ProviderError | None:
        refusal = causes.get("ClientHttpProxyError")
        if refusal:
            status = getattr(refusal, "status", None)
        else:
            status = getattr(error, "status_code", None)
        where = f"the proxy {self.proxy_host}, on the way to {self.host},"
        if status == 407 or (refusal and status in PROXY_REFUSAL_STATUSES):
            hint = (
                "Check the name and password in HTTPS_PROXY or HTTP_PROXY, or add the host to"
                " NO_PROXY."
            )
            return AuthenticationFailed(f"{where} answered {status}", hint=hint)
        if refusal:
            return Unreachable(
                f"{where} answered {status}",
                hint="Check the proxy, or add the host to NO_PROXY.",
            )
        if "ClientProxyConnectionError" in causes:
            hint = "Check HTTPS_PROXY or HTTP_PROXY, or add the host to NO_PROXY."
            return Unreachable(f"{where} cannot be reached", hint=hint)
        return None


def _proxies_of_environment() -> dict[str, str]:
    if not any(name.lower().endswith("_proxy") for name in os.environ):
        return {}
    from urllib.request import getproxies_environment  # it brings clients for HTTP and mail

    return getproxies_environment()


def route_to(base_url: str) -> Route:
    """Return the route to the host of this URL.

    Raises UsageError for a proxy that cannot be used.
    """
    host = host_of(base_url)
    parts = urlsplit(base_url)
    proxies = _proxies_of_environment()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or is_loopback(host) or _is_exempt(host, proxies.get("no", "")):
        return Route(host, None, is_encrypted=parts.scheme == "https")
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    hint = f"Name another in {parts.scheme.upper()}_PROXY, or add {host} to NO_PROXY."
    try:
        named = urlsplit(proxy)
        scheme = named.scheme
        is_usable = bool(named.hostname) and named.port != 0
    except ValueError as error:  # its words may repeat a password
        raise UsageError(
            "the environment names a proxy that is not a URL", hint=hint
        ) from error
    if scheme not in PROXY_SCHEMES or not is_usable:
        raise UsageError(
            f"the environment names a `{scheme}` proxy; only http and https proxies can be used",
            hint=hint,
        )
    return Route(host, proxy, is_encrypted="https" in (parts.scheme, scheme))


def headers_of_environment(vendor: str, *, is_vendors_own: bool) -> dict[str, str]:
    """Return the headers that this vendor's variables name, as its SDK sends them.

    is_vendors_own: whether they go to the vendor's own host.
    Raises UsageError for one that cannot be sent.
    """
    variable = f"{vendor.upper()}_CUSTOM_HEADERS"
    header_values: dict[str, str] = {}
    for line in os.environ.get(variable, "").split("\n"):
        name, colon, value = line.partition(":")
        if colon:
            header_values[name.strip()] = _sendable(value.strip(), variable=variable)
            _sendable(name.strip(), variable=variable)
    if vendor == "openai" and is_vendors_own:
        for name, header in ACCOUNT_HEADERS.items():
            if os.environ.get(name):
                header_values[header] = _sendable(os.environ[name], variable=name)
    return header_values


def _sendable(part: str, *, variable: str) -> str:
    """Return this part of a header. Raises UsageError where a control character is in it."""
    if any(ord(char) < ord(" ") and char != "\t" for char in part):
        raise UsageError(
            f"{variable} holds a control character, which no header can have",
            hint="Set it to one `Name: value` a line, or unset it.",
        )
    return part


def trusted_ssl_context() -> "ssl.SSLContext":
    """Return the trusted certificates: those the environment names, otherwise the system's.

    Raises UsageError.
    """
    import ssl  # a turn that is all cached connects to nothing

    name = next((name for name in CERTIFICATE_FILES if os.environ.get(name)), None)
    file = os.environ[name] if name else None
    folder = os.environ.get(CERTIFICATE_FOLDER) or None
    if file is None and folder is None:
        import httpx2  # only without certificates of the user's own

        return httpx2.create_ssl_context(trust_env=False)
    try:
        # `requests` takes a folder in its variable as well.
        is_folder = file is not None and Path(file).is_dir()
        if is_folder:
            return ssl.create_default_context(capath=file)
        return ssl.create_default_context(cafile=file, capath=folder)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(
            f"{name or CERTIFICATE_FOLDER} names {file or folder}, where no certificates can be"
            " read",
            hint="Name a file of PEM certificates, or unset it.",
        ) from error


def _is_exempt(host: str, no_proxy: str) -> bool:
    """Whether NO_PROXY exempts this `name[:port]`: by name, ending, address, network (`10.0.0.0/8`)
    or `*`."""
    name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
    entries = [entry.strip().lower().lstrip(".") for entry in no_proxy.split(",")]
    return any(
        entry == "*"
        or entry in (name, host)
        or name.endswith(f".{entry}")
        or _is_within(name, entry)
        for entry in entries
        if entry
    )


def _is_within(name: str, network: str) -> bool:
    try:
        return ip_address(name) in ip_network(network, strict=False)
    except ValueError:
        return False
