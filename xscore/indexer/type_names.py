"""Read a type as it is written in any language: `*Store`, `Optional["Store"]`, `Vec<&dyn Store>`,
`(Store, error)`.

A type becomes its name and its arguments, `Optional<Store>`; an array or slice is `[]<Store>`, a
tuple `()<Store,error>`, a map `map<Key,Store>`. Marks of pointers, references and nullability are
left out, and of a union the first that is not null is taken. Pure text, bounded in length and
depth. Trade-off: types of functions and objects written in place have no name, so they count as
unknown.
"""

import re
from collections.abc import Callable
from functools import lru_cache

PREDICATE = "is"
"""The type of a function's result that tells whether its argument is of the type in `<>`."""
MAX_TYPE_DEPTH = 6
MAX_TOKENS = 80
_TOKEN = re.compile(r"[A-Za-z_$][\w$]*(?:(?:\.|::|\\)[A-Za-z_$][\w$]*)*|=>|->|\d+|\S")
_NAME = re.compile(r"[A-Za-z_$][\w$.]*")
_QUOTED = re.compile(r"(?<![^\[(, ])([\"'])([A-Za-z_][^\"']*)\1(?![^\]), ])")
"""Matches a type in quotes, as Python has those that are defined further below."""
_MARKS = frozenset("&*?^~'\"\\")
_WORDS = frozenset(
    """
    abstract async auto class const constexpr dyn enum extends final impl in infer inline mut
    mutable new out override params private protected public readonly ref struct super typename
    unsafe volatile
    """.split()
)
"""Words before a type that do not name it."""
_WORDS_BEFORE_NAMES = frozenset({"some", "any", "static"})
"""The words among these that are types themselves where no name follows."""
_NULLS = frozenset({"None", "null", "undefined", "nil", "void", "never", "nullptr_t"})
_NO_NAME = frozenset(
    """
    array iterable mixed callable func function fn Fn FnMut FnOnce Callable typeof keyof { => ->
    """.split()
)
WRAPPERS = frozenset(
    """
    Arc Annotated Awaitable Box Cell ClassVar ComPtr Coroutine Cow Deferred Final Future Lazy Maybe
    Mutex MutexGuard NonNullable Nullable Option Optional Partial Pin Promise PromiseLike Provider
    Rc Readonly Ref RefCell RefMut Required Result RwLock Supplier Task ThreadLocal Type Union
    ValueTask Weak shared_ptr unique_ptr weak_ptr type ()
    """.split()
)
"""Types whose first argument has the members that are asked for."""
SAME_METHODS = frozenset(
    """
    also apply as_deref as_mut as_ref as_slice asSequence await borrow borrow_mut by_ref chain clone
    cloned copied distinct distinctBy drain drop dropLast dropWhile filter filterIsInstance
    filterNot filterNotNull into_iter items iter iter_mut limit lock map_err ok ok_or or_else
    orEmpty peekable read rev reversed skip sortBy sortWith sorted sortedBy sortedByDescending
    sortedWith stream take takeIf takeWhile then to_owned to_vec toList toMutableList toSeq toVector
    values write where Where OrderBy ToList slice reverse concat ConfigureAwait lower
    """.split()
)
"""Methods of such types and of containers that return a value of the same type."""
ITEM_METHODS = frozenset(
    """
    Dequeue ElementAt First FirstOrDefault Last LastOrDefault Peek Pop Result Single SingleOrDefault
    Value at back elementAt find findAny findFirst findLast first firstOrNull front get getFirst
    getLast getOrDefault getOrElse getOrNull head headOption last lastOrNull max min next orElse
    orElseGet orElseThrow peek maxBy maxByOrNull minBy minByOrNull poll pop pop_front removeFirst
    removeLast shift single singleOrNull top unwrap unwrap_or unwrap_or_default unwrap_or_else
    expect nth sample detect take_first front_mut last_mut first_mut get_mut value
    """.split()
)
"""Methods of these types that return what they contain."""
_OPENING = {"<": ">", "[": "]", "(": ")"}


@lru_cache(maxsize=1 << 12)
def read_type(text: str) -> str:
    """Return a type as its name with arguments in `<>`; empty if it has no name."""
    unquoted = _QUOTED.sub(r"\2", text.lstrip(": "))
    tokens = _TOKEN.findall(unquoted.replace("::<", "<").replace("<-", ""))
    if len(tokens) > MAX_TOKENS:
        return ""
    return _Reader(tokens).union(0)


def with_names(written: str, name: Callable[[str], str]) -> str:
    """Replace each name of a type that `read_type` returned."""
    return _NAME.sub(lambda match: name(match[0]), written)


