"""Edges between entities and files, in small whole repositories."""

from tests.indexer.conftest import Index, arrows
from xscore.store.graph import follow_links

PYTHON = {
    "src/pkg/__init__.py": "from .core import Engine\nfrom . import util\n",
    "src/pkg/core.py": (
        "import os\n"
        "from .util import clean as tidy\n"
        "from . import util\n\n"
        "class Base:\n"
        "    def close_all(self):\n"
        "        pass\n\n"
        "class Engine(Base):\n"
        "    def start(self):\n"
        "        self.check()\n"
        "        tidy(1)\n"
        "        util.report()\n"
        "        os.clean()\n"
        "        self.close_all()\n\n"
        "    def check(self):\n"
        "        return helper()\n\n\n"
        "def helper():\n"
        "    return Engine()\n"
    ),
    "src/pkg/util.py": "def clean(x):\n    return x\n\n\ndef report():\n    clean(2)\n",
    "src/other.py": (
        "from pkg import Engine\nimport pkg.util\n\n\ndef use(thing):\n    Engine().start()\n"
        "    pkg.util.report()\n    thing.check()\n    thing.get()\n"
    ),
    "tests/test_core.py": (
        "from pkg.core import Engine, helper\n\n\ndef make():\n    return helper()\n\n\n"
        "def test_start():\n    make()\n    Engine().start()\n"
    ),
    "docs/guide.md": (
        "# Engine\n\n"
        "See `Engine.start`, `report()` and src/pkg/util.py; `nothing_here` is unknown.\n"
    ),
}


def test_calls_go_to_resolved_targets_only(index: Index) -> None:
    """X29: same file, imports (aliases and re-exports followed), own and inherited methods, unique
    names; no others."""
    index.of(PYTHON)
    assert index.edges("calls") == arrows(
        "core.py:Engine.start -> core.py:Engine.check util.py:clean util.py:report"
        " core.py:Base.close_all",
        "core.py:Engine.check -> core.py:helper",
        "core.py:helper -> core.py:Engine",
        "util.py:report -> util.py:clean",
        "other.py:use -> core.py:Engine core.py:Engine.start util.py:report core.py:Engine.check",
        "test_core.py:test_start -> test_core.py:make",
    )


REEXPORTS = {
    "pkg/__init__.py": ("from .impl import real as public\nfrom .models import Base as Root\n"),
    "pkg/impl.py": "def real():\n    return 1\n",
    "pkg/fake.py": "def public():\n    return 0\n\n\ndef real():\n    return 2\n",
    "pkg/models.py": (
        "class Base:\n    def save(self):\n        pass\n\n    def load(self):\n        pass\n"
    ),
    "pkg/other.py": (
        "class Other:\n    def save(self):\n        pass\n\n    def load(self):\n        pass\n"
    ),
    "app/use.py": (
        "from pkg import Root, public\n\n\n"
        "class Middle(Root):\n"
        "    def save(self):\n"
        "        super().save()\n"
        "        public()\n\n\n"
        "class Leaf(Middle):\n"
        "    def run(self):\n"
        "        self.save()\n"
        "        self.load()\n"
    ),
    "web/a.js": "export function real() {\n  return 1\n}\n",
    "web/b.js": "export function real() {\n  return 2\n}\n",
    "web/index.js": "export { real as shown } from './a.js'\n",
    "web/use.js": (
        "import { shown } from './index.js'\nexport function go() {\n  shown()\n}\n"
    ),
}


def test_renamed_reexports_and_inherited_methods_are_followed(index: Index) -> None:
    """`from .a import x as y` exports `x`; `self.save()` finds the nearest base with it, `super()`
    one above."""
    root = index.make(REEXPORTS)
    index.run(root)
    expected = arrows(
        "use.py:Middle.save -> models.py:Base.save impl.py:real",
        "use.py:Leaf.run -> use.py:Middle.save models.py:Base.load",
        "use.js:go -> a.js:real",
    )
    assert index.edges("calls") == expected
    (root / "pkg/__init__.py").write_text(
        "from .fake import real as public\nfrom .models import Base as Root\n"
    )
    index.run(root)
    assert index.edges("calls") == expected - {("use.py:Middle.save", "impl.py:real")} | {
        ("use.py:Middle.save", "fake.py:real")
    }


