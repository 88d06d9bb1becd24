"""Definitions that a language's query finds, against universal-ctags: recall and precision.

    python benchmarks/definitions.py rust PATH [--show 10]

PATH is a source tree; ctags (https://ctags.io, built with JSON) must be on the path. A
definition counts as found if one of ours has its name and its line. Two kinds of tags are in a
memory of ours without being one, and are counted apart: what is inside a function or a test,
and a signature without a body.
"""

import argparse
import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from xscore.indexer.entities import outline
from xscore.indexer.languages import language_of
from xscore.indexer.memories import source_file
from xscore.indexer.syntax import GrammarGaveUp, parse_syntax

CTAGS_NAMES = {
    "go": ("Go", "func struct interface type"),
    "rust": ("Rust", "function method struct enum interface macro typedef implementation"),
    "java": ("Java", "class interface enum method annotation"),
    "c": ("C", "function struct union enum typedef macro"),
    "cpp": ("C++", "function class struct union enum typedef macro"),
    "csharp": ("C#", "class interface enum method struct"),
    "ruby": ("Ruby", "class method module singletonMethod"),
    "php": ("PHP", "class interface function trait"),
    "shell": ("Sh", "function"),
    "lua": ("Lua", "function"),
    "kotlin": ("Kotlin", "class interface object method"),
    "elixir": ("Elixir", "module function macro protocol implementation guard"),
    "python": ("Python", "class function member"),
}
"""Our name of a language -> its name and the kinds of definitions at ctags."""

TITLED = ""
"""The name of a test that is named by its title: ctags knows none."""

WITHOUT_BODIES = frozenset({"java", "csharp", "php", "cpp", "kotlin"})
"""Languages whose tags include signatures."""


class Definition(NamedTuple):
    """One definition: the last part of its name, without type parameters; lines from 1."""

    path: str
    name: str
    start: int
    end: int
    is_whole: bool = False
    """What is defined inside belongs to it."""


def plain_name(written: str) -> str:
    """`a::B<T>.c#2` -> `c`."""
    name = re.sub(r"#\d+", "", written)
    while name != (shorter := re.sub(r"<[^<>]*>", "", name)):
        name = shorter
    return re.split(r"::|[.:]", name)[-1].split(" ")[-1]


def by_ctags(files: list[Path], language: str) -> tuple[list[Definition], set[tuple[str, str]]]:
    """Return what ctags finds of our kinds, and the path and name of everything that it finds."""
    name, kinds = CTAGS_NAMES[language]
    command = [
        "ctags",
        "--options=NONE",
        "--output-format=json",
        "--fields=+neKS",
        "-f",
        "-",
        f"--language-force={name}",
    ]
    listed = subprocess.run(
        [*command, *map(str, files)], capture_output=True, text=True, check=True
    ).stdout
    tags = [json.loads(line) for line in listed.splitlines()]
    definitions = [
        Definition(
            tag["path"], plain_name(tag["name"]), tag["line"], tag.get("end", tag["line"])
        )
        for tag in tags
        if tag.get("kind") in kinds.split()
        and plain_name(tag["name"])
        and not tag["name"].startswith(("__anon", "TEST", "TYPED_TEST"))
        and (tag["kind"] != "macro" or name in ("Rust", "Elixir") or tag.get("signature"))
    ]
    return definitions, {(tag["path"], plain_name(tag["name"])) for tag in tags}


def by_queries(files: list[Path]) -> list[Definition]:
    """Return what our queries find, but for titles of tests and blocks named by their header."""
    definitions: list[Definition] = []
    for path in files:
        source = source_file(str(path), path.read_text("utf-8", "replace"), window_lines=50)
        try:
            entities = outline(
                parse_syntax(source.text.encode(), source.language), source.lines
            )
        except GrammarGaveUp as error:
            print(f"{path}: {error}", file=sys.stderr)
            continue
        for entity in entities:
            kind = entity.definition.kind
            name = entity.definition.owner if kind == "extension" else plain_name(entity.name)
            if kind in {"test", "suite"} and source.language.name != "rust":
                name = TITLED
            is_whole = kind in {"function", "method", "test", "suite"}
            definitions.append(
                Definition(str(path), name, entity.start + 1, entity.end + 1, is_whole)
            )
    return definitions


