"""A memory shown in part: outlines by name, functions by relevant lines, redacted lines marked."""

from msgspec.structs import replace

from tests.prompts.bundle_memories import bundle, entry, memory
from xscore.prompts.bundle_parts import BundleExtras
from xscore.prompts.left_out import (
    MOST_SIGNATURES,
    name_methods,
    show_in_part,
    telling_words,
    without_stubs,
)
from xscore.records.memory import Kind

STUBS = "".join(
    f"    @property\n    def method_{n}(\n        self, a: tuple[int, ...] = (1, (2)),\n    ) ->"
    ' "T[..., int]": ...\n\n'
    for n in range(30)
)
OUTLINE = (
    'class Big(Base):\n    """Keeps (many) things: ..."""\n\n    path: Path\n    call:'
    f" Callable[..., int]\n\n{STUBS}"
)
LONG = "def settle(rows):\n" + "".join(f"    step_{n}(rows)\n" for n in range(200))
LONG = LONG.replace("step_150(rows)", "ledger.book(discount(rows))")


def test_a_long_outline_names_its_methods() -> None:
    """A class of thirty methods keeps head, docstring, fields and method names, in a tenth of the
    space."""
    short = name_methods(OUTLINE)
    assert short.startswith(
        'class Big(Base):\n    """Keeps (many) things: ..."""\n\n    path: Path\n    call:'
    )
    assert (
        "    # 30 methods, only named: method_0, method_1, " in short
        and "@property" not in short
    )
    assert len(short) < len(OUTLINE) / 4
    few = "class A:\n" + "".join(f"    def f{n}(self): ...\n" for n in range(MOST_SIGNATURES))
    assert name_methods(few) == few
    script = (
        "class B {\n"
        + "".join(f"  async m{n}<T>(a: T): Promise<void> {{ ... }}\n" for n in range(12))
        + "}"
    )
    assert name_methods(script).startswith("class B {\n  // 12 methods, only named: m0, m1, ")


def test_a_long_outline_leaves_room_for_its_twin() -> None:
    """Two classes of forty methods fit where one's signatures would have filled the budget."""
    text = "class Big:\n" + "".join(
        f"    def method_{n}(self, alpha: int, beta: str) -> int: ...\n" for n in range(40)
    )
    twins = [
        entry(memory(f"Big{n}", text, path=f"{n}.py", kind=Kind.CLASS), 0.9, header="")
        for n in range(2)
    ]
    rendered = bundle(twins, max_tokens=700)
    assert len(rendered.included) == 2 and "shown in part" not in rendered.text


def test_without_stubs_takes_whole_signatures() -> None:
    """A signature over several lines is removed completely; a line with more content stays."""
    text = "class A:\n    def f(\n        self,\n    ) -> None: ...\n    def g(self): return 1"
    assert (
        without_stubs(text, ["def f(\n    self,\n) -> None:", "def g(self):"])
        == "class A:\n    def g(self): return 1"
    )


def test_a_function_without_room_shows_the_lines_that_matter() -> None:
    """Head and lines with the task's words stay, gaps show the file's line numbers, and the cut is
    noted."""
    settle = memory("settle", LONG, path="bill.py", start_line=41)
    rendered = bundle(
        [entry(settle, 0.95, header="")],
        max_tokens=400,
        extras=BundleExtras(task_words=telling_words("why is the discount booked twice?")),
    )
    assert (rendered.included, rendered.left_out) == ((settle.id,), ())
    assert "(shown in part)" in rendered.text and "ledger.book(discount(rows))" in rendered.text
    assert "def settle(rows):\n[… lines 42-189 left out …]\n    step_148(rows)" in rendered.text
    assert rendered.tokens <= 400
    named = bundle(
        [entry(settle, 0.95, header="")],
        max_tokens=400,
        extras=BundleExtras(task_words=telling_words("unrelated")),
    )
    assert named.left_out == (settle.id,)


def test_lines_that_matter_keep_to_the_limit() -> None:
    """The excerpt stays within its limit, and is empty if no line has a word of the task."""
    words = telling_words("book the discount")
    assert words == {"book", "discount"}
    assert len(show_in_part(LONG, words, first_line=1, limit=200)) < 300
    assert show_in_part(LONG, telling_words("zebra"), first_line=1, limit=200) == ""


def test_redacted_lines_are_told() -> None:
    """The bundle names the file's redacted lines, so that they are not written back."""
    text = (
        "def connect():\n"
        '    """See https://<SECRET:url_password>@host."""\n'
        '    return "<PII:email>"'
    )
    shown = bundle([entry(replace(memory("connect", text), start_line=7), 0.9)]).text
    assert "(redacted on line 8, 9: leave as in the file)" in shown
