"""A `.git/index` made by hand names files outside the repository: nothing of them reaches a
host."""

import json
from pathlib import Path

import pytest

from tests.conftest import MakeRepo, git
from tests.index_files import VERSIONS, add_to_index
from tests.pipeline.conftest import FILES, TASK, settings_for
from tests.servers import OpenAIServer
from xscore.pipeline.build import Pipeline
from xscore.platform.git import changed_files
from xscore.platform.git_log import recent_commits
from xscore.records.turn import Turn

OUTSIDE_TEXT = "the diary of somebody else"
HONEST_EDIT = "the discount is a fifth now"


@pytest.fixture
def diary(tmp_path: Path) -> Path:
    """A file outside the repository."""
    path = tmp_path / "private" / "diary.py"
    path.parent.mkdir()
    path.write_text(f"# {OUTSIDE_TEXT}\n")
    return path


async def sent(root: Path, server: OpenAIServer, turn: Turn = TASK) -> str:
    """Ask for an answer; return all that the host was sent."""
    async with Pipeline.open(root, settings_for(server)) as pipeline:
        answer = await pipeline.ask(turn, answer_anyway=True)
    assert answer.answer
    return json.dumps(server.counts.bodies, ensure_ascii=False)


def edited(make_repo: MakeRepo) -> Path:
    """A repository with one honest, uncommitted edit."""
    root = make_repo(FILES)
    (root / "README.md").write_text(f"# Shop\n\n{HONEST_EDIT}\n")
    return root


NAMES = {
    "absolute": "{diary}",
    "two slashes": "/{diary}",
    "up": "../private/diary.py",
    "up from inside": "shop/../../private/diary.py",
    "by a linked folder": "linked/diary.py",
    "git's own": ".git/config",
    "git's own in capitals": ".GIT/config",
    "git's own of a deeper folder": "shop/.git/config",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
async def test_a_file_outside_is_not_sent(
    make_repo: MakeRepo, diary: Path, server: OpenAIServer, name: str
) -> None:
    """Neither as part of the uncommitted change, which git reads and prints, nor as a memory."""
    root = edited(make_repo)
    (root / "linked").symlink_to(diary.parent)
    git(
        root, "config", "remote.origin.url", f"https://{OUTSIDE_TEXT.replace(' ', '-')}.invalid"
    )
    (root / "shop" / ".git").mkdir()
    (root / "shop" / ".git" / "config").write_text(OUTSIDE_TEXT)
    add_to_index(root, [name.format(diary=diary)])
    text = await sent(root, server)
    assert OUTSIDE_TEXT not in text and OUTSIDE_TEXT.replace(" ", "-") not in text
    assert "diary.py" not in text


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_namesake_inside_does_not_admit_it(
    make_repo: MakeRepo, diary: Path, server: OpenAIServer, version: int
) -> None:
    """git prints `/tmp/x` like `tmp/x`: even where the repository has an indexed file there, the
    other stays out."""
    root = edited(make_repo)
    namesake = root / str(diary)[1:]
    namesake.parent.mkdir(parents=True)
    namesake.write_text("honest = 1\n")
    add_to_index(root, [str(diary)], version=version)
    assert OUTSIDE_TEXT in git(root, "diff", "HEAD")
    assert OUTSIDE_TEXT not in await sent(root, server)
    assert str(diary) not in (changed_files(root) or ())


async def test_an_honest_index_shows_its_change(
    make_repo: MakeRepo, diary: Path, server: OpenAIServer
) -> None:
    """An edit and a deletion are shown also where a folder has become a link, and the link is not
    followed."""
    root = edited(make_repo)
    (root / "shop" / "prices.py").unlink()
    (root / "private").mkdir()
    (root / "private" / "diary.py").write_text("was_here = 1\n")
    git(root, "add", "private")
    (root / "private" / "diary.py").unlink()
    (root / "private").rmdir()
    (root / "private").symlink_to(diary.parent)
    text = await sent(root, server)
    assert HONEST_EDIT in text and "deleted file mode" in text
    assert OUTSIDE_TEXT not in text


async def test_git_has_no_current_file(make_repo: MakeRepo, server: OpenAIServer) -> None:
    """A current file inside `.git` is not shown: its settings may hold a password."""
    root = make_repo(FILES)
    git(
        root, "config", "remote.origin.url", f"https://{OUTSIDE_TEXT.replace(' ', '-')}.invalid"
    )
    assert OUTSIDE_TEXT.replace(" ", "-") not in await sent(
        root, server, Turn(task=TASK.task, file=".git/config")
    )


def test_a_commit_that_names_a_file_outside_names_none(make_repo: MakeRepo) -> None:
    """A tree made by hand can hold `..`: such a name is no recent file."""
    root = make_repo(FILES)
    blob = git(root, "rev-parse", "HEAD:README.md").strip()
    raw = bytes.fromhex(blob)
    tree = root / "tree"
    tree.write_bytes(b"100644 diary.py\0" + raw)
    inner = git(root, "hash-object", "-t", "tree", "-w", "--literally", str(tree)).strip()
    tree.write_bytes(b"40000 ..\0" + bytes.fromhex(inner) + b"100644 README.md\0" + raw)
    outer = git(root, "hash-object", "-t", "tree", "-w", "--literally", str(tree)).strip()
    commit = git(root, "commit-tree", "-m", "up", outer).strip()
    git(root, "update-ref", "HEAD", commit)
    assert "../diary.py" in git(root, "log", "--name-only", "--format=")
    assert [file.path for file in recent_commits(root)] == ["README.md"]
