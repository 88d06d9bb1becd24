"""The short ids that memories bear inside one prompt. Pure.

A pack of n uses the first n codes, so its set of ids, and with it the reply schema, is the same for every pack of that
size. Which memory gets which is a shuffle keyed with the store's secret and the pack: text inside a memory cannot know
its neighbour's id, while the same pack is rendered to the same bytes turn after turn.
Each code is a consonant and a vowel: one token in the vocabularies that could be checked, no two neighbours in the
book alike in their vowel, and none a common word of yes, no or motion (`ja`, `no`, `go`, `to` are left out).
"""

from hashlib import blake2b

# fmt: off
CODEBOOK: tuple[str, ...] = (
    "ka", "qe", "bi", "co", "du", "fe", "ga", "hu", "ji", "po", "ra", "te",
    "vo", "wi", "xu", "za", "ke", "qi", "bo", "cu", "de", "fi", "gu", "jo",
    "ta", "pe", "ri", "va", "wu", "xo", "ze", "ba", "ki", "qu", "fo", "ca",
    "di", "ge", "ju", "ro", "tu", "ve", "pu", "wa", "zi", "xa", "ko", "bu",
    "ce", "qa", "fu", "gi", "zo", "je", "ru", "xe", "vu", "ci", "ku", "zu",
)
# fmt: on


def deal(size: int, *, secret: bytes, pack: str) -> tuple[str, ...]:
    """Return the codes of slots 0..size-1 of this pack.

    Raises ValueError beyond the codebook, which also bounds the size of a pack.
    """
    if not 0 <= size <= len(CODEBOOK):
        raise ValueError(f"a pack holds 0..{len(CODEBOOK)} memories, not {size}")
    key = blake2b(secret, digest_size=32).digest()
    seed = blake2b(pack.encode(), key=key, digest_size=16).digest()
    return tuple(sorted(CODEBOOK[:size], key=lambda code: blake2b(code.encode(), key=seed, digest_size=8).digest()))
