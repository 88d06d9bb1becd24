"""What a file states about each entity: signature, docstring, bases, imports, calls, and their
uses.

Everything is looked up by place in what the grammar found, which is sorted. It decides neither what
an entity is (`entities`) nor of what type an object is (`receivers`) nor where a use leads
(`links`). Trade-off: what made a variable, for the card of a test, is found by patterns at the
places of its name.
"""

import inspect
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache, partial
from itertools import accumulate
from operator import itemgetter
from typing import Any, TypeVar

from xscore.indexer.captures import Definition, Import, Syntax
from xscore.indexer.entities import Entity
from xscore.indexer.languages import names_in
from xscore.indexer.library_names import BUILTIN_NAMES
from xscore.indexer.modules import module_reference
from xscore.indexer.syntax import NameUse, SourceFile, local_name

MAX_NAMES = 60
"""Most calls kept of one entity."""
MAX_SIGNATURE_CHARS = 2_000
MAX_DECORATOR_ROWS = 3
"""Most rows of a decorator that is part of the signature."""

_OWN_CRATE = frozenset({"crate", "self", "super"})
_WORD = re.compile(r"[A-Za-z_$][\w$]*")
_PLAIN_CALL = re.compile(r"(?:super\(\)|[\w$]+)(?:\??\.#?[\w$]+)*\Z")
_LAST_NAME = re.compile(r"(?<![\w$])[\w$]+\Z")
_NAMESPACE_WORDS = frozenset(
    {"namespace", "inline", "extern", "mod", "pub", "crate", "cfg", "test"}
)
_QUOTES = re.compile(r"\A[A-Za-z]{0,2}(\"\"\"|'''|\"|'|`)|(\"\"\"|'''|\"|'|`)\Z")
_COMMENT_MARKS = re.compile(
    r"^[ \t]*+(?:/\*\*?|\*/|\*|//+!?|#+|;+)[ \t]?|([ \t]++)(?:\*/[ \t]*+$)?|\*/[ \t]*+$",
    re.MULTILINE,
)
"""Matches the marks of a comment, or blanks: a run of them is read once, and stays where no
mark follows."""


Place = TypeVar("Place", bound="tuple[int, *tuple[Any, ...]]")
"""An occurrence: its byte, and what is there."""


