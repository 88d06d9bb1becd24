"""Which files are admitted."""

import os
from pathlib import Path

import pytest

from tests.conftest import MakeRepo, git
from tests.cost_reports.gate_reports import MEASURED
from tests.indexer.conftest import Index
from xscore.cost_reports.gate import baseline_json
from xscore.indexer.admission import decode_text, refusal_by_name
from xscore.platform.errors import UsageError
from xscore.platform.files import FileRefused, leads_out, read_file_under
from xscore.store.file_bodies import read_with_bodies

CLASSES = {
    "lockfile": ("package-lock.json",),
    "session": (".aider.chat.history.md",),
    "catalogue": ("locale/de.po",),
    "svg": ("logo.SVG",),
    "minified": ("dist/app.min.js",),
    "data": ("data/x.csv",),
    "binary": ("x.png",),
    "bundle": ("dist/esm/app.js", "docs/A.docset/Contents/index.html"),
    "vendored": (
        "deps/lua/src/lapi.c",
        "src/third_party/zlib/inflate.c",
        "internal/vendor/x/x.go",
    ),
    "settings": (".xscore.toml",),
    "agent_setup": (".claude/skills/xscore/SKILL.md", ".claude/agents/xscore.md"),
    "": (
        "src/lock.py",
        "lib/dist.js",
        "dist/README.md",
        "src/deps/graph.py",
        "src/vendor.py",
        ".claude/agents/a.md",
    ),
}


def test_built_in_classes() -> None:
    """Lockfiles, catalogues, drawings, minified and data files are excluded by name."""
    class_by_path = {
        reason: tuple(path for path in paths if refusal_by_name(path) == reason)
        for reason, paths in CLASSES.items()
    }
    assert class_by_path == CLASSES


@pytest.mark.parametrize(
    ("data", "path", "reason"),
    [
        (b"a\0b", "a.py", "binary"),
        (bytes(range(1, 32)) * 100 + b"\xff", "a.txt", "binary"),
        (b"x" * 6000, "a.js", "long_lines"),
        (b'{"a": 1}\n' * 20_000, "a.json", "data"),
        (b"th e\n" * 5_000, "vocab.bpe", "data"),
        (b'{"mcpServers": {"xscore": {}}}', ".mcp.json", "agent_setup"),
    ],
)
def test_bytes_that_stay_out(data: bytes, path: str, reason: str) -> None:
    """Binaries, long lines and large structured files are recognised by content."""
    with pytest.raises(FileRefused, match=reason):
        decode_text(data, path, max_line_chars=5000)


def test_two_pictures_leave_the_code_around_them() -> None:
    """A file of hundreds of lines is read although two of them are longer than all the others."""
    code = "def show():\n    return LOGO\n" * 150
    text = f'LOGO = "{"x" * 30_000}"\nICON = "{"y" * 30_000}"\n{code}'
    assert decode_text(text.encode(), "a.py", max_line_chars=5000).endswith(code)
    bundle = ("// Licence\n" * 5 + "z" * 30_000 + "\n") * 10
    with pytest.raises(FileRefused, match="long_lines"):
        decode_text(bundle.encode(), "a.js", max_line_chars=5000)


def test_a_long_line_among_others_loses_its_middle() -> None:
    """A file of tests with one long string is a file of tests; its quotes still close, and a secret
    in the middle of the cut leaves no half."""
    key = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
    line = f'EXPECTED = "{"x" * 480} {key} {"y" * 6_000}"'
    code = "def test_it():\n    assert render() == EXPECTED\n" * 200
    first, _, rest = decode_text(
        f"{line}\n{code}".encode(), "a.py", max_line_chars=5000
    ).partition("\n")
    assert rest == code
    assert first.startswith('EXPECTED = "x') and first.endswith('y"') and len(first) < 1_100
    assert "ghp_" not in first


