"""Languages recognised by their first lines, scripts inside pages, and notebook cells."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.indexer.conftest import Index, pieces_of, unseen_lines
from xscore.indexer.embedded import CELL, MARKDOWN_CELL
from xscore.indexer.languages import language_of
from xscore.records.memory import Kind
from xscore.store.file_bodies import read_with_bodies

SQL = """-- Every order that was paid.
CREATE TABLE IF NOT EXISTS shop.orders (
    id int,
    paid bool,
    total numeric
);

CREATE OR REPLACE FUNCTION net(amount numeric) RETURNS numeric AS $$
BEGIN
  RETURN amount * 0.8;
END;
$$ LANGUAGE plpgsql;

create unique index paid_orders
  on shop.orders (paid)
  where paid;
  -- end
"""
PROTO = """syntax = "proto3";
import "base/money.proto";

// One order.
message Order {
  string id = 1;
  Money total = 2;
  bool paid = 3;
}

service Shop {
  rpc Pay (Order) returns (Order);
  rpc Refund (Order) returns (Order);
  rpc List (Order) returns (Order);
}
"""
GRAPHQL = """type Order {
  id: ID!
  total: Int
  paid: Boolean
}

extend type Query {
  order(id: ID!): Order
  orders: [Order]
  paid: [Order]
}
"""
TERRAFORM = """resource "aws_s3_bucket" "logs" {
  bucket = "logs"
  acl    = "private"
  tags   = {}
}

variable "region" {
  default = "eu"
  type    = string
  description = "Where."
}
"""
DOCKERFILE = """# Build it.
FROM python:3.12 AS build
WORKDIR /app
COPY . .
RUN make

FROM scratch
COPY --from=build /app /app
RUN ls
CMD ["/app"]
"""
MAKEFILE = """CC := gcc
# Everything.
all: lib bin
\techo a
\techo b
\techo c

build/%.o: src/%.c
\t$(CC) -c $<
\techo d
\techo e
"""
CSS = """.order > .total,
.order b {
  color: red;
  margin: 0;
}

@media print {
  .order { display: none }
  .menu { display: none }
  .x { display: none }
}
"""


@pytest.mark.parametrize(
    ("path", "text", "names"),
    [
        (
            "a.sql",
            SQL,
            ["CREATE TABLE shop.orders", "CREATE FUNCTION net", "create index paid_orders"],
        ),
        ("a.proto", PROTO, ['syntax = "proto3"', "message Order", "service Shop"]),
        ("a.graphql", GRAPHQL, ["type Order", "type Query"]),
        ("main.tf", TERRAFORM, ["resource aws_s3_bucket logs", "variable region"]),
        ("docker/Dockerfile.dev", DOCKERFILE, ["FROM build", "FROM"]),
        ("Makefile", MAKEFILE, ["all", "build/%.o"]),
        ("a.css", CSS, [".order > .total", "@media print"]),
    ],
)
def test_blocks_are_cut_where_their_first_lines_are(
    path: str, text: str, names: list[str]
) -> None:
    """Each statement, target, stage or rule is a memory with its own name, and no line is lost."""
    assert list(pieces_of(path, text)) == names
    assert unseen_lines(path, text) == []


def test_a_comment_explains_the_block_below_it() -> None:
    """A comment directly above a statement belongs to it."""
    table = pieces_of("a.sql", SQL)["CREATE TABLE shop.orders"]
    assert table.start == 0
    assert table.facts.docstring == "Every order that was paid."
    assert table.kind == Kind.BLOCK
    assert pieces_of("Dockerfile", DOCKERFILE)["FROM build"].facts.docstring == "Build it."


VUE = """<template>
  <button @click="pay">Pay</button>
</template>

<script setup lang="ts">
import { total } from './total'

/** Pays the order. */
function pay(id: string): number {
  return total(id)
}
</script>

<style scoped>
button { color: red }
</style>
"""


def test_the_script_of_a_page_is_code() -> None:
    """Functions in Vue, Svelte and HTML keep their lines and calls; markup and styles become
    windows."""
    pieces = pieces_of("shop/Pay.vue", VUE)
    pay = pieces["pay"]
    assert pay.kind == Kind.FUNCTION
    assert pay.start + 1 == 8
    assert pay.end + 1 == 11
    assert pay.facts.docstring == "Pays the order."
    assert pay.facts.dependencies == ("total",)
    assert [piece.start for piece in pieces.values() if piece.kind is Kind.TEXT] == [0, 11]
    assert unseen_lines("shop/Pay.vue", VUE) == []


CARD = """<script>
  import Price from './Price.svelte';
  let { item } = $props();
