"""Edges across packages: crates and modules of Rust, packages of Go."""

from tests.indexer.conftest import Index, arrows
from xscore.store.graph import follow_links

CRATE = {
    "src/main.rs": (
        "mod walk;\n"
        "mod output;\n\n"
        "fn main() {\n"
        "    walk::lonely();\n"
        "    crate::walk::deep::dig();\n"
        "}\n"
    ),
    "src/output.rs": (
        "use crate::walk;\n"
        "use crate::walk::{self as other, Walker};\n\n"
        "pub fn print_entry() {\n"
        "    walk::lonely();\n"
        "    Walker::new();\n"
        "    let walk = start();\n"
        "    walk.dig();\n"
        "}\n\n"
        "mod tests {\n"
        "    use super::*;\n\n"
        "    #[test]\n"
        "    fn prints() {\n"
        "        print_entry()\n"
        "    }\n"
        "}\n"
    ),
    "src/walk.rs": (
        "mod deep;\n\n"
        "pub struct Walker;\n\n"
        "impl Walker {\n"
        "    pub fn new() -> Walker {\n"
        "        Walker\n"
        "    }\n"
        "}\n\n"
        "pub fn lonely() {\n"
        "    super::output::print_entry();\n"
        "}\n"
    ),
    "src/walk/deep.rs": "pub fn dig() {\n}\n",
    "src/other.rs": (
        "pub struct Digger;\n\nimpl Digger {\n    pub fn new() {\n    }\n}\n\npub fn dig() {\n}\n"
    ),
}


def test_paths_of_rust_lead_through_its_modules(index: Index) -> None:
    """`walk::lonely()` is followed if `walk` is declared or imported; a variable `walk` is no
    module."""
    index.of(CRATE)
    assert index.edges("calls") == arrows(
        "main.rs:main -> walk.rs:lonely deep.rs:dig",
        "output.rs:print_entry -> walk.rs:lonely walk.rs:Walker.new",
        "walk.rs:lonely -> output.rs:print_entry",
    )
    assert index.edges("imports") == arrows(
        "f_src/main.rs -> f_src/walk.rs f_src/output.rs",
        "f_src/output.rs -> f_src/walk.rs",
        "f_src/walk.rs -> f_src/walk/deep.rs",
    )


NAMED_CRATES = {
    "Cargo.toml": '[workspace]\nmembers = ["walk-files", "tool"]\n',
    "walk-files/Cargo.toml": (
        '[package]\nversion = "1.0.0"\nname = "walk-files"\n\n[dependencies]\nname = "x"\n'
    ),
    "walk-files/src/lib.rs": (
        "pub mod deep;\npub use deep::Walker;\n\npub fn run() {\n    deep::dig();\n}\n"
    ),
    "walk-files/src/deep.rs": (
        "pub struct Walker;\n\n"
        "impl Walker {\n"
        "    pub fn new() {\n"
        "    }\n"
        "}\n\n"
        "pub fn dig() {\n"
        "}\n\n"
        "pub fn fill() {\n"
        "}\n"
    ),
    "walk-files/tests/it.rs": (
        "use walk_files::deep::{dig, self};\n"
        "use walk_files::Walker;\n\n"
        "#[test]\n"
        "fn walks() {\n"
        "    dig();\n"
        "    deep::fill();\n"
        "    Walker::new();\n"
        "    walk_files::run();\n"
        "}\n"
    ),
    "tool/Cargo.toml": '[package]\nname = "tool"\n\n[lib]\nname = "tool_lib"\n',
    "tool/src/lib.rs": "pub fn dig() {\n    walk_files::deep::dig();\n}\n",
    "tool/src/main.rs": "fn main() {\n    tool_lib::dig();\n}\n",
}


def test_a_crate_is_known_by_the_name_in_its_manifest(index: Index) -> None:
    """Tests, binaries and other members of a workspace reach a crate's files by its name, `-`
    written as `_`."""
    index.of(NAMED_CRATES)
    assert index.edges("tests") >= arrows(
        "it.rs:walks -> deep.rs:dig deep.rs:fill deep.rs:Walker.new lib.rs:run",
    )
    assert {("main.rs:main", "lib.rs:dig"), ("lib.rs:dig", "deep.rs:dig")} <= index.edges(
        "calls"
    )
    assert ("f_walk-files/tests/it.rs", "f_walk-files/src/deep.rs") in index.edges("imports")


GO_MODULE = {
    "go.mod": "// the module\nmodule example.com/shop\n\ngo 1.22\n",
    "shop.go": "package shop\n\nfunc Open() int {\n\treturn size()\n}\n",
    "size_linux.go": "package shop\n\nfunc size() int {\n\treturn 1\n}\n",
    "size_windows.go": "package shop\n\nfunc size() int {\n\treturn 2\n}\n",
    "pay/sum.go": (
        "package pay\n\nfunc Sum() int {\n\treturn size()\n}\n\nfunc size() int {\n\treturn 3\n}\n"
    ),
    "pay/unused.go": "package pay\n\nfunc Unused() int {\n\treturn 1\n}\n",
    "template/template.go": (
        "package template\n\ntype Set struct {\n\tn int\n}\n\nfunc Must() int {\n\treturn 1\n}\n\n"
        "func (s *Set) Delims() int {\n\treturn s.n\n}\n"
    ),
    "cmd/run.go": (
        "package main\n\n"
        "import (\n"
        '\t"html/template"\n\n'
        '\t"example.com/shop"\n'
        '\t"example.com/shop/pay"\n'
        ")\n\n"
        "func main() {\n"
        "\tshop.Open()\n"
        "\tpay.Sum()\n"
        "\ttemplate.Must()\n"
        '\ttemplate.New("").Delims()\n'
        "}\n"
    ),
}


def test_packages_of_go_are_found_by_the_module_of_go_mod(index: Index) -> None:
    """The root package and its subpackages are followed to the defining files; library packages are
    not.

    A name that a package has once for each platform means all of these. A module renamed is another
    one at once.
    """
    root = index.of(GO_MODULE)
    inside = arrows(
        "shop.go:Open -> size_linux.go:size size_windows.go:size",
        "sum.go:Sum -> sum.go:size",
    )
    assert index.edges("calls") == inside | {
        ("run.go:main", "shop.go:Open"),
        ("run.go:main", "sum.go:Sum"),
    }
    assert index.edges("imports") == {
        ("f_cmd/run.go", "f_shop.go"),
        ("f_cmd/run.go", "f_pay/sum.go"),
    }
    assert "cmd/run.go" in [
        node.path for node in follow_links(index.connection, "affected", "shop.go")
    ]
    (root / "go.mod").write_text("module example.com/other\n")
    index.run(root)
    assert index.edges("calls") == inside
