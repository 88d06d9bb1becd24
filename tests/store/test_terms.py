"""Terms: how words of code and prose become hashes, and what a vector stores."""

from hypothesis import given
from hypothesis import strategies as st

from xscore.records.candidates import TERM_ENTRY
from xscore.store.term_vectors import (
    FILE,
    FOLDER,
    NAME,
    OWNER,
    WHOLE_NAME,
    query_terms,
    split_word,
    stem,
    term_vector,
)


def entries(vector: bytes) -> dict[int, tuple[int, int]]:
    """Decode a vector: hash -> (frequency, fields)."""
    return {
        term: (frequency, fields) for term, frequency, fields in TERM_ENTRY.iter_unpack(vector)
    }


def hash_of(word: str) -> int:
    """Return the hash of a one-term word."""
    return split_word(word)[0][1]


def test_identifiers_are_split_and_kept_whole() -> None:
    """An identifier gives its parts and itself, in any notation (H07)."""
    assert [word for word, _ in split_word("parseHTTPResponse")] == [
        "parse",
        "http",
        "response",
        "parsehttpresponse",
    ]
    assert (
        split_word("parse_args")[-1][1]
        == split_word("parseArgs")[-1][1]
        == split_word("_parse_arg")[-1][1]
    )


INFLECTED = """
    verify verifies verified verifying; query queries queried querying;
    retry retries retried retrying; try tries tried;
    copy copies copied; apply applies applied; deny denied; dependency dependencies; entry entries;
    cookie cookies;
    stop stops stopped stopping; drop dropped; run running; map mapped mapping; log logged logging;
    plan planned;
    commit committed committing; refer referred; occur occurred; debug debugging;
    embed embeds embedded embedding;
    add adds added adding; diff diffs diffed diffing; fuzz fuzzed fuzzing; miss missed missing;
    pass passes passed;
    control controls controlled controlling; cancel canceled cancelled cancelling;
    label labeled labelled; poll polling;
    install installed installing; call calls called calling; fulfil fulfill fulfilled;
    scroll scrolling; fill filled;
    exceed exceeds exceeded exceeding; need needed; seed seeded; feed fed feeding;
    agree agrees agreed agreeing;
    parse parses parsed parsing; write writes writing wrote written; cache caches cached caching;
    match matches matched;
    class classes; box boxes; index indexes indices indexed; alias aliases aliased;
    tie ties tied tying; id ids;
    api apis; free freed freeing; close closes closed; process processes processed; status statuses;
    menu menus;
    child children; vertex vertices
"""


def test_inflected_words_are_one_term() -> None:
    """Each row of words has one stem, and no two rows share one: `verify` finds `verified`."""
    rows = [row.split() for row in INFLECTED.split(";")]
    stems = [{stem(word) for word in row} for row in rows]
    assert [row for row, row_stems in zip(rows, stems, strict=True) if len(row_stems) > 1] == []
    assert len(set.union(*stems)) == len(rows)


def test_words_that_only_look_inflected_stay_whole() -> None:
    """The end of a name is no inflection: `string`, `speed` and `redis` are not forms of other
    words."""
    for word in (
        "string",
        "speed",
        "redis",
        "status",
        "class",
        "need",
        "uuid",
        "bus",
        "hash",
        "ring",
        "alloc",
    ):
        assert stem(word) == word


def test_short_forms_are_their_long_forms() -> None:
    """`attrs` and `attributes` are one term; so are `config` and `configurations`."""
    assert stem("attrs") == stem("attributes")
    assert stem("config") == stem("configurations")


def test_function_words_are_no_terms() -> None:
    """A question of function words only asks for nothing."""
    assert query_terms("where is the thing that it does to them?") == query_terms("thing")


def test_neighbours_are_joined_as_weaker_terms() -> None:
    """`error handler` in a task finds `errorHandler` and `error_handler` in code."""
    joined = [term for term in query_terms("the error handlers") if term.joined]
    assert [term.hash for term in joined] == [split_word("errorHandler")[-1][1]]
    assert joined[0].word == "error handlers"


def test_fields_are_marked() -> None:
    """Terms of a memory's name, owner, file and folder are marked."""
    terms = entries(
        term_vector("def write(self): ...", path="cache/disk_store.py", entity="Store.write")
    )
    assert terms[hash_of("write")] == (1, NAME | WHOLE_NAME)
    assert terms[hash_of("store")][1] == OWNER | FILE
    assert terms[hash_of("cache")] == (0, FOLDER)


def test_headings_are_entities() -> None:
    """A section's own heading is its name, the headings above it are its owners."""
    terms = entries(term_vector("Use pip.", path="README.md", entity="Installation > Linux"))
    assert terms[hash_of("linux")][1] & NAME
    assert terms[hash_of("installation")][1] & OWNER


@given(st.text(max_size=200), st.text(max_size=40), st.text(max_size=40))
def test_any_text_has_a_vector(text: str, path: str, entity: str) -> None:
    """No text, path or name is refused, and each hash appears once."""
    vector = term_vector(text, path=path, entity=entity, title=text[:20], signature=text[:30])
    assert len(vector) % TERM_ENTRY.size == 0
    assert len(entries(vector)) == len(vector) // TERM_ENTRY.size
    query_terms(text)


@given(st.text(alphabet="abcXYZ_ .", max_size=80))
def test_a_memory_has_the_words_of_its_own_text(text: str) -> None:
    """Every single term of a text is in that text's vector."""
    vector = entries(term_vector(text, path="", entity=""))
    assert all(term.hash in vector for term in query_terms(text) if not term.joined)


def test_hashes_are_stable() -> None:
    """The same text has the same vector in every process, since vectors are stored."""
    assert hash_of("write") == 1670291148