def test_a_key_that_begins_or_ends_in_a_long_line_is_redacted_whole() -> None:
    """A long line is cut after the secrets of the whole text are gone: the rest of a key has no
    fence of its own."""
    body = ["MIIEpAIBAAKCAQEAu1SU1LfVLPHCozMxH2Mo" + "4lgOEePzNm0tRgeLezV6ff" * 1] * 6
    begin = f'{"x = 1; " * 900}"-----BEGIN RSA PRIVATE KEY-----'
    code = "def test_it():\n    assert render() == EXPECTED\n" * 400
    for lines in (
        [begin, *body, "-----END RSA PRIVATE KEY-----"],
        [
            '"-----BEGIN RSA PRIVATE KEY-----',
            *body,
            f"-----END RSA PRIVATE KEY----- {begin[:-32]}",
        ],
    ):
        data = "\n".join([code, *lines, code])
        text = decode_text(data.encode(), "a.py", max_line_chars=5000)
        assert "MIIEpAIBAAK" not in text
        assert text.count("\n") == data.count("\n")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("ü\r\nb\rc".encode(), "ü\nb\nc"),
        ("\ufeffx = 1".encode(), "x = 1"),
        ("x = ü".encode("utf-16"), "x = ü"),
        ("caf\xe9 # latin".encode("latin-1"), "café # latin"),
        (b"", ""),
    ],
)
def test_text_of_other_encodings(data: bytes, text: str) -> None:
    """Byte order marks, older encodings and other line ends are read as text with plain line
    ends."""
    assert decode_text(data, "a.py", max_line_chars=5000) == text


@pytest.mark.parametrize(
    ("encoding", "line"),
    [
        ("shift_jis", "# -*- coding: shift_jis -*-\nx = '日本語ソ'"),
        ("gbk", '<?xml version="1.0" encoding="GBK"?>\n<a>中文</a>'),
        ("cp1252", "# vim: set fileencoding=cp1252 :\nx = '€ “so”'"),
        ("koi8-r", '<meta charset="koi8-r"><p>привет</p>'),
        ("iso2022_jp", "# coding: iso-2022-jp\nx = '日本'"),
    ],
)
def test_a_declared_encoding_is_read(encoding: str, line: str) -> None:
    """What the first lines declare decides where the bytes are no UTF-8."""
    assert decode_text(line.encode(encoding), "a.py", max_line_chars=5000) == line


@pytest.mark.parametrize(
    "declared", ["punycode", "unicode_escape", "zlib", "utf-7", "idna", "no_such", "shift_jis"]
)
def test_an_encoding_that_is_none_is_not_believed(declared: str) -> None:
    """Only encodings of human languages are decoded; bytes in another than the declared one are
    read as Latin-1."""
    data = f"# coding: {declared}\n".encode() + b"caf\xe9 \\x41 \xff\xfe+ACo-"
    assert decode_text(data, "a.py", max_line_chars=5000) == data.decode("latin-1")


def test_a_vendored_path_that_gitignore_takes_back_is_own_code(
    make_repo: MakeRepo, index: Index
) -> None:
    """`!vendor/mine/` admits what git tracks below it, from the next run on; the rest of the folder
    stays out."""
    names = ("vendor/mine/a.py", "vendor/other/b.py", "src/c.py")
    root = make_repo(dict.fromkeys(names, "def f():\n    return 1\n"))

    def indexed() -> list[tuple[object, ...]]:
        return index.rows(
            "SELECT path FROM file WHERE excluded = '' AND path LIKE '%.py' ORDER BY path"
        )

    index.run(root)
    assert indexed() == [("src/c.py",)]
    (root / ".gitignore").write_text("vendor/*\n!vendor/mine/\n")
    (root / "vendor/mine/untracked.py").write_text("x = 1\n")
    index.run(root)
    assert indexed() == [("src/c.py",), ("vendor/mine/a.py",)]


def test_no_link_is_followed_at_any_step(tmp_path: Path) -> None:
    """Neither a linked file nor a file in a linked folder is opened, and a pipe does not block."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("secret")
    root = tmp_path / "root"
    root.mkdir()
    (root / "folder").symlink_to(outside)
    (root / "file.txt").symlink_to(outside / "secret.txt")
    os.mkfifo(root / "pipe.txt")
    top = os.open(root, os.O_RDONLY)
    try:
        for name in ("folder/secret.txt", "file.txt"):
            with pytest.raises(OSError):
                read_file_under(top, name, max_bytes=100)
        with pytest.raises(FileRefused, match="not_a_file"):
            read_file_under(top, "pipe.txt", max_bytes=100)
    finally:
        os.close(top)


LEADING_OUT = """
    /etc/passwd //x .. ../x a/../x a/.. .git .git/config .GIT/HEAD a/.Git/x .git./x
    git~1/config GIT~1/x ..\\x a\\.git\\x .git::$INDEX_ALLOCATION/x .g\u200cit/x .gi\ufefft
