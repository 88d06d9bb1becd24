"""`xscore graph` and `xscore memory audit` on the command line."""

import json
from pathlib import Path

from tests.cli.conftest import Run
from tests.conftest import MakeRepo

FILES = {
    "shop/prices.py": "def total(lines):\n    return sum(lines)\n",
    "shop/cart.py": (
        "from shop.prices import total\n\n\ndef checkout(lines):\n    return total(lines)\n"
    ),
    "tests/test_prices.py": (
        "from shop.prices import total\n\n\ndef test_total():\n    assert total([1]) == 1\n"
    ),
}


def indexed(make_repo: MakeRepo, xscore: Run) -> Path:
    """Make and index a repository."""
    root = make_repo(FILES)
    assert xscore("index", cwd=root).returncode == 0
    return root


def test_graph_answers_from_anywhere_in_the_repository(
    make_repo: MakeRepo, xscore: Run
) -> None:
    """A06: related, deps and affected, for a file or an entity, named relative to the current
    folder or the root."""
    root = indexed(make_repo, xscore)
    affected = xscore("graph", "affected", "prices.py", cwd=root / "shop")
    assert affected.returncode == 0
    assert [line.split()[0] for line in affected.stdout.splitlines()] == [
        "tests/test_prices.py",
        "shop/cart.py",
    ]
    deps = xscore("graph", "deps", "shop/cart.py::checkout", "--json", cwd=root)
    reply = json.loads(deps.stdout)
    assert (reply["schema"], reply["of"]) == (1, "shop/cart.py::checkout")
    assert [(node["path"], node["entity"], node["relation"]) for node in reply["found"]] == [
        ("shop/prices.py", "total", "calls")
    ]
    related = xscore("graph", "related", str(root / "shop/prices.py"), "--depth", "2", cwd=root)
    assert "calls it" in related.stdout or "imports it" in related.stdout


def test_a_link_of_more_steps_names_what_lies_between(make_repo: MakeRepo, xscore: Run) -> None:
    """What calls a caller is not said to call the start, and a dependency of a dependency names who
    calls it."""
    files = FILES | {
        "shop/pay.py": "from shop.cart import checkout\n\n\ndef pay():\n    return checkout([1])\n"
    }
    root = make_repo(files)
    xscore("index", cwd=root)
    affected = xscore("graph", "affected", "prices.py::total", cwd=root).stdout
    assert "1 step   shop/cart.py:4-5  checkout  calls it\n" in affected
    assert "2 steps  shop/pay.py:4-5  pay  calls checkout\n" in affected
    deps = xscore("graph", "deps", "shop/pay.py::pay", cwd=root).stdout
    assert "1 step   shop/cart.py:4-5  checkout  called by it\n" in deps
    assert "2 steps  shop/prices.py:1-2  total  called by checkout\n" in deps
    none = xscore("graph", "affected", "shop/pay.py::pay", cwd=root).stderr
    assert none == "the index has nothing that calls, imports or tests shop/pay.py::pay\n"


def test_callers_and_callees_are_functions(make_repo: MakeRepo, xscore: Run) -> None:
    """For a function, or each function in a file: who calls it and whom it calls, one step,
    without imports."""
    files = FILES | {
        "shop/prices.py": (
            FILES["shop/prices.py"] + "\n\ndef tax(lines):\n    return total(lines) / 5\n"
        )
    }
    root = make_repo(files)
    xscore("index", cwd=root)
    callers = json.loads(xscore("graph", "callers", "total", "--json", cwd=root).stdout)[
        "found"
    ]
    assert {(node["path"], node["entity"], node["relation"]) for node in callers} == {
        ("shop/prices.py", "tax", "calls"),
        ("shop/cart.py", "checkout", "calls"),
        ("tests/test_prices.py", "test_total", "tests"),
    }
    of_file = xscore("graph", "callers", "prices.py", cwd=root / "shop").stdout.splitlines()
    assert sorted(of_file) == [
        "shop/cart.py:4-5  checkout  calls total",
        "tests/test_prices.py:1-5  test_total  tests total",
    ]
    callees = xscore("graph", "callees", "shop/cart.py::checkout", cwd=root).stdout
    assert callees == "shop/prices.py:1-2  total  called by it\n"
    none = xscore("graph", "callees", "total", cwd=root)
    assert (none.returncode, none.stdout) == (0, "")


