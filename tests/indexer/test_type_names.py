"""Types are read as their authors write them."""

import pytest

from xscore.indexer.type_names import MAX_TOKENS, read_type

TYPES = {
    "*Store": "Store",
    "[]*Store": "[]<Store>",
    "[limit + 1]Store": "[]<Store>",
    "map[string]*pkg.Store": "map<string,pkg.Store>",
    "(*Store, error)": "()<Store,error>",
    "(r *Store, err error)": "()<Store,error>",
    "<-chan Store": "[]<Store>",
    'Optional["Store"]': "Optional<Store>",
    '"Store | None"': "Store",
    "None | Store": "Store",
    ": Store | undefined": "Store",
    "Promise<Store>": "Promise<Store>",
    "List<? extends Store>": "List<Store>",
    "Map.Entry<K, V>[]": "[]<Map.Entry<K,V>>",
    "&'a mut Store": "Store",
    "Box<dyn Store + Send>": "Box<Store>",
    "Foo<'a, Store>": "Foo<,Store>",
    "impl Iterator<Item = Store>": "Iterator<Store>",
    "[Store; 3]": "[]<Store>",
    "const std::vector<Store>&": "std.vector<Store>",
    "Store?": "Store",
    "?\\Acme\\Store": "Store",
    "static": "static",
    "some Store": "Store",
    "any": "any",
    "[String: any Store]": "[]<Store>",
    "array": "",
    "(a: Store) => void": "",
    "func(x int) Store": "",
    "{a: Store}": "",
    "": "",
}


@pytest.mark.parametrize("written", TYPES)
def test_a_type_is_its_name_with_its_arguments(written: str) -> None:
    """Pointers, references, nullability, quotes and bounds are left out; what has no name is
    empty."""
    assert read_type(written) == TYPES[written]


@pytest.mark.parametrize(
    "part", ["<", "[", "(", "a<", "a[", "a|", "'", "=", ",", "a,", "? extends "]
)
def test_a_hostile_type_is_read_within_bounds(part: str) -> None:
    """Whatever is repeated comes to an end, and a type of more than `MAX_TOKENS` words and marks
    has no name."""
    for count in range(1, MAX_TOKENS + 2):
        assert isinstance(read_type(part * count), str)
    assert read_type(part * (MAX_TOKENS + 1)) == ""