TYPED = {
    "shop/base.py": "class Base:\n    def get(self):\n        pass\n",
    "shop/cart.py": (
        "from .base import Base\n\n\nclass Cart(Base):\n    def close(self):\n        pass\n"
    ),
    "shop/desk.py": (
        "class Desk:\n    def get(self):\n        pass\n\n    def close(self):\n        pass\n"
    ),
    "shop/use.py": (
        "from .cart import Cart\n\n\n"
        "def settle(one: Cart, other: 'Cart | None' = None, many: list[Cart] = ()):\n"
        "    one.get()\n    other.close()\n    many.close()\n"
    ),
    "web/Cart.java": "class Till {\n  int close() {\n    return 1;\n  }\n}\n",
    "web/Box.java": (
        "class Box {\n"
        "  int close() {\n"
        "    return 2;\n"
        "  }\n\n"
        "  @Override\n"
        "  public char charOf(int i) {\n"
        "    return 1;\n"
        "  }\n\n"
        "  int settle(Till till, Foreign word) {\n"
        "    Till own = till;\n"
        "    word.charOf(1);\n"
        "    word.settle(2);\n"
        "    return own.close();\n"
        "  }\n\n"
        "  void other(int[] word) {\n"
        "    word.charOf(1);\n"
        "    word.length();\n"
        "  }\n"
        "}\n"
    ),
}


def test_the_stated_class_of_a_variable_decides_whose_method_is_called(index: Index) -> None:
    """Names shared by several classes are followed only if a declaration says which is meant.

    A method that overrides another may be a foreign class's too, so a call on an unknown object is
    not taken for it.
    """
    index.of(TYPED)
    assert index.edges("calls") == arrows(
        "use.py:settle -> base.py:Base.get cart.py:Cart.close",
        "Box.java:Box.settle -> Cart.java:Till.close",
    )


NAMESPACED = {
    "src/Client.php": (
        "<?php\n"
        "namespace Acme\\Shop;\n\n"
        "use Acme\\Shop\\Cookie\\Jar;\n\n"
        "class Client implements Sends\n"
        "{\n"
        "    public function send()\n"
        "    {\n"
        "        $jar = new Jar();\n"
        "        return Stack::create($jar);\n"
        "    }\n"
        "}\n"
    ),
    "src/Sends.php": (
        "<?php\nnamespace Acme\\Shop;\n\ninterface Sends\n{\n    public function send();\n}\n"
    ),
    "src/Stack.php": (
        "<?php\n"
        "namespace Acme\\Shop;\n\n"
        "class Stack\n"
        "{\n"
        "    public static function create($jar)\n"
        "    {\n"
        "        return $jar;\n"
        "    }\n"
        "}\n"
    ),
    "src/Cookie/Jar.php": (
        "<?php\nnamespace Acme\\Shop\\Cookie;\n\nclass Jar\n{\n    public $all = [];\n}\n"
    ),
}


def test_namespaces_and_static_calls_lead_to_their_classes(index: Index) -> None:
    """The vendor's part of a namespace is no folder; a class in the same namespace is called
    without an import.

    What implements an interface is affected by it.
    """
    index.of(NAMESPACED)
    assert index.edges("calls") == {
        ("Client.php:Client.send", "Jar.php:Jar"),
        ("Client.php:Client.send", "Stack.php:Stack.create"),
    }
    assert index.edges("imports") == {("f_src/Client.php", "f_src/Cookie/Jar.php")}
    assert [
        node.path for node in follow_links(index.connection, "affected", "src/Sends.php")
    ] == ["src/Client.php"]


def test_tests_are_tied_to_what_they_test(index: Index) -> None:
    """X22: a test's calls into the code are `tests` edges, and its file is linked to the file it is
    named after."""
    index.of(PYTHON)
    assert index.edges("tests") == arrows(
        "test_core.py:make -> core.py:helper",
        "test_core.py:test_start -> core.py:Engine core.py:Engine.start",
        "f_tests/test_core.py -> f_src/pkg/core.py",
    )


def test_imports_belonging_and_references(index: Index) -> None:
    """Files import files, members belong to classes and classes to files, docs refer to what they
    name."""
    index.of(PYTHON)
    assert index.edges("imports") == arrows(
        "f_src/pkg/__init__.py -> f_src/pkg/core.py f_src/pkg/util.py",
        "f_src/pkg/core.py -> f_src/pkg/util.py",
        "f_src/other.py -> f_src/pkg/__init__.py f_src/pkg/util.py",
        "f_tests/test_core.py -> f_src/pkg/core.py",
    )
    assert ("core.py:Engine.start", "core.py:Engine") in index.edges("belongs_to")
    assert ("core.py:Engine", "f_src/pkg/core.py") in index.edges("belongs_to")
    assert index.edges("references") == arrows(
        "core.py:Engine -> core.py:Base",
        "guide.md:Engine -> core.py:Engine.start util.py:report f_src/pkg/util.py",
    )


