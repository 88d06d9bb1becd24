"""Tests and what they are for."""

from textwrap import dedent

from tests.indexer.conftest import pieces_of
from xscore.records.memory import Kind

PYTHON = dedent(
    '''\
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
    '''
)


def test_everything_in_a_test_file_is_a_test() -> None:
    """X22: functions, classes, fixtures and blocks of test files are of kind test."""
    assert {piece.kind for piece in pieces_of("tests/test_app.py", PYTHON).values()} == {Kind.TEST}


def test_the_card_says_name_docstring_and_what_is_tested() -> None:
    """X22: a test's card has its name, what it says of itself and what it calls, without the tools of testing."""
    test = pieces_of("tests/test_app.py", PYTHON)["TestRoutes.test_missing_route"]
    assert test.card == (
        "def test_missing_route(self, app)\nA missing route is a 404. It says so.\nTests: app.test_client"
    )


def test_a_class_of_tests_lists_its_cases() -> None:
    """The card of a class of tests names its cases."""
    card = pieces_of("tests/test_app.py", PYTHON)["TestRoutes"].card
    assert card == "class TestRoutes\nRoutes of the app.\nCases: test_missing_route; test_short"


def test_a_test_case_class_is_a_test_wherever_it_stands() -> None:
    """A class that says by its bases that it holds tests is one, in any file; its neighbours are not."""
    pieces = pieces_of(
        "pkg/a.py", "class A(unittest.TestCase):\n    def test(self):\n        f()\n\ndef g():\n    pass\n"
    )
    assert {name: piece.kind for name, piece in pieces.items()} == {
        "A": Kind.TEST,
        "A.test": Kind.TEST,
        "g": Kind.FUNCTION,
    }


def test_titled_tests_of_scripts() -> None:
    """X22: `describe` and `it` are tests by their titles, nested as they are."""
    text = dedent(
        """\
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
        """
    )
    pieces = pieces_of("src/parse.spec.ts", text)
    titled = {name for name in pieces if not name.startswith("module:")}
    assert titled == {"parser", "parser > reads an empty file", "parser > reads %d", "top ${level}"}
    assert "const fixture = make()" in pieces["parser"].text
    assert 'it("reads an empty file", async () => { ... }' in pieces["parser"].text
    assert "Tests: parse" in pieces["parser > reads an empty file"].card