</script>

<article class="card">
  <Price amount={item.price} />
</article>
"""


def test_a_short_component_without_functions_is_one_memory(index: Index) -> None:
    """It is named by its file, holds what it imports, and no tag of a script is a memory."""
    pieces = pieces_of("src/Card.svelte", CARD)
    assert [(name, piece.start, piece.end) for name, piece in pieces.items()] == [
        ("module:Card", 0, 7)
    ]
    assert pieces["module:Card"].facts.imports == ("./Price.svelte",)
    assert list(pieces_of("src/Nav.vue", "<script>\nlet a\n</script>\n<p>{{ a }}</p>\n")) == [
        "module:Nav"
    ]
    index.of({"src/Card.svelte": CARD, "src/Price.svelte": "<p>{amount}</p>\n"})
    assert index.edges("imports") == {("f_src/Card.svelte", "f_src/Price.svelte")}


def test_the_tag_of_a_script_is_no_memory() -> None:
    """A tag without markup next to it stays with the code; markup below it has a name of its
    own."""
    rows = "  <p>text</p>\n" * 70
    page = CARD.replace("</article>", f"{rows}</article>")
    pieces = pieces_of("src/Card.svelte", page)
    assert list(pieces)[:2] == ["module:imports", "article"]
    assert pieces["module:imports"].text.startswith("<script>\n")
    assert unseen_lines("src/Card.svelte", page) == []
    last = "<script>\nfunction pay() {\n  return 1\n}\n</script>\n"
    assert list(pieces_of("a.html", last)) == ["pay"]
    assert unseen_lines("a.html", last) == []


@pytest.mark.parametrize("closing", ["", "</scr", "</script"])
def test_a_page_that_ends_inside_a_script_loses_nothing(closing: str) -> None:
    """Unclosed scripts, data and templates stay text."""
    text = "<p>\n" + "<script>\n" * 2000 + "let a = 1\n" + closing
    assert unseen_lines("a.html", text) == []
    data = '<script type="application/json">\n{"a": 1}\n</script>\n'
    assert {piece.kind for piece in pieces_of("a.html", data).values()} == {Kind.TEXT}


def _notebook() -> dict[str, Any]:
    image = {
        "output_type": "display_data",
        "data": {"image/png": "iVBOR" * 4000},
        "metadata": {},
    }
    code = {"execution_count": 1, "metadata": {}, "outputs": [image], "cell_type": "code"}
    return {
        "cells": [
            {
                "cell_type": "markdown",
                "metadata": {},
                "source": ["# Paid orders\n", "\n", "How many are `paid`.\n"],
            },
            {
                **code,
                "source": [
                    "def paid(orders):\n",
                    '    """Count \\"them\\"."""\n',
                    "    return len(orders)\n",
                ],
            },
            {**code, "source": ["%matplotlib inline"]},
            {**code, "source": []},
        ],
        "metadata": {"kernelspec": {"name": "python3"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def test_a_notebook_is_its_cells_without_outputs(tmp_path: Path, index: Index) -> None:
    """Sources keep their line numbers in the file; an image in an output excludes nothing."""
    cells = _notebook()
    text = json.dumps(cells, indent=1, sort_keys=True) + "\n"
    (tmp_path / "paid.ipynb").write_text(text)
    packed = {
        **cells,
        "cells": [{**cell, "source": "".join(cell["source"])} for cell in cells["cells"]],
    }
    (tmp_path / "packed.ipynb").write_text(json.dumps(packed))
    (tmp_path / "broken.ipynb").write_text("{")
    report = index.run(tmp_path)
    assert report.files.excluded.by_reason == {"broken_notebook": 1}
    memories = list(read_with_bodies(index.connection, "path, entity, start_line", "true"))
    by_file = {path: [row[1:] for row in memories if row[0] == path] for path, *_ in memories}
    spans = {entity: start for entity, start, *_ in by_file["paid.ipynb"]}
    lines = text.split("\n")
    assert (
        "def paid" in lines[spans["paid"] - 1]
        and "# Paid orders" in lines[spans["Paid orders"] - 1]
    )
    assert [row[0] for row in by_file["packed.ipynb"]] == [
        row[0] for row in by_file["paid.ipynb"]
    ]
    assert not any("iVBOR" in str(text) for *_, text in memories)


def test_a_notebook_of_the_third_format_is_its_cells(tmp_path: Path, index: Index) -> None:
    """Cells on sheets, code as `input`, headings with a level; rows stay where they are."""
    cells = [
        {"cell_type": "heading", "level": 2, "metadata": {}, "source": ["Paid orders"]},
        {"cell_type": "markdown", "metadata": {}, "source": ["How many are `paid`."]},
        {
            "cell_type": "code",
            "input": ["def paid(orders):\n", "    return len(orders)"],
            "outputs": [],
        },
    ]
    notebook = {
        "metadata": {"name": ""},
        "nbformat": 3,
        "worksheets": [{"cells": cells, "metadata": {}}],
    }
    (tmp_path / "old.ipynb").write_text(json.dumps(notebook, indent=1, sort_keys=True))
    assert index.run(tmp_path).files.excluded.by_reason == {}
    text_by_name = {
        row[1]: row[-1] for row in read_with_bodies(index.connection, "path, entity", "true")
    }
    assert text_by_name["paid"] == "def paid(orders):\n    return len(orders)"
    assert "Paid orders" in " ".join(text_by_name)


JENKINS = """pipeline {
  agent any
  stages {
    stage('Build') {
      steps {
        sh 'make'
        sh 'make more'
      }
    }
    stage("Test it") {
      steps {
        sh 'make test'
      }
    }
  }
}