def test_scripts(index: Index) -> None:
    """Required, imported and default-exported names resolve across JavaScript and TypeScript."""
    files = {
        "lib/app.js": (
            "const view = require('./view')\n"
            "const { pick } = require('./pick')\n"
            "const u = require('./u')\n\n"
            "function run () {\n"
            "  view(pick(1))\n"
            "  u.trim2()\n"
            "}\n"
        ),
        "lib/view.js": "module.exports = function render () {\n  return 1\n}\n",
        "lib/pick.ts": "export function pick(x: number) {\n  return x\n}\n",
        "lib/u.js": "exports.trim2 = function () {\n  return 2\n}\n",
        "lib/Page.tsx": (
            "import { run } from './app'\n\n"
            "export const Page = () => {\n"
            "  run()\n"
            "  return <Box />\n"
            "}\n\n"
            "function Box() {\n"
            "  return null\n"
            "}\n"
        ),
        "lib/same.py": "def run():\n    pick(1)\n",
        "store/index.ts": 'export * from "../disk/impl"\n',
        "disk/impl.ts": "export function open(x: number) {\n  return x\n}\n",
        "other/open.ts": "export function open(x: string) {\n  return x\n}\n",
        "use.ts": (
            'import { open } from "./store"\n\nexport function reads() {\n  return open(1)\n}\n'
        ),
    }
    index.of(files)
    assert index.edges("calls") == arrows(
        "app.js:run -> view.js:render pick.ts:pick u.js:trim2",
        "Page.tsx:Page -> app.js:run Page.tsx:Box",
        "use.ts:reads -> impl.ts:open",
    )


VALUES = {
    "pkg/__init__.py": "from .conf import LIMIT\nfrom .conf import *\n",
    "pkg/conf.py": "LIMIT = 3\n\n\ndef load():\n    return 1\n\n\nmode, console = load(), 1\n",
    "pkg/use.py": (
        "from pkg import LIMIT, conf\nfrom pkg.conf import console, load, mode as way\n\n\n"
        "def bare(limit=LIMIT):\n    return limit\n\n\n"
        "def qualified(conf=conf.LIMIT):\n    return conf.mode\n\n\n"
        "def chained():\n    return conf.mode.upper()\n\n\n"
        "def of_object():\n    console.print(1)\n\n\n"
        "def renamed():\n    return [way for _ in range(2)]\n\n\n"
        "def hidden(LIMIT):\n    return LIMIT\n\n\n"
        "def local():\n    way = 1\n    return way\n\n\n"
        'def only_said(x):\n    """LIMIT, conf.LIMIT"""\n'
        "    # LIMIT\n    return x.LIMIT, load, go(way=2), conf.absent\n"
    ),
    "web/mail.ts": "export const email = /x/\n\nexport function send() {\n  return 1\n}\n",
    "web/index.ts": "export * from './mail'\n",
    "web/form.ts": (
        "import { email, send } from './index'\nimport * as mail from './mail'\n\n"
        "export function check(x: string) {\n  return email.test(x)\n}\n\n"
        "export function short() {\n  return { email }\n}\n\n"
        "export function all() {\n  return [mail.email, send]\n}\n\n"
        "export function other({ email }: Box) {\n  return email\n}\n\n"
        "export function each() {\n  return [1].map((email) => email)\n}\n"
    ),
    "go.mod": "module shop\n",
    "rates/rates.go": "package rates\n\nfunc Of() int {\n\treturn 1\n}\n",
    "rates/limit.go": "package rates\n\nconst Limit = 3\n",
    "cmd/run.go": (
        'package cmd\n\nimport "shop/rates"\n\nfunc Run() int {\n\treturn rates.Limit\n}\n\n'
        "func Hidden(rates Box) int {\n\treturn rates.Limit\n}\n"
    ),
    "src/lib.rs": "pub mod conf;\n\npub const TOP: u8 = 1;\n",
    "src/conf.rs": "pub const LIMIT: u8 = 3;\n",
    "src/pay.rs": (
        "use crate::conf::LIMIT;\n\n"
        "pub fn bare() -> u8 {\n"
        "    LIMIT\n"
        "}\n\n"
        "pub fn path() -> u8 {\n"
        "    crate::conf::LIMIT\n"
        "}\n\n"
        "pub fn top() -> u8 {\n"
        "    crate::TOP\n"
        "}\n\n"
        "pub fn foreign() -> u8 {\n"
        "    u8::MAX\n"
        "}\n"
    ),
}


def test_a_use_of_an_imported_value_leads_to_the_block_that_defines_it(index: Index) -> None:
    """Bare or behind its module, re-exported or renamed; not if bound again, only called, or only
    said."""
    index.of(VALUES)
    assert index.edges("references") == arrows(
        "use.py:bare -> conf.py:module:LIMIT",
        "use.py:qualified -> conf.py:module:LIMIT",
        "use.py:chained -> conf.py:module:console",
        "use.py:of_object -> conf.py:module:console",
        "use.py:renamed -> conf.py:module:console",
        "form.ts:check -> mail.ts:module:email",
        "form.ts:short -> mail.ts:module:email",
        "form.ts:all -> mail.ts:module:email",
        "run.go:Run -> limit.go:module:Limit",
        "pay.rs:bare -> conf.rs:module:LIMIT",
        "pay.rs:path -> conf.rs:module:LIMIT",
        "pay.rs:top -> lib.rs:module:TOP",
    )
    users = follow_links(index.connection, "affected", "conf.py::LIMIT")
    assert [user.entity for user in users] == ["bare", "qualified"]