class _Reader:
    """Reads tokens from the left."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._at = 0

    @property
    def _next(self) -> str:
        if self._at >= len(self._tokens):
            return ""
        return self._tokens[self._at]

    def _take(self, token: str) -> bool:
        if self._next != token:
            return False
        self._at += 1
        return True

    def union(self, depth: int) -> str:
        """Read `A | B`, of which the first counts that is not null."""
        meant = self._array(depth)
        while self._next in ("|", "/", "+", "&") and self._next:
            is_union = self._next in ("|", "/")
            self._at += 1
            alternative = self._array(depth)
            if is_union and meant in _NULLS:
                meant = alternative
        if self._take("is"):  # `value is Store`, of a function that tells it
            narrowed = self.union(depth + 1)
            if not narrowed:
                return ""
            return f"{PREDICATE}<{narrowed}>"
        return meant

    def _array(self, depth: int) -> str:
        """Read a type and the `[]` behind it."""
        meant = self._single(depth)
        while self._next in ("[", "?", "...") or self._next in _MARKS:
            if self._next == "[" and self._tokens[self._at + 1 : self._at + 2] != ["]"]:
                break
            if self._take("["):
                self._at += 1
                meant = f"[]<{meant}>" if meant else ""
            else:
                self._at += 1
        return meant

    def _single(self, depth: int) -> str:
        while self._next in _MARKS or self._next == "." or self._is_word():
            # A lifetime of Rust is a quote and a name.
            self._at += 2 if self._next == "'" else 1
        word = self._next
        if depth > MAX_TYPE_DEPTH or not word or word in _NO_NAME:
            self._at = len(self._tokens)
            return ""
        if word == "[":
            return self._slice(depth)
        if word == "(":
            return self._tuple(depth)
        if not _NAME.match(word):
            return ""
        self._at += 1
        if word == "chan":
            return f"[]<{self.union(depth + 1)}>"
        return self._with_arguments(word.replace("::", ".").rpartition("\\")[2], depth)

    def _is_word(self) -> bool:
        if self._next in _WORDS:
            return True
        if self._next not in _WORDS_BEFORE_NAMES or self._at + 1 >= len(self._tokens):
            return False
        return _NAME.match(self._tokens[self._at + 1]) is not None

    def _slice(self, depth: int) -> str:
        """Read `[]T`, `[4]T`, `[T]`, `[T; 4]` or `[Key: T]`."""
        self._at += 1
        if self._next == "]" or self._next.isdigit():
            inner = ""
        else:
            inner = self.union(depth + 1)
        if self._take(":"):
            inner = self.union(depth + 1)
        self._skip_to("]")
        if self._next and (_NAME.match(self._next) or self._next in "*[(&"):
            inner = self._single(depth + 1)
        return f"[]<{inner}>" if inner else ""

    def _tuple(self, depth: int) -> str:
        parts = self._list(")", depth)
        if self._next in ("=>", "->"):
            self._at = len(self._tokens)
            return ""
        if len(parts) == 1:
            return parts[0]
        if parts:
            return f"()<{','.join(parts)}>"
        return ""

    def _with_arguments(self, name: str, depth: int) -> str:
        if self._next == "<":
            return self._generic(name, self._list(">", depth))
        if self._next != "[" or self._tokens[self._at + 1 : self._at + 2] in (["]"], []):
            return name
        arguments = self._list("]", depth)
        if name == "map":  # `map[Key]Value`
            arguments.append(self._single(depth + 1))
        return self._generic(name, arguments)

    def _generic(self, name: str, arguments: list[str]) -> str:
        if arguments:
            return f"{name}<{','.join(arguments)}>"
        return name

    def _list(self, closing: str, depth: int) -> list[str]:
        """Read types up to a closing bracket; in Go a type may follow a name, in C# precede
        one."""
        self._at += 1
        parts: list[str] = []
        while self._next and self._next != closing:
            begins = self._at
            part = self.union(depth + 1)
            if self._take("="):  # `Iterator<Item = Store>`
                part = self.union(depth + 1)
            if self._next not in (",", closing, ""):
                second = self.union(depth + 1)
                is_name = part[:1].islower() and "<" not in part
                if second and is_name:
                    part = second
            parts.append(part)
            if not self._take(",") and self._next != closing:
                self._skip_to(closing, keeps=True)
            if self._at == begins:  # nothing was read: never stand still
                self._at += 1
        self._take(closing)
        return parts

    def _skip_to(self, closing: str, *, keeps: bool = False) -> None:
        depth = 0
        while self._next:
            if self._next in _OPENING:
                depth += 1
            elif self._next in _OPENING.values():
                if depth == 0 and self._next == closing:
                    self._at += 0 if keeps else 1
                    return
                depth -= 1
            self._at += 1
