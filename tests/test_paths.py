"""Where files and folders are."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import MakeRepo, commit_all, git, write_files
from xscore.platform.errors import UsageError
from xscore.platform.paths import (
    RepositoryRoot,
    find_root,
    native_name,
    portable_name,
    user_config_file,
    user_data_dir,
)
from xscore.store.opening import connect_store


def test_a_subdirectory_belongs_to_its_repository(make_repo: MakeRepo) -> None:
    """From any folder or file inside, the root is the git worktree; its store is in the git
    folder."""
    root = make_repo({"a/b/c.py": "x = 1\n"})
    for start in (root, root / "a" / "b", root / "a" / "b" / "c.py"):
        repository = find_root(start)
        assert repository == RepositoryRoot(
            root, root / ".git", root / ".git" / "xscore", claims_git=True
        )


def test_worktrees_share_a_store(make_repo: MakeRepo, tmp_path: Path) -> None:
    """A linked worktree is its own root, and has a name; its store is that of the repository."""
    root = make_repo({"a.py": "x = 1\n"})
    git(root, "worktree", "add", "-q", str(tmp_path / "second"))
    repository = find_root(tmp_path / "second")
    assert repository.path == tmp_path / "second"
    assert (repository.store_dir, repository.worktree) == (root / ".git" / "xscore", "second")
    assert repository.git_dir is not None
    assert repository.git_dir.parent == root / ".git" / "worktrees"


def test_a_nested_repository_is_its_own_root(make_repo: MakeRepo) -> None:
    """The nearest repository precedes the outer one."""
    outer = make_repo({"a.py": "x = 1\n"})
    inner = outer / "vendor" / "lib"
    inner.mkdir(parents=True)
    git(inner, "init", "-q")
    assert find_root(inner).path == inner


def test_a_plain_folder_is_its_own_root(tmp_path: Path) -> None:
    """Without git or a store above, the given folder is the root."""
    (tmp_path / "sub").mkdir()
    assert find_root(tmp_path / "sub") == RepositoryRoot(
        tmp_path / "sub", None, tmp_path / "sub" / ".xscore"
    )


def test_a_plain_folder_uses_the_store_above_it(tmp_path: Path) -> None:
    """In plain folders, a store of this user in a parent folder makes that folder the root."""
    connect_store(tmp_path / ".xscore" / "memory.db").close()
    (tmp_path / "sub" / "deep").mkdir(parents=True)
    assert find_root(tmp_path / "sub" / "deep").path == tmp_path


def test_a_git_folder_without_a_head_is_no_repository(tmp_path: Path) -> None:
    """An empty `.git` folder, or a `.git` file without a target or with an invalid one, does not
    make a root."""
    (tmp_path / "a" / ".git").mkdir(parents=True)
    write_files(tmp_path, {"b/.git": "hello\n", "c/.git": "", "d/.git": "gitdir: x\0y\n"})
    assert not any(find_root(tmp_path / name).is_git for name in "abcd")


def test_a_linked_start_resolves_to_the_real_root(tmp_path: Path) -> None:
    """The root is a real path, whatever link led there."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert find_root(tmp_path / "link").path == tmp_path / "real"


def test_a_submodule_has_its_store_in_its_own_git_folder(
    make_repo: MakeRepo, tmp_path: Path
) -> None:
    """A submodule is a repository of its own, whose git folder is in that of the one around it."""
    outer = make_repo({"a.py": "x = 1\n"})
    (tmp_path / "part").mkdir()
    write_files(tmp_path / "part", {"b.py": "y = 1\n"})
    commit_all(tmp_path / "part")
    git(
        outer,
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "add",
        "-q",
        str(tmp_path / "part"),
        "part",
    )
    repository = find_root(outer / "part")
    assert (repository.path, repository.worktree) == (outer / "part", "")
    assert repository.store_dir == outer / ".git" / "modules" / "part" / "xscore"


