"""The key that a dialect may send to its host: checked before anything is sent, and never shown.

It reads no environment and no file; the settings did. A host on this machine needs no key. The trade-off: whether a key
is right is known only by the host, so all that is checked here is that it can be one.
"""

from typing import Protocol

from pydantic import SecretStr

from xscore.errors import AuthenticationFailed, UsageError
from xscore.providers.hosts import is_loopback

DUMMY_KEY = "none"
"""Sent to loopback servers when there is no key; they ignore it, the SDKs insist on one."""


class KeySettings(Protocol):
    """The part of the settings that holds a dialect's key."""

    @property
    def api_key(self) -> SecretStr:
        """Empty: there is none."""

    @property
    def api_key_env(self) -> str:
        """The variable it was read from, for messages."""


def usable_key(settings: KeySettings, *, host: str, model: str) -> str:
    """Return the key to send to this host, empty where a loopback host needs none.

    Raises AuthenticationFailed where a remote host would get no key, UsageError for a key that cannot be one.
    """
    key = settings.api_key.get_secret_value()
    if not key and not is_loopback(host):
        raise AuthenticationFailed(
            f"there is no key for {host}, asked to serve `{model}`",
            hint=f"Set {settings.api_key_env}, or use --judge lexical and no key.",
        )
    if not (key.isascii() and key.isprintable()):
        raise UsageError(
            f"the key in {settings.api_key_env} holds characters that no key has",
            hint="Look for a line break, a typographic quote or a space that came along when it was copied.",
        )
    return key
