"""A bare name is followed as far as imports reach, through barrels and what passes on."""

from tests.indexer.conftest import Index, arrows

REACHED = {
    "plug/aura.py": "class Page:\n    def error(self):\n        pass\n",
    "plug/log.py": (
        "import logging\n\n"
        "log = logging.getLogger()\n\n\n"
        "def run(error):\n"
        "    log.error(1)\n"
        "    error()\n"
    ),
    "plug/near.py": "from plug import aura\n\n\ndef near(page):\n    page.error()\n",
    "plug/far.py": "from plug.near import near\n\n\ndef far(page):\n    page.error()\n",
    "plug/farther.py": "from plug.far import far\n\n\ndef farther(page):\n    page.error()\n",
    "tests/conftest.py": "from plug import aura\n\n\ndef page():\n    return aura.Page()\n",
    "tests/test_it.py": "def test_it(page):\n    page.error()\n",
    "web/codemod.ts": (
        "export function turn(api: Api) {\n  api.isCall()\n  pad(1)\n}\n\nexport {}\nimport './x'\n"
    ),
    "web/plugin.ts": (
        "export class Plugin {\n"
        "  isCall() {\n"
        "    return 1\n"
        "  }\n"
        "}\n\n"
        "export function pad() {\n"
        "  return 2\n"
        "}\n"
    ),
    "page/first.js": "function spread() {\n  return 1\n}\n",
    "page/second.js": "function show() {\n  spread()\n}\n",
    "java/a/Till.java": "package a;\nclass Till {\n  void ring() { }\n}\n",
    "java/a/Shop.java": "package a;\nclass Shop {\n  void open() { make().ring(); }\n}\n",
    "java/b/Other.java": (
        "package b;\nimport a.Shop;\nclass Other {\n  void go() { make().ring(); }\n}\n"
    ),
    "java/c/Foreign.java": (
        "package c;\nimport org.Bell;\nclass Foreign {\n  void go() { bell().ring(); }\n}\n"
    ),
    "c/inc/pool.h": "int drain(void);\n",
    "c/src/pool.c": '#include "pool.h"\n\nint drain(void) {\n  return 1;\n}\n',
    "c/tool/main.c": '#include "pool.h"\n\nint main(void) {\n  return drain();\n}\n',
    "c/other/lib.c": "#include <pools.h>\n\nint lib(void) {\n  return drain();\n}\n",
}


def test_a_name_alone_is_followed_within_reach_only(index: Index) -> None:
    """A method of an unknown object, or a name that nothing states, is that of a file imported at
    most two steps away.

    Tests reach what their fixtures do, scripts of a page each other, Java its packages, C what
    shares a header.
    """
    index.of(REACHED)
    assert index.edges("calls") == arrows(
        "near.py:near -> aura.py:Page.error",
        "far.py:far -> aura.py:Page.error",
        "second.js:show -> first.js:spread",
        "Shop.java:Shop.open -> Till.java:Till.ring",
        "Other.java:Other.go -> Till.java:Till.ring",
        "main.c:main -> pool.c:drain",
    )
    assert ("test_it.py:test_it", "aura.py:Page.error") in index.edges("tests")


def test_stars_of_stars_are_followed(index: Index) -> None:
    """What a barrel passes on of barrels is found by its name, also through a namespace; a circle
    of them ends."""
    files = {
        "lib/index.ts": (
            "import * as z from './external'\nexport * from './external'\nexport { z }\n"
        ),
        "lib/external.ts": "export * from './schemas'\nexport * from './index'\n",
        "lib/schemas.ts": "export function object() {\n  return 1\n}\n",
        "use.ts": (
            "import * as z from './lib'\n"
            "import { object } from './lib'\n\n"
            "export function one() {\n"
            "  z.object()\n"
            "}\n\n"
            "export function two() {\n"
            "  object()\n"
            "  z.absent()\n"
            "}\n"
        ),
    }
    index.of(files)
    assert index.edges("calls") == arrows(
        "use.ts:one -> schemas.ts:object", "use.ts:two -> schemas.ts:object"
    )


def test_what_only_passes_on_is_no_step(index: Index) -> None:
    """Files that define nothing are passed through: five of them between two files are none."""
    chain = {f"lib/b{n}.ts": f"export * from './b{n + 1}'\n" for n in range(4)}
    files = {
        "lib/use.ts": "import { top } from './b0'\n\nexport function use(one) {\n  one.spin()\n}\n",
        "lib/b4.ts": "export class Top {\n  spin() {\n    return 1\n  }\n}\n",
    }
    index.of(chain | files)
    assert index.edges("calls") == {("use.ts:use", "b4.ts:Top.spin")}


def test_importers_reach_what_a_name_is_bound_to(index: Index) -> None:
    """A call of an imported name leads to what a call made of an object, or to the block that binds
    the name."""
    files = {
        "lib/api.ts": (
            "export const rename = mutation({\n"
            "  handler: async (ctx) => {\n"
            "    return 1\n"
            "  },\n"
            "})\n\n"
            "export const Plain = memo(Inner)\n"
        ),
        "lib/use.tsx": (
            "import { Plain, rename } from './api'\n\n"
            "export function Page() {\n"
            "  rename(1)\n"
            "  return <Plain />\n"
            "}\n"
        ),
    }
    files["lib/held.ts"] = (
        "class Store {\n  load() {\n    return 1\n  }\n}\n\n"
        "const store = new Store({\n  read(key: string) {\n    return key\n  },\n})\n\n"
        "export function use() {\n  store.load()\n}\n"
    )
    index.of(files)
    assert index.edges("calls") == arrows(
        "use.tsx:Page -> api.ts:rename api.ts:module:Plain",
        "held.ts:use -> held.ts:Store.load",
        "held.ts:module:store -> held.ts:Store",
    )