def is_signature(tag: Definition, language: str) -> bool:
    """Return whether the declaration at a tag ends before any body: by `;`, or in Kotlin with its
    line."""
    rows = (
        Path(tag.path)
        .read_text("utf-8", "replace")
        .splitlines()[tag.start - 1 : tag.start + 20]
    )
    text = re.sub(r"//.*", "", "\n".join(rows))
    while text != (shorter := re.sub(r"\([^()]*\)|<[^<>]*>", "", text)):
        text = shorter
    ends = re.search(r"[;{=]" if language != "kotlin" else r"[\n{=]", text)
    return ends is not None and ends[0] in ";\n"


class Comparison(NamedTuple):
    """What ctags and our queries find in the files of one language."""

    theirs: list[Definition]
    absent: list[Definition]
    """Tags at which we have no definition."""
    inside: set[Definition]
    """The definitions among these that are inside a function or a test of ours."""
    signatures: set[Definition]
    named: list[Definition]
    """Ours that have a name."""
    extra: list[Definition]
    """Our definitions that ctags does not know."""

    @property
    def missed(self) -> list[Definition]:
        """Tags that should be ours and are not."""
        return [tag for tag in self.absent if tag not in self.inside | self.signatures]


def compare(files: list[Path], language: str) -> Comparison:
    """Compare the definitions of these files."""
    theirs, tagged = by_ctags(files, language)
    ours = by_queries(files)
    same_name: dict[tuple[str, str], list[Definition]] = defaultdict(list)
    wholes: dict[str, list[Definition]] = defaultdict(list)
    for definition in ours:
        same_name[definition.path, definition.name].append(definition)
        if definition.is_whole:
            wholes[definition.path].append(definition)
    absent: list[Definition] = []
    inside: set[Definition] = set()
    signatures: set[Definition] = set()
    for tag in theirs:
        if is_within(tag, same_name[tag.path, tag.name]):
            continue
        absent.append(tag)
        if is_within(tag, wholes[tag.path]):
            inside.add(tag)
        elif language in WITHOUT_BODIES and is_signature(tag, language):
            signatures.add(tag)
    named = [definition for definition in ours if definition.name != TITLED]
    extra = [
        definition for definition in named if (definition.path, definition.name) not in tagged
    ]
    return Comparison(theirs, absent, inside, signatures, named, extra)


def is_within(tag: Definition, definitions: list[Definition]) -> bool:
    """Return whether a tag lies within the lines of one of these."""
    return any(around.start <= tag.start <= around.end for around in definitions)


def main() -> None:
    """Print recall, precision and some of what differs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("language", choices=CTAGS_NAMES)
    parser.add_argument("path", type=Path)
    parser.add_argument("--show", type=int, default=10, help="how many differences to name")
    options = parser.parse_args()
    name = options.language
    files = [
        path
        for path in options.path.rglob("*")
        if path.is_file() and language_of(str(path)).name == name
    ]
    compared = compare(files, name)
    tags, missed, absent = len(compared.theirs), compared.missed, len(compared.absent)
    expected = tags - len(compared.inside) - len(compared.signatures)
    recall = 1 - len(missed) / max(1, expected)
    precision = 1 - len(compared.extra) / max(1, len(compared.named))
    print(
        f"{name}: {len(files)} files, {tags} tags, {len(compared.inside)} inside a function or a"
        f" test, {len(compared.signatures)} signatures; recall of the others {recall:.3f} (of"
        f" all {1 - absent / max(1, tags):.3f}), precision {precision:.3f}"
    )
    for label, definitions in (("missed", missed), ("only ours", compared.extra)):
        longest_first = sorted(
            definitions, key=lambda differing: differing.start - differing.end
        )
        for definition in longest_first[: options.show]:
            place = f"{definition.path}:{definition.start}-{definition.end}"
            print(f"  {label}: {place} {definition.name}")


if __name__ == "__main__":
    main()
