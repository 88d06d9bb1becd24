"""What became of a request to the collector, in words: which host was asked, and why it did not take the spans.

Told are a host and a port, a status, a kind of failure. Paths, queries, names and headers are not, since they may hold
keys, nor is what the collector or the exporter wrote. Trade-off: it takes the place of the exporter's own session, so a
credential provider of the exporter's is not asked. Imported only to send: it needs what the extra installs.
"""

from typing import Any
from urllib.parse import urlsplit

import requests

from xscore.platform.text import one_line

NOT_TAKEN = "did not take the spans of this turn"
_CAUSES: tuple[tuple[type[Exception], str], ...] = (  # the first that fits
    (requests.exceptions.ProxyError, "the proxy failed; NO_PROXY names hosts that need none"),
    (requests.exceptions.SSLError, "TLS failed; OTEL_EXPORTER_OTLP_CERTIFICATE names a certificate to trust"),
    (requests.exceptions.Timeout, "no answer in time"),
    (requests.exceptions.ConnectionError, "no connection"),
)


class RecordingSession(requests.Session):
    """A session that remembers whom it asked last, and what came of it."""

    def __init__(self) -> None:
        super().__init__()
        self._host = ""
        self._outcome = ""

    def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
        """Send as ever; the outcome is noted, errors go on to the exporter."""
        self._host, self._outcome = collector_host(request.url or ""), ""
        try:
            response = super().send(request, **kwargs)
        except requests.RequestException as error:
            self._outcome = next((words for kind, words in _CAUSES if isinstance(error, kind)), "it cannot be asked")
            raise
        self._outcome = f"HTTP {response.status_code}"
        return response

    def said(self) -> str:
        """`the collector at localhost:4318 did not take the spans of this turn: no connection`."""
        where = f" at {self._host}" if self._host else ""
        return f"the collector{where} {NOT_TAKEN}" + (f": {self._outcome}" if self._outcome else "")


def collector_host(url: str) -> str:
    """Return host and port of an address, nothing else of it; empty where it has none."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return ""
    shown = f"[{host}]" if ":" in host else host
    return one_line(f"{shown}:{port}" if port and host else shown)
