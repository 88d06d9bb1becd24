"""Cases from a history: what counts, what is gold, what is left out and said."""

from pathlib import Path

import pytest

from tests.conftest import MakeRepo, git
from tests.extensions.evaluation.history_repo import (
    FIXED,
    HISTORY,
    ORIGIN,
    write_history,
)
from xscore.extensions.evaluation import mining
from xscore.extensions.evaluation.metrics import EntityRef
from xscore.extensions.evaluation.mining import Mined, NoCaseReason, mine_cases
from xscore.settings import IndexSettings


def mined_from(root: Path, limit: int = 50, since: float | None = None) -> Mined:
    """Mine with the default settings."""
    return mine_cases(root, IndexSettings(), limit=limit, since=since)


def test_a_case_is_the_message_and_what_changed(tmp_path: Path) -> None:
    """Gold is as it was before the commit; the test that changed comes with it."""
    root = write_history(tmp_path / "shop")
    grown, fixed = mined_from(root).cases
    assert fixed.gold == (EntityRef("shop/prices.py", "discount", 13, 14),)
    assert fixed.tests == (EntityRef("tests/test_prices.py", "test_discount", 1, 5),)
    assert (fixed.language, fixed.date, fixed.kind) == ("python", "2026-03-02", "change")
    assert git(root, "rev-parse", f"{fixed.commit}^").strip() == fixed.parent
    # A class that gets a new method is what had to be found.
    assert [place.name for place in grown.gold] == ["Cart", "Cart.total"]


def test_the_message_gives_nothing_away(tmp_path: Path) -> None:
    """Names, paths, addresses, numbers of issues, hashes and trailers are taken out."""
    (_, fixed) = mined_from(write_history(tmp_path / "shop")).cases
    for leak in ("discount`", "prices.py", "#12", "http", "0a1b2c3", "Signed", "example"):
        assert leak not in fixed.task
    assert "whole cents" in fixed.task and "<symbol>" in fixed.task and "<file>" in fixed.task


def test_every_other_commit_is_counted_by_its_reason(tmp_path: Path) -> None:
    """The reasons and the cases add up to the commits that were looked at."""
    mined = mined_from(write_history(tmp_path / "shop"))
    assert mined.left_out == {
        NoCaseReason.NO_PARENT: 1,
        NoCaseReason.SUBJECT: 1,
        NoCaseReason.NO_ENTITY: 1,  # a docstring and a comment are no change
    }
    assert mined.commits == len(HISTORY) == len(mined.cases) + sum(mined.left_out.values())


