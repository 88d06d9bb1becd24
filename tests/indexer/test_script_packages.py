"""Scripts that import packages of their own repository by name."""

import json

import pytest

from tests.indexer.conftest import Index, arrows
from xscore.indexer.manifests import MOST_GLOBS, MOST_TARGETS, declared_modules
from xscore.indexer.memories import source_file
from xscore.indexer.script_packages import ScriptPackages

RUN = "export function {}() {{\n  return 1\n}}\n"
CORE = {
    "name": "@shop/core",
    "main": "./build/cjs/index.js",
    "exports": {
        ".": {"import": {"types": "./build/esm/index.d.ts", "default": "./build/esm/index.js"}},
        "./tax": "./dist/deep/tax.js",
        "./parts/*": "./src/parts/*.ts",
    },
    "imports": {"#db": {"node": "./src/db.js"}, "#in/*": "./src/inner/*.js"},
}
WORKSPACE = {
    "pnpm-workspace.yaml": (
        "# all\npackages:\n  - 'packages/*'\n  - \"!packages/old\"\n\nother:\n  - tests/*\n"
    ),
    "packages/core/package.json": json.dumps(CORE),
    "packages/core/src/index.ts": "export * from './run'\n",
    "packages/core/src/run.ts": (
        "import { save } from '#db'\n"
        "import { cut } from '#in/cut'\n\n"
        "export function run() {\n"
        "  save()\n"
        "  cut()\n"
        "}\n"
    ),
    "packages/core/src/tax.ts": RUN.format("tax"),
    "packages/core/src/hidden.ts": RUN.format("hidden"),
    "packages/core/src/parts/a.ts": RUN.format("part"),
    "packages/core/src/db.ts": RUN.format("save"),
    "packages/core/src/inner/cut.ts": RUN.format("cut"),
    "packages/old/package.json": json.dumps({"name": "@shop/old"}),
    "packages/old/index.js": RUN.format("old"),
    "packages/lodash/fixtures/debug/package.json": json.dumps({"name": "debug"}),
    "packages/lodash/fixtures/debug/index.js": RUN.format("debug"),
    "packages/app/package.json": json.dumps({"name": "app"}),
    "packages/app/src/use.ts": (
        "import { run } from '@shop/core'\n"
        "import { tax } from '@shop/core/tax'\n"
        "import { part } from '@shop/core/parts/a'\n"
        "import { hidden } from '@shop/core/hidden'\n"
        "import { old } from '@shop/old'\n"
        "import { debug } from 'debug'\n"
        "import { other } from 'app'\n\n"
        "export function use() {\n"
        "  run()\n"
        "  tax()\n"
        "  part()\n"
        "  hidden()\n"
        "  old()\n"
        "  debug()\n"
        "  other()\n"
        "}\n"
    ),
    "packages/app/index.ts": "export { mine as other } from './src/mine'\n",
    "packages/app/src/mine.ts": RUN.format("mine"),
}


def test_a_package_of_the_workspace_is_imported_by_its_name(index: Index) -> None:
    """`exports`, `imports` and their patterns lead to sources; what no workspace lists is another's
    package."""
    index.of(WORKSPACE)
    assert index.edges("imports") == arrows(
        "f_packages/core/src/index.ts -> f_packages/core/src/run.ts",
        "f_packages/core/src/run.ts -> f_packages/core/src/db.ts f_packages/core/src/inner/cut.ts",
        "f_packages/app/src/use.ts -> f_packages/core/src/index.ts f_packages/core/src/tax.ts"
        " f_packages/core/src/parts/a.ts f_packages/app/index.ts",
        "f_packages/app/index.ts -> f_packages/app/src/mine.ts",
    )
    assert index.edges("calls") == arrows(
        "run.ts:run -> db.ts:save cut.ts:cut",
        "use.ts:use -> run.ts:run tax.ts:tax a.ts:part mine.ts:mine",
    )


def hints_of(path: str, text: str) -> list[str]:
    """Return the hints of a manifest."""
    return [use.hint for use in declared_modules(source_file(path, text, window_lines=60))]


@pytest.mark.parametrize(
    "written",
    [
        "packages: [a, 'b/*']",
        "packages:\n- a # x\n\n- b/*\n",
        'packages:\n  - "a"\n  # y\n  - b/*\nx:\n  - c\n',
    ],
)
def test_a_list_of_workspaces_is_read_as_yaml_writes_it(written: str) -> None:
    """Dashes or brackets, quoted or not, with comments between; the list ends at the next key."""
    assert hints_of("pnpm-workspace.yaml", written) == ["module:#has=a", "module:#has=b/*"]


def test_workspaces_of_npm_and_yarn_are_read() -> None:
    """`workspaces` is a list, or holds one under `packages`."""
    for workspaces in (["a"], {"packages": ["a"]}):
        assert "module:#has=a" in hints_of(
            "package.json", json.dumps({"workspaces": workspaces})
        )


@pytest.mark.parametrize(
    "manifest",
    [
        {"name": ["x"], "exports": {".": 3}, "imports": [], "workspaces": "a"},
        {"name": "x" * 1_000, "workspaces": ["y" * 1_000, 3, None]},
        {"name": "x#y", "exports": {"./a": "../../etc/passwd"}},
        [],
    ],
)
def test_an_odd_manifest_says_nothing(manifest: object) -> None:
    """Values of other types, long ones and paths that lead out are passed over."""
    assert not hints_of("package.json", json.dumps(manifest))


def test_what_is_read_of_a_manifest_is_bounded() -> None:
    """A manifest of many paths, or of deep nesting, costs no more than its bounds."""
    many = {
        "name": "x",
        "exports": {f"./{n}": f"./{n}.js" for n in range(1_000)},
        "workspaces": ["a"] * 1_000,
    }
    assert len(hints_of("package.json", json.dumps(many))) <= MOST_TARGETS + MOST_GLOBS + 1
    assert hints_of("package.json", "[" * 50_000) == []
    deep = '{"name": "x", "exports": ' + '{"a": ' * 500 + '"./y.js"' + "}" * 500 + "}"
    assert "module:x#.=y.js" in hints_of("package.json", deep)


def test_the_nearest_of_equal_names_is_the_own_package() -> None:
    """Without a workspace a name that two packages have is followed only within one of them."""
    files = {"a/index.ts", "b/index.ts"}
    manifests = [(folder, ["module:x#.=index.ts"]) for folder in ("a", "b")]
    packages = ScriptPackages(manifests, lambda place: place if place in files else "")
    assert packages.resolve("x", "a/src/use.ts") == "a/index.ts"
    assert packages.resolve("x", "c/use.ts") is None