def notifyAll(String text) {
  echo text
  echo text
  echo text
}
"""


def test_stages_of_jenkins_are_blocks() -> None:
    """A stage, a method and a block at the margin begin a memory, also in `Jenkinsfile.release`."""
    assert list(pieces_of("Jenkinsfile", JENKINS)) == [
        "pipeline",
        "stage Build",
        "stage Test it",
        "notifyAll",
    ]
    assert language_of("ci/Jenkinsfile.release").name == "groovy"
    assert language_of("build.gradle").name == "groovy"


def test_asciidoc_is_cut_by_heading() -> None:
    """A `=` inside a listing is no heading."""
    text = (
        "= Shop\n\nAll about it.\n\n== Pay\n\n----\n== not one\n----\n\n=== Refund\n\nBack.\n"
    )
    assert list(pieces_of("a.adoc", text)) == ["Shop", "Shop > Pay", "Shop > Pay > Refund"]


def test_names_of_variants() -> None:
    """`Dockerfile.dev` is a Dockerfile; `Gemfile.lock` is no Gemfile."""
    assert [
        language_of(name).name for name in ("Dockerfile.dev", "Makefile.am", "Gemfile.lock")
    ] == [
        "dockerfile",
        "make",
        "text",
    ]


def _cells(*cells: tuple[str, str]) -> str:
    return "\n".join(f"{kind}\n{text}" for kind, text in cells) + "\n"


def test_a_heading_alone_goes_with_the_code_below_it() -> None:
    """Twelve notebooks with a cell `## Load the weights` have no twelve memories that say only
    this."""
    text = _cells(
        (MARKDOWN_CELL, "# Model\n"),
        (MARKDOWN_CELL, "It is small.\n"),
        (MARKDOWN_CELL, "## Load the weights"),
        (CELL, "def load(model):\n    return model\n"),
        (MARKDOWN_CELL, "## Use it"),
        (CELL, "model = load(1)\n"),
        (MARKDOWN_CELL, "## The end"),
    )
    pieces = pieces_of("a.ipynb", text)
    assert list(pieces) == ["Model", "load", "module:model", "The end"]
    assert pieces["Model"].text == "# Model\n\n\nIt is small."
    load = pieces["load"]
    assert load.text == "## Load the weights\n\ndef load(model):\n    return model"
    assert (load.facts.docstring, load.title) == ("Load the weights", "load: Load the weights")
    assert (load.kind, load.start) == (Kind.FUNCTION, 7)
    assert pieces["module:model"].facts.defines == ("model",)