class FileFacts:
    """Facts about spans of one file's text."""

    def __init__(self, source: SourceFile, syntax: Syntax) -> None:
        self.source: SourceFile = source
        self.syntax: Syntax = syntax
        self.lines: list[str] = source.lines
        self.data: bytes = source.text.encode()
        sizes = (len(line.encode()) + 1 for line in self.lines)
        self.row_bytes: list[int] = list(accumulate(sizes, initial=0))
        """First byte of each row, and of a row after the last."""
        self._last_byte = len(self.data)
        self._signature = cache(self._find_signature)
        self.reference: Callable[[str], str] = cache(
            partial(
                module_reference, path=source.path, separator=source.language.module_separator
            )
        )
        """Returns how the store names a module that this file imports; empty if it is
        outside."""
        self.imported: dict[str, Import] = {}
        """Imports by the name that they have in this file."""
        for imported in syntax.imports:
            self.imported.setdefault(local_name(imported, source.language), imported)
        self.imported.pop("", None)
        self.namespace_words: set[str] = _namespace_words(syntax.definitions)
        self.suite_names: frozenset[str] = _suite_names(syntax.definitions)
        """Functions that suites of tests define."""
        self.defined_names: frozenset[str] = frozenset(d.name for d in syntax.definitions)
        self._library = names_in(source.language.library)
        self.own_names: frozenset[str] = self.defined_names if source.is_test else frozenset()
        """Names that a file of tests defines for itself."""
        values = list(syntax.constants)
        values += [(d.start, d.name) for d in syntax.definitions if d.kind in {"type", "alias"}]
        self._values: list[tuple[int, str]] = sorted(
            (row, name) for row, name in values if name not in self.imported
        )

    def values(self, start: int, end: int) -> tuple[str, ...]:
        """Return the module-level values and types that begin on these rows."""
        names = dict.fromkeys(name for _, name in _between(self._values, start, end + 1))
        return tuple(names)[:MAX_NAMES]

    def calls(self, start: int, end: int, holes: Sequence[tuple[int, int]] = ()) -> list[str]:
        """Return the names called between two bytes, as written, each once. holes: spans to leave
        out."""
        calls = self.outside(holes, self.syntax.calls, start, end)
        names = dict.fromkeys(_call_name(written) for _, written in calls)
        names.pop("", None)
        return list(names)[:MAX_NAMES]

    def outside(
        self, holes: Sequence[tuple[int, int]], places: Sequence[Place], start: int, end: int
    ) -> Iterator[Place]:
        """Yield those of the places between two bytes that are in no hole."""
        inside = places[first_from(places, start) : first_from(places, end)]
        if not holes:
            yield from inside
            return
        begins = sorted(holes)
        ends = list(accumulate((stop for _, stop in begins), max, initial=-1))
        for place in inside:
            if place[0] >= ends[bisect_right(begins, (place[0], self._last_byte))]:
                yield place

    def value_uses(
        self, start: int, end: int, holes: Sequence[tuple[int, int]] = ()
    ) -> list[NameUse]:
        """Return what is imported and used between two bytes other than by a call; a value, if
        `links` finds one."""
        if not self.syntax.values:
            return []
        places = self.outside(holes, self.syntax.values, start, end)
        names = dict.fromkeys(self._value_use(written) for _, written in places)
        uses = [
            NameUse(name, f"value:{hint}", is_reference=True) for name, hint in names if hint
        ]
        return uses[:MAX_NAMES]

    def _value_use(self, written: str) -> tuple[str, str]:
        """Return the name and where it is defined, empty if that is outside: `LIMIT` and
        `REF#config`."""
        head, *rest = words = written.split(".")
        separator = self.source.language.module_separator
        if rest and separator == "::":
            name, hint = self.path_of(words)
            return name, hint.removeprefix("mod:") if hint.startswith("mod:") else ""
        imported = self.imported[head]
        target = self.reference(imported.module)
        if imported.name:
            if rest:
                return rest[0], f"{target}#{imported.name}"
            return imported.name, "" if imported.name == "default" else target
        if not imported.alias and separator == ".":
            # `import a.b` is used as `a.b.LIMIT`: the module's own parts are not values of it.
            module = imported.module.split(".")
            if words[: len(module)] == module:
                rest = words[len(module) :]
            else:
                rest = []
        if rest:
            return (rest[0], target)
        return (head, "")

    def complexity(self, start: int, end: int) -> int:
        """1 + branches between two bytes."""
        branches = self.syntax.branches
        return 1 + bisect_left(branches, end) - bisect_left(branches, start)

    def bases(self, entity: Entity) -> list[str]:
        """Return the base classes, and the modules that the body mixes in."""
        d = entity.definition
        holes = [(m.definition.start_byte, m.definition.end_byte) for m in entity.members]
        end = max(d.end_byte, d.start_byte + 1)
        return [name for _, name in self.outside(holes, self.syntax.bases, d.start_byte, end)]

    def docstring(self, entity: Entity | None = None) -> str:
        """Return the first string of the body, or the comment above; without an entity, that of the
        file."""
        body = 0
        end = len(self.data)
        if entity is not None:
            body = entity.definition.body_byte
            end = entity.definition.end_byte
        first = bisect_left(self.syntax.docs, (body, ""))
        for byte, written in self.syntax.docs[first : first + 1]:
            if byte == body or (body < end and not _has_code(self.data[body:byte])):
                text = _QUOTES.sub("", written.strip())
                if "\n" in text:
                    return inspect.cleandoc(text)
                return text.expandtabs().lstrip()
        if entity is None or not entity.leads:
            return ""
        above = "\n".join(self._decode(lead.start_byte, lead.end_byte) for lead in entity.leads)
        unmarked = _COMMENT_MARKS.sub(_blanks_alone, above).split("\n")
        comment = "\n".join(line for line in unmarked if not line.startswith("@"))
        return inspect.cleandoc(comment.strip())

    def _decode(self, start: int, end: int) -> str:
        return self.data[start:end].decode("utf-8", "replace")

    def signature(self, entity: Entity) -> str:
        """Return the definition up to its body, as written, with short decorators."""
        return self._signature(entity.definition)

    def _find_signature(self, d: Definition) -> str:
        decorators: list[str] = []
        if d.inner_start - d.start <= MAX_DECORATOR_ROWS:
            decorators = self.lines[d.start : d.inner_start]
        head = self._decode(d.inner_start_byte, self._head_end(d))
        row = self.lines[d.inner_start]
        # Modifiers before the definition, such as `export default`.
        before = ""
        if head:
            before = row[: row.find(head.split("\n", 1)[0])]
        if before.strip() and re.fullmatch(r"[\w\s]*", before):
            head = before.lstrip() + head
        indent = len(row) - len(row.lstrip())
        indented_head = " " * indent + head
        rows: list[str] = []
        for line in (*decorators, *indented_head.split("\n")):
            own_indent = len(line) - len(line.lstrip())
            rows.append(line[min(indent, own_indent) :])
        text = "\n".join(rows).rstrip()
        return text.rstrip("{,").rstrip()[:MAX_SIGNATURE_CHARS]

    def _head_end(self, definition: Definition) -> int:
        """Return where the header ends: at the body, or at comments before it."""
        end = definition.body_byte
        before = bisect_left(self.syntax.leads, end, key=lambda lead: lead.start_byte)
        for lead in reversed(self.syntax.leads[:before]):
            if lead.start_byte < definition.inner_start_byte:
                break
            if self.data[lead.end_byte : end].strip():
                break
            end = lead.start_byte
        return end

    def imports(self, first: int, last: int, *, shown: str | None = None) -> tuple[str, ...]:
        """Return what the file imports and these rows use. shown: their text, where some of it is
        left out."""
        start = self.row_bytes[first]
        end = self.row_bytes[last + 1]
        used = {name for _, name in _between(self.syntax.places, start, end)}
        if used and shown is not None:
            used.intersection_update(_WORD.findall(shown))
        if not used:
            return ()
        names: dict[str, None] = {}
        for name, imported in self.imported.items():
            if name in used:
                names[_import_name(imported, self.source.language.module_separator)] = None
        return tuple(names)

    def file_uses(self) -> list[NameUse]:
        """Return one use per import statement of the file: file -> module."""
        uses: dict[NameUse, None] = {}
        for imported in self.syntax.imports:
            if not self.source.language.module_separator:  # `#include "pkg/x.h"`
                place = imported.module.strip("<>")
                uses.setdefault(NameUse(place.rpartition("/")[2], f"path:{place}"))
                continue
            target = self.reference(imported.module)
            if not target:
                continue
            hint = f"import:{target}"
            if imported.name and imported.alias and imported.alias != imported.name:
                hint += f"#{imported.alias}"
            uses.setdefault(NameUse(imported.name or target.rpartition("/")[2], hint))
        if "#" not in self.source.path:
            for name, alias in self.syntax.exports[:MAX_NAMES]:
                uses.setdefault(NameUse(name, f"import:./{self.source.path}#{alias}"))
        return list(uses)

    def bases_used(self, entity: Entity) -> list[NameUse]:
        """Return the base classes as names with hints for `links`."""
        named = (self._base_use(base) for base in self.bases(entity))
        return [
            NameUse(*use, is_reference=True) for use in dict.fromkeys(named) if use is not None
        ]

    def _base_use(self, base: str) -> tuple[str, str] | None:
        """Return a base's name and hint; of `Utils::Html` with all that comes before it, unless
        that is imported."""
        above, _, name = base.rpartition(".")
        is_nested = "." in above and above.partition(".")[0] not in self.imported
        if is_nested:
            return (name, f"typed:{above}")
        return self.named_use(base, "")

    def named_use(
        self, call: str, owner: str, *, is_path: bool | None = None
    ) -> tuple[str, str] | None:
        """Return the name and the hint of a call as written; None if it says nothing about this
        repository.

        is_path: whether Rust writes it with `::`; None: see the text.
        """
        head, *rest = call.replace("?.", ".").split(".")
        name = rest[-1] if rest else head
        if rest and head != "Self":
            if is_path is None:
                is_path = self._is_path(call)
            if is_path:
                return self.path_of([head, *rest])
        if head in self.imported and not (
            rest and self.source.language.module_separator == "::"
        ):
            return self._imported(self.imported[head], head, rest)
        is_own = bool(rest) and head in self.source.language.receivers
        if is_own and owner and len(rest) == 1:
            whose = "super" if head.startswith("super") else "self"
            return name, f"{whose}:{owner}"
        if len(rest) == 1 and head[:1].isupper():  # `Class::create`, of the same namespace
            # `Object.assign`.
            is_foreign = head in BUILTIN_NAMES and head not in self.defined_names
            return None if is_foreign else (name, f"typed:{head}")
        if self._says_nothing(name, has_object=bool(rest)):
            return None
        hint = f"of:{head}" if len(rest) == 1 and not is_own else "?"
        return name, hint if rest else ""

    def _says_nothing(self, name: str, *, has_object: bool) -> bool:
        """Whether any program calls something of this name, and this file means none of its own."""
        is_short = len(name) < 2 and not name.isupper()
        of_library = has_object and name in self._library
        if not (is_short or of_library or name in BUILTIN_NAMES):
            return False
        if has_object:
            return True
        # In Go, another file of the package may define it.
        may_be_own = name in self.defined_names or self.source.language.has_folder_modules
        return not may_be_own

    def _is_path(self, call: str) -> bool:
        """Whether Rust writes this call with `::`, so that its head is a module or a type and no
        variable."""
        if self.source.language.module_separator != "::":
            return False
        return call.replace(".", "::") in self.source.text

    def path_of(self, parts: list[str]) -> tuple[str, str]:
        """`walk::Walker::new` -> `new` of `Walker` in the module that `walk` means here."""
        imported = self.imported.get(parts[0])
        if imported is not None and imported.name:
            parts = [*imported.module.split("::"), imported.name, *parts[1:]]
        *above, owner, name = parts
        if owner in _OWN_CRATE:
            return name, f"mod:{self.reference('::'.join((*above, owner)))}"
        if not above:  # a type of this module, or a module within the file
            return name, f"typed:{owner}"
        return name, f"mod:{self.reference('::'.join(above))}#{owner}"

    def _imported(
        self, imported: Import, head: str, rest: Sequence[str]
    ) -> tuple[str, str] | None:
        target = self.reference(imported.module)
        if not target:
            return None
        has_name = imported.name not in {"", "default", "*"}
        if not rest:
            default = (head, f"mod:{target}#default")
            return (imported.name, f"mod:{target}") if has_name else default
        if has_name:
            return rest[-1], f"mod:{target}#{imported.name}"
        if not imported.alias and len(rest) > 1:
            return rest[-1], "mod:" + "/".join([head, *rest[:-1]])
        if not imported.alias and self.source.language.module_separator == ".":
            return rest[-1], f"mod:{head}"
        return rest[-1], f"mod:{target}"


