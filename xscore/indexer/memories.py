"""Turn the text of any file into its memories and mentions.

The language's row says how to cut; if a grammar gives up, the file is cut into windows of lines,
with a note. It runs in the parsing processes: all expensive work per file, redaction included,
happens before the store is involved.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

from msgspec.structs import replace

from xscore.indexer import code, config_blocks, embedded, prose_sections, sections
from xscore.indexer.captures import Syntax
from xscore.indexer.first_lines import language_of_file
from xscore.indexer.grammars import grammar_problem, has_grammar
from xscore.indexer.languages import FileShape, add_languages, is_test_path
from xscore.indexer.manifests import declared_modules
from xscore.indexer.parse_jobs import ParseJob
from xscore.indexer.syntax import GrammarGaveUp, MemoryDraft, NameUse, SourceFile, parse_syntax
from xscore.platform.hashing import file_id
from xscore.records.indexing import Mention
from xscore.records.memory import (
    CODE_KINDS,
    WITHIN,
    Kind,
    Layer,
    Memory,
    MemorySource,
    Relation,
)
from xscore.store import memory_writer
from xscore.store.encoded_files import EncodedFile, encode_file
from xscore.store.redaction import find_literals, is_safe_name
from xscore.store.secret_screen import FoundLiterals


def parse_file(job: ParseJob) -> EncodedFile:
    """Cut and redact one file and encode its rows, which is all that a parsing process is for."""
    add_languages(job.languages)
    source = source_file(job.stamp.path, job.text, window_lines=job.window_lines)
    drafts, uses, note = cut_file(source, without_grammar=job.without_grammar)
    note = f"{note}; cut into windows of lines" if note else ""
    return _encoded(job, source, drafts, uses, note)


def source_file(path: str, text: str, *, window_lines: int) -> SourceFile:
    """Return the file with its language and whether it holds tests."""
    language = language_of_file(path, text)
    return SourceFile(path, text, language, is_test_path(path, language), window_lines)


def cut_file(
    source: SourceFile, *, without_grammar: str = ""
) -> tuple[list[MemoryDraft], list[NameUse], str]:
    """Return the drafts of a file, the uses of the file itself, and a note if the grammar could not
    be used."""
    if without_grammar:
        return sections.cut_windows(source), [], without_grammar
    if not source.text.strip():
        return [], [], ""
    language = source.language
    syntax = None
    if has_grammar(language):  # some come with an extra; `status` says which are missing
        try:
            syntax = parse_syntax(source.text.encode(), language)
        except GrammarGaveUp as error:
            return sections.cut_windows(source), [], str(error)
    if syntax is not None and language.shape is FileShape.CODE:
        return *code.cut_code(source, syntax), ""
    drafts, uses = _cut_by_shape(source, syntax)
    return drafts, uses, ""


def _cut_by_shape(
    source: SourceFile, syntax: Syntax | None
) -> tuple[list[MemoryDraft], list[NameUse]]:
    match source.language.shape:
        case FileShape.PAGE:
            return embedded.cut_page(source)
        case FileShape.CELLS:
            return embedded.cut_cells(source)
        case FileShape.PROSE:
            return prose_sections.cut_prose(source, syntax), []
        case FileShape.CONFIG:
            return config_blocks.cut_config(source, syntax), declared_modules(source)
        case FileShape.BLOCKS:
            return config_blocks.cut_blocks(source), []
        case _:
            return sections.cut_windows(source), declared_modules(source)


def _encoded(
    job: ParseJob,
    source: SourceFile,
    drafts: Sequence[MemoryDraft],
    uses: Iterable[NameUse],
    note: str,
) -> EncodedFile:
    memories: list[Memory] = []
    mentions: list[Mention] = []
    seen: Counter[tuple[str, str]] = Counter()
    redacted = 0
    # Secrets are looked for in all texts of the file at once: that is much faster.
    literals = _literals_of(source, drafts)
    types: dict[str, dict[str, str]] = {}
    for draft in drafts:
        ordinal = seen[draft.kind, draft.entity]
        memory, secrets = _make_memory(job, source, draft, ordinal=ordinal, literals=literals)
        seen[draft.kind, draft.entity] += 1
        redacted += secrets
        memories.append(memory)
        mentions += [_mention(use, source.path, memory) for use in draft.uses]
        if draft.types:
            types[memory.id] = draft.types
    mentions += [_mention(use, source.path) for use in uses]
    stamp = replace(job.stamp, language=source.language.name)
    namable, safe_types = _namable([*dict.fromkeys(mentions)], types)
    return encode_file(
        stamp,
        memories,
        namable,
        types=safe_types,
        secrets_redacted=redacted,
        note=note,
        # What ended one process may not be loaded into the next.
        lacks_grammar=not job.without_grammar and bool(grammar_problem(source.language)),
    )


def _literals_of(source: SourceFile, drafts: Sequence[MemoryDraft]) -> FoundLiterals:
    has_settings = source.path.endswith(memory_writer.SETTINGS_FILES)
    has_settings = has_settings or any(draft.kind is Kind.CONFIG for draft in drafts)
    return find_literals(chain.from_iterable(map(_texts_of, drafts)), prose=has_settings)


def _make_memory(
    job: ParseJob,
    source: SourceFile,
    draft: MemoryDraft,
    *,
    ordinal: int,
    literals: FoundLiterals,
) -> tuple[Memory, int]:
    """Return the memory of a draft, redacted, and how many secrets that took. literals: those of
    the whole file."""
    return memory_writer.make_memory(
        layer=Layer.GRAPH if draft.kind in CODE_KINDS else Layer.VECTOR,
        kind=draft.kind,
        title=draft.title,
        text=draft.text,
        path=source.path,
        entity=draft.entity,
        card=draft.card,
        ordinal=ordinal,
        start_line=draft.start + 1,
        end_line=draft.end + 1,
        language=source.language.name,
        facts=draft.facts,
        source=MemorySource.INDEX,
        created_at=job.now,
        updated_at=job.mtime_ns / 1e9,
        allow_pii=job.allow_pii,
        literals=literals,
    )


def _texts_of(draft: MemoryDraft) -> tuple[str, ...]:
    """Return every text of a draft that is redacted."""
    facts = draft.facts
    headings = "\n".join((draft.entity, draft.title, facts.signature)).replace(WITHIN, "\n")
    return (
        draft.text,
        draft.card,
        headings,
        facts.docstring,
        *facts.imports,
        *facts.dependencies,
        *facts.defines,
    )


def _namable(
    mentions: Sequence[Mention], types: dict[str, dict[str, str]]
) -> tuple[tuple[Mention, ...], dict[str, dict[str, str]]]:
    """Drop mentions and types with a secret in their name; check them one by one only if all
    together have one."""
    words: set[str] = set()
    for mention in mentions:
        words.add(mention.name)
        words.add(mention.hint)
    for members in types.values():
        words.update(members)
        words.update(members.values())
    if is_safe_name("\n".join(words)):
        return tuple(mentions), types
    safe = {word for word in words if is_safe_name(word)}
    kept = tuple(
        mention for mention in mentions if mention.name in safe and mention.hint in safe
    )
    safe_types: dict[str, dict[str, str]] = {}
    for id_, members in types.items():
        if safe.issuperset(members) and safe.issuperset(members.values()):
            safe_types[id_] = members
    return kept, safe_types


def _mention(use: NameUse, path: str, memory: Memory | None = None) -> Mention:
    if memory is None or use.hint.startswith("import:"):
        return Mention(file_id(path), Relation.IMPORTS, use.name, use.hint)
    if use.is_reference:
        relation = Relation.REFERENCES
    else:
        relation = Relation.TESTS if memory.kind is Kind.TEST else Relation.CALLS
    return Mention(memory.id, relation, use.name, use.hint)
