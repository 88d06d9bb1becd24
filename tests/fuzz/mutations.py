"""Real files with a few bytes removed, overwritten or taken from another: unlike random text."""

from hypothesis import strategies as st

_PLACES = st.floats(0, 1, exclude_max=True)
_TOKENS = st.sampled_from(
    [
        *(
            b"",
            b"\0",
            b"\n",
            b"\r\n",
            b'"',
            b"'",
            b'"""',
            b"`",
            b"{",
            b"}",
            b"(",
            b"<!--",
            b"#",
            b"\\",
            b"\xff",
        ),
        *(b"[" * 60, b"1e999", b"NaN", b"null", b"-1", b"\xed\xa0\x80"),
        *(b"\r", b"/*", b"*/", b"<script>", b"${", b"<<EOF\n", b"#if 0\n", b"x" * 5_001),
        *("\u2028".encode(), "\ufeff".encode(), "\u0130".encode()),
    ]
)
_EDITS = st.tuples(
    _PLACES, _PLACES, st.integers(0, 400), st.one_of(_TOKENS, st.binary(max_size=40))
)


@st.composite
def mutated(draw: st.DrawFn, texts: dict[str, bytes]) -> tuple[str, bytes]:
    """Return one of these texts with its name, after up to eight edits."""
    name = draw(st.sampled_from(sorted(texts)))
    data = texts[name]
    donor = texts[draw(st.sampled_from(sorted(texts)))]
    for at, donor_place, length, put in draw(st.lists(_EDITS, max_size=8)):
        start, source = int(at * len(data)), int(donor_place * len(donor))
        data = (
            data[:start] + put + donor[source : source + length // 4] + data[start + length :]
        )
    return name, data