def _namespace_words(definitions: Sequence[Definition]) -> set[str]:
    """Return the words of namespaces, which are not content of the rows that open them."""
    spaces = [d.name for d in definitions if d.kind == "namespace"]
    if not spaces:
        return set()
    return {*re.findall(r"\w+", " ".join(spaces)), *_NAMESPACE_WORDS}


def _suite_names(definitions: Sequence[Definition]) -> frozenset[str]:
    suites = [(d.start_byte, d.end_byte) for d in definitions if d.kind == "suite"]
    if not suites:
        return frozenset()
    names: set[str] = set()
    for d in definitions:
        if d.kind == "function" and any(start < d.start_byte < end for start, end in suites):
            names.add(d.name)
    return frozenset(names)


def first_from(places: Sequence[Place], byte: int) -> int:
    """Return the index of the first place at a byte or behind it."""
    return bisect_left(places, byte, key=itemgetter(0))


def within(places: Sequence[Place], start: int, end: int) -> Sequence[Place]:
    """Return the places from one byte up to another."""
    return places[first_from(places, start) : first_from(places, end)]


def _between(
    places: Sequence[tuple[int, str]], start: int, end: int
) -> Sequence[tuple[int, str]]:
    return places[bisect_left(places, (start, "")) : bisect_left(places, (end, ""))]


