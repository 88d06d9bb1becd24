"""Memories for bundles."""

from msgspec.structs import replace

from xscore.platform.hashing import content_hash, memory_id
from xscore.prompts.bundle import render_bundle
from xscore.prompts.bundle_parts import NO_EXTRAS, Bundle, BundleEntry, BundleExtras
from xscore.records.candidates import Candidate
from xscore.records.judgment import Judgment, Origin, Ranked
from xscore.records.memory import (
    CodeFacts,
    Kind,
    Layer,
    Memory,
    MemoryDetails,
    MemorySource,
    MemoryStatus,
    View,
    ViewName,
)
from xscore.settings import BundleSettings

NOW = 1_000_000_000.0
HEADER = "import os\nfrom pathlib import Path"


def memory(
    entity: str,
    text: str,
    *,
    path: str = "src/store.py",
    kind: Kind = Kind.FUNCTION,
    layer: Layer = Layer.GRAPH,
    signature: str = "",
    updated_at: float = NOW,
    start_line: int = 10,
    importance: float = 0.5,
    confidence: float = 1.0,
) -> Memory:
    """A memory as read from the store."""
    hashed = content_hash(path, entity, text)
    return Memory(
        id=memory_id(layer.value, path, kind.value, entity),
        layer=layer,
        kind=kind,
        title=entity,
        text=text,
        views=(View(ViewName.WHOLE, hashed, len(text) // 4),),
        path=path,
        entity=entity,
        start_line=start_line,
        end_line=start_line + text.count("\n"),
        language="python" if path.endswith(".py") else "",
        facts=CodeFacts(signature=signature),
        updated_at=updated_at,
        created_at=updated_at,
        importance=importance,
        confidence=confidence,
    )


def said(
    text: str,
    *,
    kind: Kind = Kind.CONVENTION,
    layer: Layer = Layer.PROJECT,
    days: float = 3.0,
    source: MemorySource = MemorySource.EXPLICIT,
    status: MemoryStatus = MemoryStatus.ACTIVE,
    confidence: float = 1.0,
    title: str = "",
    **particulars: object,
) -> Memory:
    """A memory stated N days before NOW."""
    statement = memory(
        f"said {text}",
        text,
        path="",
        kind=kind,
        layer=layer,
        start_line=0,
        confidence=confidence,
    )
    return replace(
        statement,
        entity="",
        title=title or text.split("\n", maxsplit=1)[0][:60],
        end_line=0,
        source=source,
        status=status,
        updated_at=NOW - days * 86_400,
        created_at=NOW - days * 86_400,
        details=MemoryDetails(**particulars),  # type: ignore[arg-type]  # any of its fields
    )


def entry(
    chosen: Memory, score: float, *, header: str = HEADER, below: bool = False
) -> BundleEntry:
    """A chosen memory with its score."""
    candidate = Candidate(
        chosen.id,
        chosen.content_hash,
        chosen.layer,
        chosen.kind,
        chosen.path,
        chosen.entity,
        1,
        2,
        "",
        1,
        0.0,
    )
    ranked = Ranked(candidate, Judgment(chosen.content_hash, score), Origin.JUDGED, (), score)
    return BundleEntry(
        chosen, ranked, header if chosen.path and chosen.kind is not Kind.DOC else "", below
    )


def bundle(
    entries: list[BundleEntry],
    form: str = "xml",
    *,
    max_tokens: int = 8_000,
    extras: BundleExtras = NO_EXTRAS,
) -> Bundle:
    """Render with the default settings."""
    settings = BundleSettings()
    return render_bundle(
        entries, form=form, max_tokens=max_tokens, settings=settings, now=NOW, extras=extras
    )


CLASS = memory(
    "Store",
    """class Store:
    \'\'\'Keeps things.\'\'\'

    path: Path

    def write(self, row: str) -> None: ...
    def read(self) -> str: ...""",
    kind=Kind.CLASS,
)
WRITE = memory(
    "Store.write",
    "    def write(self, row: str) -> None:\n        self.path.write_text(row)",
    kind=Kind.METHOD,
    signature="def write(self, row: str) -> None:",
    start_line=20,
)
MAIN = memory(
    "main",
    "def main() -> None:\n    Store(Path(os.devnull)).write('x')",
    path="src/app.py",
    signature="def main() -> None:",
)
GUIDE = memory(
    "Install > Linux",
    "Run `make`.\n\n```sh\nmake\n```",
    path="docs/guide.md",
    kind=Kind.DOC,
    layer=Layer.VECTOR,
)