""".split()
STAYING = """
    .gitignore .github/x .git-blame a/.gitkeep a..b ...x ... ..a a.. x.git x.git/y
    git/x .gitx/y a\u200c/b git~10/x ..a/b
""".split()


def test_a_name_that_leads_out_is_not_opened(tmp_path: Path) -> None:
    """However it is spelled: absolute, upwards, or into a `.git` as any file system writes it."""
    (tmp_path / "up.txt").write_text("outside")
    (tmp_path / "root").mkdir()
    top = os.open(tmp_path / "root", os.O_RDONLY)
    try:
        for name in (*LEADING_OUT, "a\0b", "../up.txt", str(tmp_path / "up.txt")):
            with pytest.raises(FileRefused, match="outside"):
                read_file_under(top, name, max_bytes=100)
    finally:
        os.close(top)
    assert not any(map(leads_out, STAYING))


SECRET_FILES = {
    ".env": "KEY=1\n",
    "deploy/.env.local": "KEY=2\n",
    "id_rsa": "k\n",
    "a.pem": "k\n",
}
EXCLUDED = {
    "binary": 1,
    "catalogue": 1,
    "data": 1,
    "excluded": 1,
    "lockfile": 1,
    "long_lines": 1,
    "secret": len(SECRET_FILES),
    "session": 1,
    "submodule": 1,
    "svg": 1,
    "symlink": 1,
    "too_large": 1,
}


def add_submodule(root: Path, submodule: Path) -> None:
    """Make a repository of one file, and add it to another."""
    submodule.mkdir()
    git(submodule, "init", "-q")
    (submodule / "f.py").write_text("")
    git(submodule, "add", ".")
    git(submodule, "commit", "-qm", "x")
    may_be_local = ("-c", "protocol.file.allow=always")
    git(root, *may_be_local, "submodule", "add", "-q", str(submodule), "mod")


def test_every_exclusion_has_its_reason(index: Index) -> None:
    """P02: .env and other secret files, links, submodules, binaries and the rest stay out, each
    with its reason."""
    names = ("yarn.lock", "x.po", "l.svg", "t.csv", "skip/me.py", ".aider.chat.history.md")
    odd = {"big.txt": "x\n" * 600_000, "long.js": "x" * 9000, "b.dat2": "\0"}
    root = index.make({"a.py": "x = 1\n"} | SECRET_FILES | odd | dict.fromkeys(names, ""))
    (root / "link.py").symlink_to("a.py")
    add_submodule(root, root.parent / "other")
    report = index.run(root, exclude=("skip/",))
    assert report.files.excluded.by_reason == EXCLUDED
    assert report.files.indexed == 2  # a.py and .gitmodules
    assert report.files.seen == report.files.indexed + report.files.unchanged + sum(
        report.files.excluded.by_reason.values()
    )
    assert len(report.files.excluded.sample) <= 20
    read = [text for *_, text in read_with_bodies(index.connection, "id", "true")]
    assert read and not any("KEY=" in text for text in read)
    second = index.run(root, exclude=("skip/",))
    assert second.files.excluded.by_reason == report.files.excluded.by_reason
    assert second.files.unchanged == 2


def test_the_users_globs(index: Index) -> None:
    """Globs narrow; a negated one re-admits a built-in class, but never a secret file."""
    root = index.make(
        {"src/a.py": "a", "src/b.js": "b", "doc/c.md": "c", "src/x.po": "po", "src/.env": "E=1"}
    )
    index.run(root, include=("src/**",), exclude=("*.js", "!*.po", "!.env"))
    indexed = index.connection.execute("SELECT path FROM file WHERE excluded = ''").fetchall()
    assert set(indexed) == {("src/a.py",), ("src/x.po",)}


def test_what_a_program_wrote_stays_out(index: Index) -> None:
    """Comments near the top and a parser's structure mark generated files; a glob admits one;
    strings do not count."""
    marks = {
        "a.go": "// Code generated by stringer -type=Kind; DO NOT EDIT.\n\npackage a\n",
        "b.cs": "//-----\n// <auto-generated>\n//\nclass B {}\n",
        "c_pb2.py": (
            "# -*- coding: utf-8 -*-\n"
            "# Generated by the protocol buffer compiler.  DO NOT EDIT!\n"
            "x = 1\n"
        ),
        "d.h": "/*\n * Do not edit: this file is generated.\n */\nint d;\n",
        "parser.c": (
            '#include "tree_sitter/parser.h"\n\n'
            "#define LANGUAGE_VERSION 14\n"
            "#define STATE_COUNT 95\n\n"
            "static const uint16_t ts_parse_table[LARGE_STATE_COUNT][SYMBOL_COUNT] = {\n"
            + "  [0] = 1,\n" * 9
            + "};\n"
        ),
        "docs/api/a.html": (
            '<!doctype html>\n<html>\n<meta name="generator" content="Docutils 0.21"/>\n'
        ),
        "docs/api/b.html": (
            "<!DOCTYPE HTML>\n<html>\n<head>\n<!-- Generated by javadoc (17) on Mon -->\n"
        ),
        "crc.h": "/* crc.h -- tables\n * Generated automatically by crc.c\n */\nint d;\n",
        "lexer.lua": "-- This file is auto-generated from lexer.grammar\nlocal x = 1\n",
        "requirements.txt": "# This file is autogenerated by pip-compile\nflask==3.1\n",
        "ids.py": "# Automatically generated ids are short.\nx = 1\n",
        "docs/api/c.html": '<html>\n<link rel="stylesheet" href="../css/jazzy.css" />\n',
        "docs/api/d.html": '<html>\n<meta name="generator" content="ExDoc v0.34"/>\n',
        "layout.html": '<html>\n<meta name="generator" content="{{ site.generator }}">\n',
        "make.py": 'print("// Code generated by make.py; DO NOT EDIT.")\n',
        "spec.rb": "# This file was generated by the `rspec --init` command.\nx = 1\n",
    }
    root = index.make(marks)
    assert index.run(root).files.excluded.by_reason == {"generated": 11}
    assert index.run(root, exclude=("!*.go",)).files.excluded.by_reason == {"generated": 10}


def test_a_file_whose_name_holds_a_secret_stays_out(index: Index) -> None:
    """A path is shown with every memory and cannot be redacted, so a file with a secret in its path
    is excluded."""
    secret = "ghp_" + "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA3cE5"
    root = index.make(
        {"a.py": "a = 1", f"dump_{secret}.py": "b = 1", f"{secret}/c.py": "c = 1"}
    )
    (root / f"link_{secret}").symlink_to("a.py")
    (root / f"other_{secret}" / ".git").mkdir(parents=True)
    excluded = index.run(root, git=False).files.excluded
    assert excluded.by_reason == {"secret": 2, "symlink": 1, "nested_repository": 1}
    assert len(excluded.sample) == 4 and secret not in str(excluded.sample)
    assert secret not in "\n".join(index.connection.iterdump())


@pytest.mark.parametrize("glob", ["!", "[z-a]", "a\\"])
def test_a_glob_that_is_none_is_said(index: Index, glob: str) -> None:
    """A broken glob in settings is a usage error that shows it; a broken .gitignore line is
    ignored."""
    root = index.make({"a.py": "a = 1", ".gitignore": glob})
    with pytest.raises(UsageError, match="valid glob"):
        index.run(root, exclude=(glob,))
    assert index.run(root, git=False).files.indexed == 2


def test_a_baseline_stays_out_wherever_it_stands() -> None:
    """A file written by `--update-baseline` is excluded: otherwise its own check would count it as
    a candidate."""
    for name in ("cost_reports/baseline.json", "ci/figures.json"):
        with pytest.raises(FileRefused, match="baseline"):
            decode_text(baseline_json(MEASURED).encode(), name, max_line_chars=5_000)
    lookalike = '{"attempts": 3, "of": "a client\'s retries"}'
    assert decode_text(lookalike.encode(), "retry.json", max_line_chars=5_000) == lookalike