def test_a_bare_name_stands_for_every_definition_of_it(
    make_repo: MakeRepo, xscore: Run
) -> None:
    """If a file has two definitions of a name, it means both, each with its callers; what is
    not seen is not denied."""
    twins = (
        "if fast:\n"
        "    def mode():\n"
        "        return inner()\n"
        "else:\n"
        "    def mode():\n"
        "        return 1\n\n\n"
    )
    root = make_repo(
        {
            "a.md": "# mode#2 of C\n\nText.\n",
            "m.py": twins + "def inner():\n    return 2\n\n\ndef user():\n    return mode()\n",
        }
    )
    xscore("index", cwd=root)
    callers = json.loads(xscore("graph", "callers", "mode", "--json", cwd=root).stdout)["found"]
    assert [(node["entity"], node["ties"]) for node in callers] == [("user", 2)]
    callees = json.loads(xscore("graph", "callees", "user", "--json", cwd=root).stdout)["found"]
    assert {node["entity"] for node in callees} == {"mode", "mode#2"}
    none = xscore("graph", "callers", "user", cwd=root)
    assert (none.returncode, none.stdout) == (0, "") and "may be called" in none.stderr


def test_graph_says_what_may_be_meant(make_repo: MakeRepo, xscore: Run) -> None:
    """An unknown name prints nothing on stdout and near names on stderr, wherever a name is
    accepted."""
    root = indexed(make_repo, xscore)
    done = xscore("graph", "deps", "price.py", cwd=root)
    assert (done.returncode, done.stdout) == (1, "")
    assert "shop/prices.py" in done.stderr
    assert xscore("graph", "deps", "shop/cart.py", "--depth", "0", cwd=root).returncode == 2
    wrong_file = xscore("estimate", "the total", "--file", "shop/carts.py", cwd=root)
    assert wrong_file.returncode == 2 and "shop/cart.py" in wrong_file.stderr
    turn = json.loads(xscore("context", "the total", "--json", cwd=root).stdout)["turn_id"]
    wrong_turn = xscore("history", "show", f"{turn[:-2]}zz", cwd=root)
    assert wrong_turn.returncode == 1 and turn in wrong_turn.stderr
    for name in ("shop/cart.py:4", "cart.py::checkout", "checkout"):
        assert xscore("explain", name, cwd=root).stdout.startswith("shop/cart.py::checkout")
    assert "shop/cart.py::checkout" in xscore("explain", "chekout", cwd=root).stderr


def test_audit_ends_with_one_where_something_needs_doing(
    make_repo: MakeRepo, xscore: Run
) -> None:
    """A clean audit exits with 0; a stale memory is named with its citation, exit code 1."""
    root = indexed(make_repo, xscore)
    clean = {"schema": 1, "findings": [], "looked_at": 0, "is_clean": True}
    assert json.loads(xscore("memory", "audit", "--json", cwd=root).stdout) == clean
    decision = (
        "memory",
        "add",
        "Sum \x1b[31mplainly",
        "--kind",
        "decision",
        "--cite",
        "shop/prices.py:1-2",
    )
    decision_id = json.loads(xscore(*decision, "--json", cwd=root).stdout)["id"]
    assert xscore("memory", "audit", cwd=root).returncode == 0
    (root / "shop/prices.py").write_text("def total(lines):\n    return 0\n")
    done = xscore("memory", "audit", cwd=root)
    assert done.returncode == 1 and "stale: 1" in done.stdout
    assert (
        f"{decision_id} “Sum \\x1b[31mplainly”: the code it cites has changed: shop/prices.py:1-2"
        in done.stdout
    )


def test_slices_are_files_that_belong_together(make_repo: MakeRepo, xscore: Run) -> None:
    """Two packages that do not know each other are two slices; a file names its own."""
    files: dict[str, str] = {}
    for package in ("shop", "mail"):
        files[f"{package}/core.py"] = f"def {package}_total(lines):\n    return sum(lines)\n"
        for name in ("one", "two", "three"):
            files[f"{package}/{name}.py"] = (
                f"from {package}.core import {package}_total\n\n\n"
                f"def {package}_{name}(lines):\n    return {package}_total(lines)\n"
            )
    root = make_repo(files)
    xscore("index", cwd=root)
    slices = json.loads(xscore("graph", "slices", "--json", cwd=root).stdout)["slices"]
    assert {(slice_["folder"], slice_["hub"], len(slice_["files"])) for slice_ in slices} == {
        ("shop", "shop/core.py", 4),
        ("mail", "mail/core.py", 4),
    }
    of_file = xscore("graph", "slices", "two.py", cwd=root / "shop")
    assert of_file.returncode == 0 and "mail" not in of_file.stdout
    assert xscore("graph", "slices", "no_such.py", cwd=root).returncode == 1
    assert xscore("graph", "deps", cwd=root).returncode == 2
