"""What a parser learns of an entity beside its text: signature, docstring, imports, calls, branches. Pure."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence

from xscore.indexer.languages import Language
from xscore.indexer.modules import reference
from xscore.indexer.outline import Entity
from xscore.indexer.pieces import SourceFile, Use
from xscore.indexer.syntax import Definition, Import, Syntax

MAX_NAMES = 60
"""Calls kept of one entity."""
MAX_SIGNATURE = 2_000
MAX_DECORATOR_ROWS = 3
"""Decorators that take more rows stay in the text and out of the signature."""

AMBIENT = frozenset(
    """
    abs all any append apply assert bind bool bytes call catch clear concat copy create defineProperty dict encode
    decode endswith enumerate entries every expect extend filter find finally float forEach format freeze frozenset
    from get getattr hasattr has id includes indexOf index insert int isArray isinstance issubclass items iter join
    keys len list log lower lstrip map match max min next open pop print property push raises range read reduce
    remove replace repr require resolve reversed rstrip round search set setattr setdefault slice some sort sorted
    splice split startswith startsWith str strip sub sum super test then toBe toEqual toString trim tuple type update
    upper values vars write zip String Number Boolean Object Array Map Set Promise Error Date Symbol RegExp JSON
    ValueError TypeError KeyError RuntimeError AttributeError Exception NotImplementedError IndexError describe it
    """.split()  # noqa: SIM905  read as a list of words
)
"""Names of built-ins and of methods that every container has: they say nothing of this repository."""

_WORD = re.compile(r"[A-Za-z_$][\w$]*")
_PLAIN_CALL = re.compile(r"(?:super\(\)|[\w$]+)(?:\??\.#?[\w$]+)*\Z")
_LAST_NAME = re.compile(r"[\w$]+\Z")
_QUOTES = re.compile(r"\A[A-Za-z]{0,2}(\"\"\"|'''|\"|'|`)|(\"\"\"|'''|\"|'|`)\Z")
_COMMENT_MARKS = re.compile(r"^[ \t]*(?:/\*\*?|\*/|\*|//+!?|#+|;+)[ \t]?|[ \t]*\*/[ \t]*$", re.MULTILINE)


class FileFacts:
    """The facts of one file, asked for by span."""

    def __init__(self, source: SourceFile, found: Syntax) -> None:
        self.source = source
        self._data = source.text.encode()
        self._found = found
        self._language: Language = source.language
        self._call_bytes = [byte for byte, _ in found.calls]
        self._lead_bytes = [lead.start_byte for lead in found.leads]
        self._docs = dict(found.docs)
        self._imports = _by_local_name(found.imports, source.language)

    def calls(self, start: int, end: int, holes: Sequence[tuple[int, int]] = ()) -> list[str]:
        """Names called between two bytes, as written, each once, without what lies in the holes."""
        low, high = bisect_left(self._call_bytes, start), bisect_left(self._call_bytes, end)
        names: dict[str, None] = {}
        for byte, written in self._found.calls[low:high]:
            if not any(a <= byte < b for a, b in holes):
                names.setdefault(_call_name(written))
        names.pop("", None)
        return list(names)[:MAX_NAMES]

    def complexity(self, start: int, end: int) -> int:
        """1 + branches between two bytes."""
        return 1 + bisect_left(self._found.branches, end) - bisect_left(self._found.branches, start)

    def bases(self, entity: Entity) -> list[str]:
        """Classes that this class builds on."""
        d = entity.definition
        return [name for byte, name in self._found.bases if d.start_byte <= byte < max(d.body_byte, d.start_byte + 1)]

    def docstring(self, entity: Entity) -> str:
        """The first string of the body, or the comment above."""
        written = self._docs.get(entity.definition.body_byte, "")
        if not written and entity.definition.body_byte < entity.definition.end_byte:
            written = self._doc_behind_comments(entity.definition.body_byte)
        if written:
            return clean_string(written)
        data = self._data
        return clean_comment(
            "\n".join(data[a.start_byte : a.end_byte].decode("utf-8", "replace") for a in entity.leads)
        )

    def module_docstring(self) -> str:
        """The first string of the file."""
        for byte, written in self._found.docs[:1]:
            if not _has_code(self._data[:byte]):
                return clean_string(written)
        return ""

    def _doc_behind_comments(self, body: int) -> str:
        near = [byte for byte in self._docs if body < byte]
        return self._docs[near[0]] if near and not _has_code(self._data[body : near[0]]) else ""

    def signature(self, entity: Entity, lines: Sequence[str]) -> str:
        """From the definition's first line up to its body, as written; short decorators included."""
        d = entity.definition
        decorators = lines[d.start : d.inner_start] if d.inner_start - d.start <= MAX_DECORATOR_ROWS else []
        head = self._data[d.inner_start_byte : self._head_end(d)].decode("utf-8", "replace")
        row = lines[d.inner_start]
        before = row[: row.find(head.split("\n", 1)[0])] if head else ""
        if before.strip() and re.fullmatch(r"[\w\s]*", before):
            head = before.lstrip() + head
        indent = len(row) - len(row.lstrip())
        text = "\n".join([*decorators, " " * indent + head])
        return dedented(text, indent).rstrip().rstrip("{").rstrip()[:MAX_SIGNATURE]

    def _head_end(self, definition: Definition) -> int:
        """Where the header ends: at the body, or at the comments that stand between."""
        end = definition.body_byte
        for lead in reversed(self._found.leads[: bisect_left(self._lead_bytes, end)]):
            if lead.start_byte < definition.inner_start_byte or self._data[lead.end_byte : end].strip():
                break
            end = lead.start_byte
        return end

    def imports(self, text: str) -> tuple[str, ...]:
        """What the file imports and this text uses."""
        words = set(_WORD.findall(text))
        used = [imported for name, imported in self._imports.items() if name in words]
        return tuple(dict.fromkeys(_import_name(i, self._language.module_separator) for i in used))

    def file_uses(self) -> list[Use]:
        """One use per import statement of the file: file -> module."""
        uses: dict[Use, None] = {}
        for imported in self._found.imports:
            target = self._reference(imported.module)
            if target:
                uses.setdefault(Use(imported.name or target.rpartition("/")[2], f"import:{target}"))
        return list(uses)

    def uses(self, calls: Iterable[str], *, owner: str = "", is_reference: bool = False) -> list[Use]:
        """Names as they may resolve to entities of the repository."""
        found = (self._use(call, owner) for call in calls)
        return [Use(name, hint, is_reference) for name, hint in dict.fromkeys(f for f in found if f is not None)]

    def _use(self, call: str, owner: str) -> tuple[str, str] | None:
        head, *rest = call.replace("?.", ".").split(".")
        name = rest[-1] if rest else head
        if head in self._imports:
            return self._imported(self._imports[head], head, rest)
        if rest and head in self._language.receivers:
            return (name, f"self:{owner}") if owner and len(rest) == 1 else _unless_ambient(name, "?")
        if not rest:
            return _unless_ambient(name, "")
        return _unless_ambient(name, f"of:{head}" if len(rest) == 1 else "?")

    def _imported(self, imported: Import, head: str, rest: Sequence[str]) -> tuple[str, str] | None:
        target = self._reference(imported.module)
        if not target:
            return None
        has_name = imported.name not in {"", "default", "*"}
        if not rest:
            return (imported.name, f"mod:{target}") if has_name else (head, f"mod:{target}#default")
        if has_name:
            return rest[-1], f"mod:{target}#{imported.name}"
        if not imported.alias and len(rest) > 1:
            return rest[-1], "mod:" + "/".join([head, *rest[:-1]])
        if not imported.alias and self._language.module_separator == ".":
            return rest[-1], f"mod:{head}"
        return rest[-1], f"mod:{target}"

    def _reference(self, module: str) -> str:
        return reference(module, path=self.source.path, separator=self._language.module_separator)


