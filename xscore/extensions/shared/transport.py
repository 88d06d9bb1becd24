"""How a shared server may be reached: beyond this machine only by TLS with a checked certificate.

Judgments have reasons that describe code, and each request sends a password. Trade-off: a server in
a private network needs a certificate, too; its own authority is named in the URL.
"""

from contextlib import suppress
from ipaddress import ip_address
from urllib.parse import SplitResult, parse_qsl

from xscore.extensions.shared.server import REDIS, displayed_url
from xscore.platform.errors import UsageError

SAFE_MODES = ("verify-full", "verify-ca")
"""Safe values of PostgreSQL's `sslmode`; the first is the default beyond this machine."""
_OTHER_HOSTS = {"host", "hostaddr", "service", "servicefile"}
"""Options of a PostgreSQL URL that win over the host in it."""
_UNCHECKED = ("none", "optional")
_POSTGRES_HINT = (
    "Add sslmode=verify-full to the URL, and sslrootcert=FILE where the certificate is your own"
    " organisation's."
)
_REDIS_HINT = (
    "Write rediss://, and ssl_ca_certs=FILE where the certificate is your own organisation's. A"
    " tunnel (ssh -L) ends on this machine."
)


def is_this_machine(host: str) -> bool:
    """Whether a host is this machine. Stricter than `providers.hosts.is_loopback`: the driver is
    handed this host as an address."""
    if host == "localhost":
        return True
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return False


def refuse_open_transport(parts: SplitResult, url: str) -> None:
    """Raise UsageError for a server beyond this machine without checked TLS, and for a URL whose
    options name other hosts."""
    host = parts.hostname or ""
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    if parts.scheme in REDIS:
        is_checked = options.get("ssl_cert_reqs", "").lower() not in _UNCHECKED
        is_safe = parts.scheme == "rediss" and is_checked
        hint = _REDIS_HINT
    else:
        if _OTHER_HOSTS & options.keys() or "," in host:
            raise UsageError(
                "the URL of a shared server names its host twice",
                hint="Write postgresql://HOST/DATABASE without host= among its options.",
            )
        is_safe = options.get("sslmode", SAFE_MODES[0]) in SAFE_MODES
        hint = _POSTGRES_HINT
    if not (is_safe or is_this_machine(host)):
        raise UsageError(
            f"{displayed_url(url)} is not on this machine, and its certificate is not checked",
            hint=hint,
        )
