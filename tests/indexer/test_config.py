"""How configuration is cut."""

from tests.indexer.conftest import pieces_of
from xscore.records.memory import Kind


def spans(path: str, text: str, **window: int) -> dict[str, tuple[int, int]]:
    """Line spans by name."""
    return {name: (p.start + 1, p.end + 1) for name, p in pieces_of(path, text, **window).items()}


def test_toml_tables_with_their_comments() -> None:
    """X18: a table is a memory that includes the comment above it as its explanation."""
    text = "# Project file.\nname = 'x'\n\n# How we lint.\n# Strictly.\n[tool.ruff]\nline = 1\n# inner\na = 2\nb = 3\n"
    assert spans("a.toml", text) == {"name": (1, 2), "tool.ruff": (4, 10)}
    assert pieces_of("a.toml", text)["tool.ruff"].facts.docstring == "How we lint.\nStrictly.\ninner"
    assert pieces_of("a.toml", text)["tool.ruff"].kind is Kind.CONFIG


def test_yaml_keys_and_their_own_keys() -> None:
    """X18: a top-level key is a memory; one longer than a window is cut at its own keys."""
    jobs = "".join(f"  # builds {i}\n  job{i}:\n" + "    - step\n" * 8 for i in range(3))
    text = "name: ci\non: push\n# all jobs\njobs:\n" + jobs
    assert spans("ci.yml", text, window_lines=15) == {
        "name": (1, 2),
        "jobs": (3, 4),
        "jobs.job0": (5, 14),
        "jobs.job1": (15, 24),
        "jobs.job2": (25, 34),
    }


def test_json_keys() -> None:
    """Neighbouring one-line keys share a memory; larger ones have their own."""
    scripts = '  "scripts": {\n    "a": "b",\n    "c": "d",\n    "e": "f"\n  },\n'
    text = '{\n  "name": "x",\n  "version": "1",\n' + scripts + '  "z": 1\n}\n'
    assert spans("package.json", text) == {"name": (1, 3), "scripts": (4, 8), "z": (9, 10)}
