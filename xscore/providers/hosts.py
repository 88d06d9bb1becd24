"""The host of a base URL, whether it is this machine, and the key that may be sent to it.

It resolves no names: a host is loopback when it says so (`localhost`, 127.0.0.0/8, `::1`), never
because of what DNS answers. A host on this machine needs no key. Trade-off: a local server behind a
name of its own is limited like a remote one, and only the host knows whether a key is right.
"""

import ipaddress  # imported as a module, so that `__main__` can load it late
import re
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from xscore.platform.errors import AuthenticationFailed, UsageError
from xscore.settings.hosts import HostAccess

if TYPE_CHECKING:
    from xscore.settings import Settings

NO_HOST = "-"
"""Host of a provider that sends nothing."""
LOOPBACK_CONCURRENCY = 4
REMOTE_CONCURRENCY = 64
LOOPBACK_TIMEOUT_FACTOR = 5
"""Factor of the deadline for a local model, since one on a laptop is slower than a data
centre."""
LONGEST_LABEL = 63
"""Longest label of a host's name, between two dots."""
DUMMY_KEY = "none"
"""Key that is sent to loopback servers when there is none; most ignore it, and some insist on
any."""
_SOLD = (
    r"(?i)(?:[\w-]+[./])*?(gpt-\d.*|chatgpt-.+|o[134](?:-.+)?|claude-.+|gemini-.+|grok-\d.*)"
)
"""Matches families that only their vendors serve; open weights (`gpt-oss`, Llama, Qwen, Gemma)
run on any machine."""
KEYS_OF = {
    "sk-ant-": "anthropic.com",
    "sk-or-": "openrouter.ai",
    "pplx-": "perplexity.ai",
    "fw_": "fireworks.ai",
}
"""How a vendor's keys begin -> its domain."""
KEYED_DOMAINS = (*KEYS_OF.values(), "openai.com", "typesafe.ai")
"""Vendors that take no keys but their own; a gateway may take any."""
_LIKE = "Write it like https://models.example.com, as docs/providers.md shows."


def host_of(base_url: str, *, setting: str = "openai.base_url") -> str:
    """Return `name[:port]` of an http or https URL, without user or path.

    setting: where the URL was set, for the message.
    Raises UsageError for anything else, and for a URL that carries a user or password.
    """
    try:
        parts = urlsplit(base_url)
        port = parts.port
    except ValueError as error:  # its words may repeat a password
        raise UsageError(
            f"{setting} has an open bracket, or a port that is not a number", hint=_LIKE
        ) from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"{setting} is not an http or https URL", hint=_LIKE)
    labels = parts.hostname.removesuffix(".").split(".")
    if any(not 0 < len(label) <= LONGEST_LABEL for label in labels):
        raise UsageError(f"{setting} has a name that no host can have", hint=_LIKE)
    if parts.username or parts.password:
        raise UsageError(
            f"{setting} carries a user or password",
            hint="Put the key into the environment instead.",
        )
    if parts.query or parts.fragment or re.search(r"\s", base_url.strip()):
        raise UsageError(f"{setting} has a query, a fragment or a blank in it", hint=_LIKE)
    name = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    if port is None:
        return name
    return f"{name}:{port}"


@lru_cache(maxsize=64)
def is_loopback(host: str) -> bool:
    """Whether text sent to this `name[:port]` stays on this machine; `-` sends none."""
    if host == NO_HOST:
        return True
    name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    # An address has a colon or ends with a digit: names are not looked at further.
    if ":" not in name and not name[-1:].isdigit():
        return False
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


@lru_cache(maxsize=64)
def sold_model(model: str) -> str:
    """Return the name that a paid vendor sells this model under, without a gateway's prefix; empty
    for open weights."""
    match = re.fullmatch(_SOLD, model)
    if match:
        return match[1]
    return ""


def is_host_within(base_url: str, domain: str) -> bool:
    """Whether this URL leads to a host below this domain."""
    return f".{urlsplit(base_url).hostname}".endswith(f".{domain}")


def default_concurrency(host: str) -> int:
    """Calls in flight where the user set none."""
    if is_loopback(host):
        return LOOPBACK_CONCURRENCY
    return REMOTE_CONCURRENCY


def host_deadline_s(timeout_s: float, host: str) -> float:
    """The deadline of one call at this host, from the one set for remote hosts."""
    if is_loopback(host):
        return timeout_s * LOOPBACK_TIMEOUT_FACTOR
    return timeout_s


def vendor_access(settings: "Settings", vendor: str) -> HostAccess:
    """Return the base URL and key of a vendor, one of `settings.load.VENDORS`."""
    group = getattr(settings, vendor)
    return HostAccess(group.base_url, group.api_key, group.api_key_env)


def usable_key(access: HostAccess, *, host: str, model: str) -> str:
    """Return the key to send to this host, empty where a loopback host needs none.

    Raises AuthenticationFailed where a remote host would get no key or another vendor's, UsageError
    for a key that cannot be one.
    """
    key = access.api_key.reveal()
    if not key and not is_loopback(host):
        raise AuthenticationFailed(
            f"there is no key for {host}, asked to serve `{model}`",
            hint=f"Set {access.api_key_env}, or use --judge lexical and no key.",
        )
    if not (key.isascii() and key.isprintable()):
        raise UsageError(
            f"the key in {access.api_key_env} holds characters that no key has",
            hint=(
                "Look for a line break, a typographic quote or a space that came along when it was"
                " copied."
            ),
        )
    owner = next((domain for start, domain in KEYS_OF.items() if key.startswith(start)), None)
    if (
        owner
        and not is_host_within(f"//{host}", owner)
        and any(is_host_within(f"//{host}", d) for d in KEYED_DOMAINS)
    ):
        raise AuthenticationFailed(
            f"the key in {access.api_key_env} belongs to {owner} and would be sent to {host}",
            hint=f"Set {access.api_key_env} to a key of {host}; nothing was sent.",
        )
    return key