def test_a_bare_repository_and_its_worktrees_share_a_store(
    make_repo: MakeRepo, tmp_path: Path
) -> None:
    """The store of a bare repository is in its folder, for each of its worktrees too."""
    source = make_repo({"a.py": "x = 1\n"})
    bare = tmp_path / "bare.git"
    git(tmp_path, "clone", "-q", "--bare", str(source), str(bare))
    git(bare, "worktree", "add", "-q", str(tmp_path / "tree"))
    assert (
        find_root(tmp_path / "tree").store_dir
        == find_root(bare / "refs").store_dir
        == bare / "xscore"
    )


@pytest.mark.parametrize("layout", ["separate", "elsewhere", "variable"])
def test_no_store_is_in_the_tree_of_a_repository(
    layout: str,
    make_repo: MakeRepo,
    tmp_path: Path,
    own_home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where the git folder is not known to be the root's own, the store is in the user's folder,
    never in the tree."""
    root = make_repo({"a.py": "x = 1\n"})
    if layout == "separate":
        git(root, "init", "-q", f"--separate-git-dir={tmp_path / 'apart'}")
    else:
        (root / ".git").rename(tmp_path / "apart")
        if layout == "elsewhere":
            (root / ".git").symlink_to(tmp_path / "apart")
        else:
            monkeypatch.setenv("GIT_DIR", str(tmp_path / "apart"))
    repository = find_root(root)
    assert not repository.is_git and repository.claims_git
    assert own_home in repository.store_dir.parents and not repository.read_only


def test_a_store_that_cannot_be_written_is_used_where_it_is(
    make_repo: MakeRepo, open_ground: Path
) -> None:
    """A read-only git folder with a store is read; without one, the store is in the user's own
    folder."""
    for name, has_store in (("with", True), ("without", False)):
        root = open_ground / name
        root.mkdir()
        git(root, "init", "-q")
        if has_store:
            connect_store(root / ".git" / "xscore" / "memory.db").close()
        for folder in (root / ".git" / "xscore", root / ".git"):
            if folder.exists():
                folder.chmod(0o555)
        (root / ".git").chmod(0o555)
        as_root = os.geteuid() == 0
        if as_root:
            os.seteuid(65534)
        try:
            repository = find_root(root)
        finally:
            if as_root:
                os.seteuid(0)
        assert (repository.store_dir == root / ".git" / "xscore") == has_store
        assert repository.read_only or not has_store


def test_a_read_only_root_keeps_its_store_in_the_users_folder(
    open_ground: Path, own_home: Path
) -> None:
    """A read-only folder has its store in the user's own, one for each real path."""
    roots = [open_ground / name for name in ("one", "two")]
    for root in roots:
        root.mkdir(mode=0o555)
    as_root = os.geteuid() == 0
    if as_root:
        os.seteuid(65534)
    try:
        first, second = map(find_root, roots)
    finally:
        if as_root:
            os.seteuid(0)
    assert first.store_dir != second.store_dir
    assert own_home in first.store_dir.parents


def test_users_files_lie_where_the_platform_wants_them(own_home: Path, tmp_path: Path) -> None:
    """The user's folders are the platform's, unless a setting names others."""
    assert own_home in user_data_dir(None).parents
    assert user_data_dir(tmp_path / "x") == tmp_path / "x"
    assert user_config_file().name == "config.toml"
    assert own_home in user_config_file().parents


def test_a_home_of_no_one_is_said() -> None:
    """`~name` of an unknown user is a usage error, and no such folder is made."""
    with pytest.raises(UsageError, match="unknown user"):
        user_data_dir(Path("~no-such-user/x"))


@given(st.binary(max_size=40))
def test_a_portable_name_is_utf8_and_comes_back(name: bytes) -> None:
    """Every file name becomes unique UTF-8 text that converts back byte for byte."""
    text = portable_name(name)
    text.encode("utf-8")
    assert os.fsencode(native_name(text)) == name
    assert portable_name(native_name(text)) == text


def test_an_ordinary_name_stays_as_it_is() -> None:
    """UTF-8 names are unchanged, percent signs included; others show their bytes."""
    assert portable_name("src/größe 100%.py") == "src/größe 100%.py"
    assert portable_name(b"caf\xe9.py") == "caf%E9.py"
    assert portable_name("caf%E9.py") == "caf%25E9.py"
