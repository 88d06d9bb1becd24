"""A few lines in every language of the table, by its name: path and text."""

from tests.indexer.compiled_sources import SOURCES
from tests.indexer.test_blocks_and_pages import (
    CSS,
    DOCKERFILE,
    GRAPHQL,
    JENKINS,
    MAKEFILE,
    PROTO,
    SQL,
    TERRAFORM,
    VUE,
)
from xscore.indexer.languages import language_of

_SCRIPT = """import { total } from './total'

// Pays.
export class Cart extends Base {
  total() {
    return total(this.items)
  }
}

describe('cart', () => {
  it('pays', () => {
    expect(new Cart().total()).toBe(0)
  })
})
"""
_MORE = {
    "pkg/a.py": (
        "import os\n\n\n"
        "class A(B):\n"
        '    """Doc."""\n\n'
        "    x = 1\n\n"
        "    @property\n"
        "    def f(self):\n"
        "        return os.path.join(1)\n\n\n"
        "def g():\n"
        "    return A().f\n"
    ),
    "src/a.js": _SCRIPT,
    "src/a.ts": _SCRIPT.replace("total() {", "total(): number {"),
    "src/a.tsx": (
        "import a from 'a'\n\nfunction Page(): Node {\n  return <A b={1}>\n    {a()}\n  </A>\n}\n"
    ),
    "a.html": "<p>\n<script>\nfunction pay(id) {\n  return total(id)\n}\n</script>\n</p>\n",
    "a.vue": VUE,
    "a.svelte": "<script>\nfunction pay(id) {\n  return total(id)\n}\n</script>\n<p>{x}</p>\n",
    "a.ipynb": '{"cells": [{"cell_type": "code", "source": ["def f():\\n", "  return 1"]}]}',
    "a.md": "# Shop\n\nAll about `it`.\n\n## Pay\n\n- x\n  - y\n\n> z\n",
    "a.rst": "Shop\n====\n\nAll about `it`.\n\nPay\n---\n\n.. note:: x\n",
    "a.adoc": "= Shop\n\nAll about it.\n\n== Pay\n\n----\n== not one\n----\n",
    "a.toml": "# How.\n[shop]\nrate = 1\n\n[shop.tax]\nrates = [1, 2]\n",
    "a.yaml": "# How.\nshop:\n  rate: 1\ntax:\n  - a\n  - {b: [1]}\n",
    "a.json": '{\n  "shop": {"rate": 1},\n  "tax": [1, 2]\n}\n',
    "a.ini": "[shop]\nrate = 1\n\n; tax\n[tax]\nrates = 1\n",
    "a.jinja": "{% if x %}\n<p>{{ y }}</p>\n{% endif %}\n",
    "a.fish": "function pay\n  echo $argv\nend\n",
    "a.xml": "<shop>\n  <rate>1</rate>\n</shop>\n",
    "a.pyx": "cdef int pay(int x):\n    return x\n",
    "go.mod": "module example.com/shop\n\ngo 1.22\n",
    "a.sql": SQL,
    "a.proto": PROTO,
    "a.graphql": GRAPHQL,
    "a.tf": TERRAFORM,
    "Dockerfile": DOCKERFILE,
    "Makefile": MAKEFILE,
    "a.css": CSS,
    "Jenkinsfile": JENKINS,
}
SAMPLES = {
    language_of(path).name: (path, text)
    for path, text in [*_MORE.items(), *((path, text) for path, (text, _) in SOURCES.items())]
}
