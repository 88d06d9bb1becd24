"""Characters that move the cursor, turn text around or are not seen at all, one of each kind."""

UNSEEN = {
    "zero-width space": "\u200b",
    "joiner between letters": "\u200d",
    "non-joiner between letters": "\u200c",
    "word joiner": "\u2060",
    "function application": "\u2061",
    "byte order mark": "\ufeff",
    "soft hyphen": "\u00ad",
    "grapheme joiner": "\u034f",
    "filler": "\u3164",
    "half-width filler": "\uffa0",
    "jamo filler": "\u115f",
    "vowel that is not written": "\u17b4",
    "selector after a letter": "\ufe0f",
    "selector of a variant": "\ufe00",
    "selector of Mongolian": "\u180b",
    "selector of an ideograph": "\U000e0100",
    "tag": "\U000e0041",
    "end of tags": "\U000e007f",
    "annotation": "\ufff9",
    "shorthand": "\U0001bca0",
    "music": "\U0001d173",
    "old shaping": "\u206a",
}
MOVING = {
    "override": "\u202e",
    "isolate": "\u2066",
    "mark": "\u200f",
    "line separator": "\u2028",
    "paragraph separator": "\u2029",
    "escape": "\x1b",
    "bell": "\x07",
    "string terminator": "\x9c",
    "control sequence": "\x9b",
    "carriage return": "\r",
    "backspace": "\x08",
    "delete": "\x7f",
}
POISON = "".join(f"k{character}" for character in (*UNSEEN.values(), *MOVING.values())) + "k"
NEEDED = "می‌خواهم क्‍ष 👩‍💻 ⚠️ 1️⃣ ❤️‍🔥 👨‍👩‍👧 © naïve 日本"
"""Text with a joiner in Persian, one in Hindi, joined emoji and selectors, all of which it
needs."""


def unsafe_in(text: str) -> list[str]:
    """Return the kinds of `POISON` that are in a text as they were."""
    kinds = {**UNSEEN, **MOVING}
    return [name for name, character in kinds.items() if f"k{character}" in text]
