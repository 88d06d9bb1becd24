"""Documents in files become memories: redacted, cited, refreshed, carried and erased."""

import json
import os
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.extensions.documents.conftest import Moment
from tests.extensions.documents.samples import make_pdf
from tests.programs import run
from xscore.extensions.documents.fetching import DocumentFetcher
from xscore.extensions.transfer.memory_lines import exported_memories, import_lines
from xscore.extensions.transfer.saved_files import Contents, encode_file
from xscore.platform.clock import DAY_S
from xscore.platform.errors import NotFetched, UsageError
from xscore.records.memory import Kind, Layer, MemoryOrigin
from xscore.store.document_rows import passages_of, stored_documents
from xscore.store.lookup import MemoryFilter, filter_memories
from xscore.store.store import Store

RULES = "# Rules\n\nRefunds of the orchard gateway are final after ninety days.\n"
MAIL = "ada@lovelace-mills.io"
KEY = "sk-ant-api03-" + "Ab3dEf6hIj9LmN2pQr5tUv8x" * 3


def write(store: Store, name: str, text: str) -> Path:
    """Write a file of the project."""
    path = store.root.path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_passage_says_where_it_comes_from(
    shelf: Store, fetcher: DocumentFetcher, moment: Moment
) -> None:
    """Its place is the file, its entity the title with the page."""
    (shelf.root.path / "docs").mkdir()
    pdf = make_pdf([["Refunds are final."], ["Quotas hold."]], title="Contract")
    (shelf.root.path / "docs/contract.pdf").write_bytes(pdf)
    kept = fetcher.fetch("docs/contract.pdf")
    assert (kept.place, kept.title, kept.form) == ("docs/contract.pdf", "Contract", "pdf")
    assert (kept.passages, kept.added, kept.redacted) == (2, 2, 0)
    first, second = sorted(passages_of(shelf.connection, [kept.place]), key=lambda m: m.entity)
    assert first.layer == Layer.VECTOR
    assert first.kind == Kind.DOCUMENT
    assert first.origin == MemoryOrigin.DOCUMENT
    assert (first.entity, second.entity) == ("Contract > page 1", "Contract > page 2")
    assert first.title == "docs/contract.pdf: Contract > page 1"
    assert first.updated_at == moment.now


def test_secrets_and_personal_data_are_not_stored(
    shelf: Store, fetcher: DocumentFetcher
) -> None:
    """Neither in the text nor in a heading."""
    path = write(shelf, "key.md", f"# Key {KEY}\n\n{'word ' * 12}{KEY} or {MAIL}.\n")
    assert fetcher.fetch("key.md").redacted >= 2
    path.unlink()
    stored = b"".join(
        path.read_bytes() for path in shelf.path.parent.rglob("*") if path.is_file()
    )
    assert KEY.encode() not in stored and MAIL.encode() not in stored


def test_an_invisible_character_hides_no_secret(shelf: Store, fetcher: DocumentFetcher) -> None:
    """What would end in two lines or passages is found before they are cut."""
    key = "\n".join([f"{number:02}lineOfKey{'x' * 50}" for number in range(90)])
    write(
        shelf,
        "keys.txt",
        f"-----BEGIN RSA PRIVATE\u200b KEY-----\n{key}\n-----END RSA PRIVATE\u200b KEY-----\n\n"
        f'{"word " * 18}pass\u200bword = "Tr0ub4dor&3xyz"\n\n'
        f"{'word ' * 17}api_\x01key: 4f9a8b7c6d5e4f3a2b1c0d9e8f7a6b5c4d3e2f1a\n",
    )
    kept = fetcher.fetch("keys.txt")
    texts = [memory.text for memory in passages_of(shelf.connection, [kept.place])]
    assert texts and kept.redacted >= 3
    for part in ("lineOfKey", "Tr0ub4dor", "4f9a8b7c"):
        assert not any(part in text for text in texts)


