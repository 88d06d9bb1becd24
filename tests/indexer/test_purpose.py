"""Tests and their subjects."""

from textwrap import dedent

from tests.indexer.conftest import pieces_of
from xscore.records.memory import Kind

PYTHON = dedent('''\
    import pytest
    from pkg.app import create


    @pytest.fixture
    def app():
        return create()


    class TestRoutes:
        """Routes of the app."""

        def test_missing_route(self, app):
            """A missing route is a 404. It says so."""
            client = app.test_client()
            response = client.get("/nowhere")
            assert response.status_code == 404
            assert len(response.data) == 0
            assert isinstance(response, Response)
            for header in response.headers:
                print(header)

        def test_short(self):
            assert create()
    ''')


def test_everything_in_a_test_file_is_a_test() -> None:
    """X22: functions, classes, fixtures and blocks of test files are of kind test."""
    assert {piece.kind for piece in pieces_of("tests/test_app.py", PYTHON).values()} == {
        Kind.TEST
    }


def test_the_card_says_name_docstring_and_what_is_tested() -> None:
    """X22: a test's card has its name, its docstring and its calls, without testing tools."""
    test = pieces_of("tests/test_app.py", PYTHON)["TestRoutes.test_missing_route"]
    assert (
        test.card
        == "def test_missing_route(self, app)\nA missing route is a 404. It says so.\nCalls:"
        " app.test_client"
    )


def called(path: str, text: str, entity: str) -> str:
    """Return the last line of a test's card."""
    return pieces_of(path, text)[entity].card.rpartition("\n")[2]


def test_a_call_is_judged_by_its_receiver() -> None:
    """X22: `client.get` counts if the test makes the client; tools, fixtures, helpers and libraries
    do not."""
    text = dedent("""\
        import json

        import httpx
        import pytest

        from .common import build
        from tests.tools import shout


        def prepared():
            return build()


        @pytest.mark.anyio
        @pytest.mark.parametrize("name", ["a", "b"])
        async def test_get(server, monkeypatch, make_app, name):
            monkeypatch.setattr(httpx, "x", 1)
            app = make_app(prepared())
            names = shout(build(json.loads("{}")))
            async with httpx.AsyncClient(app=app, headers={"a": dict(b=1)}, timeout=3) as client:
                response = await client.get(server.url.copy_with(path="/"), params="x=1")
            names.append(response.json())
            with pytest.raises(ValueError):
                httpx.get("nowhere")
        """)
    assert (
        called("tests/test_get.py", text, "test_get")
        == "Calls: httpx.AsyncClient(app=, headers=, timeout=), client.get(params=), response.json,"
        " httpx.get"
    )


def test_calls_of_scripts_are_judged_by_their_receiver() -> None:
    """`axios.get` is a subject; assertions, node's own modules and callback tools are not."""
    text = dedent("""\
        const axios = require('../../index')
        import assert from 'assert'
        import http from 'http'
        import { startServer } from '../helpers/server'

        it('follows', async (done) => {
          const server = await startServer(http.createServer())
          const { data } = await axios.get(server.url, { maxRedirects: 3 })
          assert.strictEqual(data, 1); assert.equal(data.get('x'), 2)
          setTimeout(done, 10); console.log(data)
        })
        """)
    assert called("test/unit/follow.js", text, "follows") == "Calls: axios.get"


def test_the_heading_of_a_card_is_the_whole_signature() -> None:
    """A signature over several lines is joined into one, with its parameters."""
    text = (
        "class Body:\n"
        "    def __init__(\n"
        "        self,\n"
        "        size,\n"
        "    ):\n"
        "        self.size = size\n"
    )
    assert (
        pieces_of("tests/test_a.py", text)["Body.__init__"].card
        == "def __init__( self, size, )"
    )


def test_a_class_of_tests_lists_its_cases() -> None:
    """The card of a test class names its cases."""
    card = pieces_of("tests/test_app.py", PYTHON)["TestRoutes"].card
    assert card == "class TestRoutes\nRoutes of the app.\nCases: test_missing_route; test_short"


def test_a_test_case_class_is_a_test_wherever_it_stands() -> None:
    """A class whose bases mark it as a test is one, in any file; its neighbours are not."""
    pieces = pieces_of(
        "pkg/a.py",
        "class A(unittest.TestCase):\n    def test(self):\n        f()\n\ndef g():\n    pass\n",
    )
    assert {name: piece.kind for name, piece in pieces.items()} == {
        "A": Kind.TEST,
        "A.test": Kind.TEST,
        "g": Kind.FUNCTION,
    }


def test_titled_tests_of_scripts() -> None:
    """X22: `describe` and `it` are tests by their titles, nested as they are."""
    text = dedent("""\
        import { parse } from '../src/parse'

        describe("parser", () => {
          const fixture = make()

          it("reads an empty file", async () => {
            const result = await parse("")
            expect(result).toEqual([])
            expect(result.length).toBe(0)
          })

          it.each([1, 2])('reads %d', (n) => {
            parse(n)
          })
        })

        test(`top ${level}`, function () {
          parse()
        })
        """)
    pieces = pieces_of("src/parse.spec.ts", text)
    titled = {name for name in pieces if not name.startswith("module:")}
    assert titled == {
        "parser",
        "parser > reads an empty file",
        "parser > reads %d",
        "top ${level}",
    }
    assert "const fixture = make()" in pieces["parser"].text
    assert 'it("reads an empty file", async () => { ... }' in pieces["parser"].text
    assert "Calls: parse" in pieces["parser > reads an empty file"].card
