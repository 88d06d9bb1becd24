"""Read the exchanges of a session as messages: what the user said, and what the agent answered.

They come from the store, where secrets are redacted and long texts are shortened already, so that
nothing that is found in them holds more than the store does. Trade-off: what was cut out of a long
message is lost for the extraction.
"""

from collections.abc import Sequence
from datetime import datetime

from xscore.extensions.extraction.facts import Speaker
from xscore.extensions.extraction.session_facts import Message
from xscore.records.memory import Memory
from xscore.store.session_summary import exchange_parts


def messages_of(exchanges: Sequence[Memory]) -> list[Message]:
    """Return the messages of these exchanges, in their order."""
    messages: list[Message] = []
    for exchange in exchanges:
        task, answer = exchange_parts(exchange.text)
        # The speaker's own day: `tomorrow` is relative to their local date.
        said_on = datetime.fromtimestamp(exchange.created_at).date()
        sides: tuple[tuple[Speaker, str], ...] = (("user", task), ("agent", answer))
        for by, text in sides:
            if text.strip():
                messages.append(Message(by, text, exchange.id, exchange.created_at, said_on))
    return messages