def test_a_name_that_begins_like_a_home_is_a_file_here(
    shelf: Store, fetcher: DocumentFetcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that a clone calls `~` leads to nothing of the user's."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    (home / "rules.md").write_text("# Mine\n\nNobody else reads this.\n")
    write(shelf, "~/rules.md", RULES)
    write(shelf, "~nobody.md", RULES)
    for name in ("./~/rules.md", "~nobody.md"):
        kept = fetcher.fetch(name)
        (passage,) = passages_of(shelf.connection, [kept.place])
        assert "ninety days" in passage.text
        assert fetcher.refresh(stored_documents(shelf.connection)[0]).is_unchanged
    with pytest.raises(NotFetched):
        fetcher.fetch("~stranger/rules.md")
    assert fetcher.fetch("~/rules.md").place == "~/rules.md"


def test_a_document_that_is_read_again_keeps_what_stays(
    shelf: Store, fetcher: DocumentFetcher
) -> None:
    """Changed passages keep their id, and those that are gone go."""
    write(shelf, "rules.md", f"{RULES}\n## Old\n\nThis goes away.\n")
    fetcher.fetch("rules.md")
    before = {
        memory.entity: memory.id for memory in passages_of(shelf.connection, ["rules.md"])
    }
    write(shelf, "rules.md", RULES.replace("ninety", "thirty") + "\n## New\n\nThis is added.\n")
    kept = fetcher.fetch("rules.md")
    assert (kept.added, kept.changed, kept.removed, kept.passages) == (1, 1, 1, 2)
    after = {memory.entity: memory for memory in passages_of(shelf.connection, ["rules.md"])}
    assert after["rules.md > Rules"].id == before["rules.md > Rules"]
    assert "thirty days" in after["rules.md > Rules"].text


def test_a_refresh_reads_only_what_changed(
    shelf: Store, fetcher: DocumentFetcher, moment: Moment
) -> None:
    """What did not gets a new date; a file that is gone is named, and stays stored."""
    path = write(shelf, "rules.md", RULES)
    fetcher.fetch("rules.md")
    moment.now += 40 * DAY_S
    (document,) = stored_documents(shelf.connection)
    kept = fetcher.refresh(document)
    assert kept.is_unchanged and kept.passages == 1
    (passage,) = passages_of(shelf.connection, ["rules.md"])
    assert passage.updated_at == moment.now
    path.write_text(RULES + "\n## More\n\nWords.\n")
    os.utime(path, ns=(1, 1))
    (document,) = stored_documents(shelf.connection)
    assert fetcher.refresh(document).passages == 2
    path.unlink()
    (document,) = stored_documents(shelf.connection)
    with pytest.raises(NotFetched):
        fetcher.refresh(document)
    assert len(passages_of(shelf.connection, ["rules.md"])) == 2


def test_a_link_of_a_clone_leads_nowhere(
    shelf: Store, fetcher: DocumentFetcher, tmp_path: Path
) -> None:
    """What a repository links to is not read, though a person named the link."""
    secret = tmp_path / "secret.md"
    secret.write_text("# Mine\n\nNobody's business.\n")
    (shelf.root.path / "manual.md").symlink_to(secret)
    (shelf.root.path / "docs").symlink_to(tmp_path)
    for name in ("manual.md", "docs/secret.md"):
        with pytest.raises(NotFetched):
            fetcher.fetch(name)
    assert stored_documents(shelf.connection) == []
    # Named where it lies, it is the user's own choice.
    assert fetcher.fetch("../secret.md").passages == 1


def test_what_was_erased_by_id_does_not_come_back(
    shelf: Store, fetcher: DocumentFetcher
) -> None:
    """A refresh leaves it out, and says so."""
    from xscore.extensions.privacy.erasure import erase_memories

    path = write(shelf, "rules.md", f"{RULES}\n## Pay\n\nNobody earns more than Ada.\n")
    fetcher.fetch("rules.md")
    passages = {memory.entity: memory for memory in passages_of(shelf.connection, ["rules.md"])}
    erase_memories(shelf, [passages["rules.md > Rules > Pay"].id], now=shelf.clock())
    assert b"earns more than Ada" not in shelf.path.read_bytes()
    kept = fetcher.fetch("rules.md")
    assert (kept.passages, kept.left_out) == (1, 1)
    assert path.exists()


def test_an_export_carries_documents(
    shelf: Store, store: Store, fetcher: DocumentFetcher, moment: Moment
) -> None:
    """Imported ones are candidates, and are never refreshed: their place is a stranger's."""
    moment.now = time.time()
    write(shelf, "rules.md", RULES)
    fetcher.fetch("rules.md")
    lines = encode_file(Contents.MEMORIES, exported_memories(shelf, MemoryFilter()))
    done = import_lines(store, lines)
    assert len(done.added) == 1
    (document,) = stored_documents(store.connection)
    assert (document.place, document.passages, document.record) == ("rules.md", 1, None)
    with pytest.raises(NotFetched):
        DocumentFetcher(store, fetcher._settings).refresh(document)
    for right, wrong in (
        (b'"vector"', b'"project"'),
        (b'"document","place"', b'"stated","place"'),
    ):
        assert right in lines
        with pytest.raises(UsageError):
            import_lines(store, lines.replace(right, wrong))


def test_lists_of_memories_do_not_drown_in_passages(
    shelf: Store, fetcher: DocumentFetcher
) -> None:
    """They are listed where they are asked for."""
    write(shelf, "rules.md", RULES)
    fetcher.fetch("rules.md")
    everything = MemoryFilter(without_documents=True)
    assert filter_memories(shelf, everything) == []
    assert len(filter_memories(shelf, replace(everything, kinds=(Kind.DOCUMENT,)))) == 1


def test_the_command_fetches_lists_and_removes(shop: Path, tmp_path: Path) -> None:
    """A document that cannot be read stops no other, and nothing of a removed one is left."""
    (tmp_path / "rules.md").write_text(RULES)
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\0")
    place = str(tmp_path / "rules.md")
    done = run("fetch", "../rules.md", "../picture.png", "--json", cwd=shop)
    body = json.loads(done.stdout)
    assert done.returncode == 1
    assert [document["place"] for document in body["documents"]] == [place]
    assert len(body["not_fetched"]) == 1 and "picture.png" in body["not_fetched"][0]["problem"]
    listed = json.loads(run("fetch", "--list", "--json", cwd=shop).stdout)["documents"]
    assert [(document["place"], document["is_stale"]) for document in listed] == [
        (place, False)
    ]
    context = run("context", "when are refunds of the orchard gateway final?", cwd=shop)
    assert "ninety days" in context.stdout and f"document {place}, fetched" in context.stdout
    removed = run("fetch", "--remove", "../rules.md", "--yes", cwd=shop)
    assert removed.returncode == 0, removed.stderr
    assert json.loads(run("fetch", "--list", "--json", cwd=shop).stdout)["documents"] == []
    for file in (shop / ".git/xscore").iterdir():
        assert not file.is_file() or b"ninety days" not in file.read_bytes()
    # Who fetches it again means it.
    assert run("fetch", "../rules.md", cwd=shop).returncode == 0


def test_an_old_document_is_labelled_where_it_is_shown(shop: Path, tmp_path: Path) -> None:
    """In the context, in the list, and in JSON."""
    (tmp_path / "rules.md").write_text(RULES)
    assert run("fetch", "../rules.md", cwd=shop).returncode == 0
    old = {"XSCORE_MEMORY_DOCUMENT_DAYS": "0.0000001"}
    question = "when are refunds of the orchard gateway final?"
    shown = run("context", question, cwd=shop, environ=old)
    assert "out of date" in shown.stdout
    receipt = json.loads(run("context", question, "--json", cwd=shop, environ=old).stdout)
    (passage,) = [memory for memory in receipt["selected"] if memory["kind"] == "document"]
    assert passage["is_stale"]
    listed = json.loads(run("fetch", "--list", "--json", cwd=shop, environ=old).stdout)
    assert listed["documents"][0]["is_stale"]


def test_a_passage_says_how_much_of_the_question_it_holds(shop: Path, tmp_path: Path) -> None:
    """Not how much the code holds, which has none of it; one that answers says nothing about
    that."""
    (tmp_path / "rules.md").write_text(RULES)
    assert run("fetch", "../rules.md", cwd=shop).returncode == 0

    def reason(question: str) -> str:
        shown = run("context", question, "--kind", "document", "--json", cwd=shop)
        receipt = json.loads(shown.stdout)
        passages: list[dict[str, str]] = receipt["selected"] + receipt["near_misses"]
        (passage,) = passages
        return passage["reason"]

    assert "%" not in reason("when are refunds of the orchard gateway final?")
    partly = reason("when are refunds of the orchard gateway payable to pilgrims abroad?")
    assert 0 < int(partly.partition("only ")[2].partition("%")[0]) < 75


def test_a_document_changes_no_score_of_code(shop: Path, tmp_path: Path) -> None:
    """Its words do not count where words are weighed; few of its passages take places."""
    task = "where is the discount of a cart worked out?"

    def selected(*options: str) -> list[tuple[str, str, float]]:
        receipt = json.loads(run("context", task, *options, "--json", cwd=shop).stdout)
        return [(entry["kind"], entry["id"], entry["score"]) for entry in receipt["selected"]]

    before = selected()
    assert before and all(kind != "document" for kind, _, _ in before)
    sections = [
        f"## Part {n}\n\nThe discount of a cart is worked out here.\n" for n in range(9)
    ]
    (tmp_path / "carts.md").write_text("# Carts\n\n" + "\n".join(sections))
    assert run("fetch", "../carts.md", cwd=shop).returncode == 0
    after = selected()
    assert [entry for entry in after if entry[0] != "document"] == before
    passages = len(after) - len(before)
    assert 0 < passages <= 4 < len(selected("--kind", "document"))


def test_what_is_known_of_a_document_goes_with_its_last_passage(
    shelf: Store, fetcher: DocumentFetcher
) -> None:
    """Erasing it by id leaves neither its title nor its place in the store."""
    from xscore.extensions.privacy.erasure import erase_memories

    write(shelf, "zanzibar.md", RULES)
    fetcher.fetch("zanzibar.md")
    (passage,) = passages_of(shelf.connection, ["zanzibar.md"])
    erase_memories(shelf, [passage.id], now=shelf.clock())
    assert b"zanzibar" not in shelf.path.read_bytes()