def _by_local_name(imports: Iterable[Import], language: Language) -> dict[str, Import]:
    local: dict[str, Import] = {}
    for imported in imports:
        bound = imported.alias or imported.name
        if not bound and language.module_separator == ".":
            bound = imported.module.split(".")[0]
        if bound and bound != "*":
            local.setdefault(bound, imported)
    return local


def _import_name(imported: Import, separator: str) -> str:
    if not imported.name or imported.name == "*":
        return imported.module
    joint = "" if imported.module.endswith(separator) else separator
    return imported.module + (joint if separator == "." else ":") + imported.name


def _call_name(written: str) -> str:
    if _PLAIN_CALL.match(written):
        return written
    last = _LAST_NAME.search(written)
    return f"?.{last[0]}" if last else ""


def _unless_ambient(name: str, hint: str) -> tuple[str, str] | None:
    return None if name in AMBIENT or len(name) < 2 else (name, hint)


def _has_code(data: bytes) -> bool:
    rows = data.decode("utf-8", "replace").split("\n")
    return any(row.strip() and not row.lstrip().startswith("#") for row in rows)


def dedented(text: str, indent: int) -> str:
    """Take up to `indent` blanks off the front of each line."""
    return "\n".join(line[min(indent, len(line) - len(line.lstrip())) :] for line in text.split("\n"))


def clean_string(written: str) -> str:
    """A string literal without its quotes and indentation."""
    return _tidy(_QUOTES.sub("", written.strip()))


def clean_comment(written: str) -> str:
    """A comment without its marks."""
    return _tidy("\n".join(line for line in _COMMENT_MARKS.sub("", written).split("\n") if not line.startswith("@")))


def _tidy(text: str) -> str:
    lines = text.strip().split("\n")
    inner = [len(line) - len(line.lstrip()) for line in lines[1:] if line.strip()]
    cut = min(inner, default=0)
    return "\n".join([lines[0], *(line[cut:].rstrip() for line in lines[1:])]).strip()
