"""Where files and folders are."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import MakeRepo, git, write_files
from xscore.platform.errors import UsageError
from xscore.platform.paths import RepositoryRoot, find_root, native_name, portable_name, user_config_file, user_data_dir
from xscore.store.opening import connect_store


def test_a_subdirectory_belongs_to_its_repository(make_repo: MakeRepo) -> None:
    """From any folder or file inside, the root is the git worktree and the store is the root's."""
    root = make_repo({"a/b/c.py": "x = 1\n"})
    for start in (root, root / "a" / "b", root / "a" / "b" / "c.py"):
        found = find_root(start)
        assert found == RepositoryRoot(root, True, root / ".git", root / ".xscore", False)


def test_a_worktree_has_a_store_of_its_own(make_repo: MakeRepo, tmp_path: Path) -> None:
    """A linked worktree is its own root; its git folder is the one in its `.git` file."""
    root = make_repo({"a.py": "x = 1\n"})
    git(root, "worktree", "add", "-q", str(tmp_path / "second"))
    found = find_root(tmp_path / "second")
    assert found.path == tmp_path / "second"
    assert found.store_dir == tmp_path / "second" / ".xscore"
    assert found.git_dir is not None and found.git_dir.parent == root / ".git" / "worktrees"


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
        tmp_path / "sub", False, None, tmp_path / "sub" / ".xscore", False
    )


def test_a_plain_folder_uses_the_store_above_it(tmp_path: Path) -> None:
    """In plain folders, a store of this user in a parent folder makes that folder the root."""
    connect_store(tmp_path / ".xscore" / "memory.db").close()
    (tmp_path / "sub" / "deep").mkdir(parents=True)
    assert find_root(tmp_path / "sub" / "deep").path == tmp_path


def test_a_git_folder_without_a_head_is_no_repository(tmp_path: Path) -> None:
    """An empty `.git` folder, or a `.git` file without a target or with an invalid one, does not make a root."""
    (tmp_path / "a" / ".git").mkdir(parents=True)
    write_files(tmp_path, {"b/.git": "hello\n", "c/.git": "", "d/.git": "gitdir: x\0y\n"})
    assert not any(find_root(tmp_path / name).is_git for name in "abcd")


def test_a_linked_start_resolves_to_the_real_root(tmp_path: Path) -> None:
    """The root is a real path, whatever link led there."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert find_root(tmp_path / "link").path == tmp_path / "real"


def test_a_read_only_root_keeps_its_store_in_the_cache_folder(open_ground: Path, own_home: Path) -> None:
    """A read-only root has its store in the user's cache, one for each real path."""
    roots = [open_ground / name for name in ("one", "two")]
    for root in roots:
        root.mkdir(mode=0o555)
    as_root = os.geteuid() == 0
    if as_root:
        os.seteuid(65534)
    try:
        one, two = map(find_root, roots)
    finally:
        if as_root:
            os.seteuid(0)
    assert one.read_only and two.read_only
    assert one.store_dir != two.store_dir
    assert own_home in one.store_dir.parents


def test_users_files_lie_where_the_platform_wants_them(own_home: Path, tmp_path: Path) -> None:
    """The user's folders are the platform's, unless a setting names others."""
    assert own_home in user_data_dir(None).parents
    assert user_data_dir(tmp_path / "x") == tmp_path / "x"
    assert user_config_file().name == "config.toml"
    assert own_home in user_config_file().parents


def test_a_home_of_no_one_is_said() -> None:
    """`~name` of an unknown user is a usage error, and no such folder is made."""
    with pytest.raises(UsageError, match="names an unknown user"):
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