def _import_name(imported: Import, separator: str) -> str:
    if not imported.name or imported.name == "*":
        return imported.module
    joint = "" if imported.module.endswith(separator) else separator
    return imported.module + (joint if separator == "." else ":") + imported.name


@lru_cache(maxsize=1 << 13)
def _call_name(written: str) -> str:
    if _PLAIN_CALL.match(written):
        return written
    last = _LAST_NAME.search(written)
    if last:
        return f"?.{last[0]}"
    return ""


def _blanks_alone(match: re.Match[str]) -> str:
    if match[0] == match[1]:
        return match[0]
    return ""


def _has_code(data: bytes) -> bool:
    rows = data.decode("utf-8", "replace").split("\n")
    return any(row.strip() and not row.lstrip().startswith("#") for row in rows)


_WORD_CHAR = re.compile(r"\w")
_BEHIND = frozenset(" \t\n\r\f\v?:=,;)")
"""Characters that may follow a name that is given a value there; most names are followed by a dot
and are passed over."""
_MADE = re.compile(r"\s*=\s*(?:await\s+|new\s+)*([\w$.]+)\(")
"""Matches what follows the name in `store = Store(`."""
_OPENED_AS = re.compile(r"\bwith\s+([\w.]+)\(.*\)\s+as\s+\Z")
"""Matches what precedes the name in `with Store(…) as store`."""
_OPENED_CHARS = 400
"""How much of the line before a name is looked at."""


def made_by(name: str, text: str) -> str:
    """Return what last made a variable: `Store` of `store = Store(…)` or of `with Store(…) as
    store`; otherwise nothing."""
    maker = ""
    for place, end in _places(text, name):
        line_start = text.rfind("\n", max(0, place - _OPENED_CHARS), place) + 1
        before = text[max(line_start, place - _OPENED_CHARS) : place]
        match = _MADE.match(text, end) or _OPENED_AS.search(before)
        maker = match[1] if match else maker
    return maker


def _places(text: str, name: str) -> Iterator[tuple[int, int]]:
    """Yield where a name is a word and may be stated, as start and end."""
    place = text.find(name)
    while place >= 0:
        end = place + len(name)
        if text[end : end + 1] in _BEHIND and not (place and _WORD_CHAR.match(text, place - 1)):
            yield place, end
        place = text.find(name, end)