def test_the_same_history_gives_the_same_cases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the order in which files are parsed, and however many commits are read at once."""
    root = write_history(tmp_path / "shop")
    first = mined_from(root)
    monkeypatch.setattr(mining, "_COMMITS_A_ROUND", 1)
    repeated = mined_from(root)
    assert repeated == first and len(first.cases) == 2


def test_no_more_than_asked_for(tmp_path: Path) -> None:
    """The newest come first, and what is older is not looked at."""
    root = write_history(tmp_path / "shop")
    mined = mined_from(root, limit=1)
    assert [case.date for case in mined.cases] == ["2026-03-05"] and mined.commits == 1
    later = mined_from(root, since=1_772_600_000)  # 4 March
    assert [case.date for case in later.cases] == ["2026-03-05"]


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"shop/prices.py": None}, NoCaseReason.MOVED),
        ({"shop/rates.py": "RATE = 1\n"}, NoCaseReason.NO_SOURCE),
        ({"docs/prices.md": "Prices\n"}, NoCaseReason.NO_SOURCE),
        ({"shop/prices.pyi": "def total(): ...\n"}, NoCaseReason.NO_SOURCE),
        ({"shop/prices.py": "RATE = 2\n" + ORIGIN["shop/prices.py"]}, NoCaseReason.NO_ENTITY),
        ({"shop/prices.py": "x = '" + "a" * 9_000 + "'\n"}, NoCaseReason.UNREADABLE),
        ({"shop/prices.py": "\0"}, NoCaseReason.UNREADABLE),
        (
            {
                "shop/prices.py": ORIGIN["shop/prices.py"].replace(
                    '"""What is', 'size = 1\n    """What is'
                )
            },
            NoCaseReason.ONLY_CLASSES,
        ),
    ],
)
def test_what_cannot_be_a_case(
    tmp_path: Path, files: dict[str, str | None], reason: NoCaseReason
) -> None:
    """A change without exactly known functions is left out, with its reason."""
    message = "Change how prices are made up so that customers understand what they pay\n"
    root = write_history(tmp_path / "shop", (HISTORY[0], (message, files)))
    mined = mined_from(root)
    assert mined.cases == () and mined.left_out[reason] == 1


def test_a_shallow_clone_says_so(tmp_path: Path) -> None:
    """Its last commit has no parent there; what is above it is mined."""
    root = write_history(tmp_path / "shop")
    git(tmp_path, "clone", "-q", "--depth", "2", f"file://{root}", "clone")
    mined = mined_from(tmp_path / "clone")
    assert mined.is_shallow and len(mined.cases) == 1
    assert mined.left_out == {NoCaseReason.NO_PARENT: 1}


def test_a_folder_without_history_has_no_cases(tmp_path: Path, make_repo: MakeRepo) -> None:
    """No git, no commit, one commit: nothing is mined and nothing fails."""
    assert mined_from(tmp_path).commits == 0
    git(tmp_path, "init", "-q", "empty")
    assert mined_from(tmp_path / "empty").commits == 0
    assert mined_from(make_repo(FIXED)).left_out == {NoCaseReason.NO_PARENT: 1}


def test_secrets_of_a_message_are_redacted(tmp_path: Path) -> None:
    """A key that someone committed in a message is in no case."""
    key = "ghp_" + "x7Kq2Lw9ZtR4bV1nM8sD5fG3hJ6pQ0yUcEaX"
    message = f"Round what is taken off to whole cents for every customer with key {key}\n"
    root = write_history(tmp_path / "shop", (HISTORY[0], (message, FIXED)))
    (case,) = mined_from(root).cases
    assert key not in case.task


def raw_commit(root: Path, message: str, *, date: str = "1772000000") -> str:
    """Commit what is staged under a date that `git commit` would refuse."""
    tree, parent = git(root, "write-tree").strip(), git(root, "rev-parse", "HEAD").strip()
    who = f"Ada <ada@example.com> {date} +0000"
    text = f"tree {tree}\nparent {parent}\nauthor {who}\ncommitter {who}\n\n{message}\n"
    (root / ".git" / "raw").write_text(text, "utf-8")
    command = ("hash-object", "-t", "commit", "-w", "--literally", ".git/raw")
    commit = git(root, *command).strip()
    git(root, "reset", "-q", "--hard", commit)
    return commit


@pytest.mark.parametrize("date", ["1772000000", "99999999999999", "-5"])
@pytest.mark.parametrize(
    "trick", ["\x02:a b", f"\x01{'a' * 40}\x02", f"\x02:1 1 {'0' * 40} 2 M"]
)
def test_no_message_and_no_date_passes_for_a_file(
    tmp_path: Path, trick: str, date: str
) -> None:
    """Whatever a commit says, its files are those that git names, and it is counted."""
    root = write_history(tmp_path / "shop")
    before = mined_from(root)
    prices = root / "shop" / "prices.py"
    prices.write_text(prices.read_text("utf-8").replace("return", "return 1 +", 1), "utf-8")
    git(root, "add", "-A")
    message = "Customers paid twice since the sum of fractions was forgotten"
    commit = raw_commit(root, f"{message} {trick}", date=date)
    after = mined_from(root)
    assert after.cases[0].commit == commit and after.commits == before.commits + 1
    assert {place.path for place in after.cases[0].gold} == {"shop/prices.py"}


def test_a_secret_is_redacted_before_names_are_taken_out(tmp_path: Path) -> None:
    """What is known for a secret by the name before it stays one if that name is the gold."""
    root = write_history(tmp_path / "shop")
    host = root / "shop" / "host.py"
    host.write_text("def api_token():\n    return 1\n", "utf-8")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "Start with a host")
    host.write_text("def api_token():\n    return 2\n", "utf-8")
    git(root, "add", "-A")
    secret = "q8Zr4Tn2Lx9Vb6Wm"
    message = (
        f"Orders of customers were refused by the host\n\napi_token = '{secret}' works again"
    )
    raw_commit(root, message)
    case = mined_from(root).cases[0]
    assert case.gold[0].name == "api_token" and secret not in case.task
