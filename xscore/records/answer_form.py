"""An answer and its receipt as a `print` and a notebook show them.

The command line has a layout of its own, with lines of code. Trade-off: memories are named, not
quoted; the texts are in `context(...).bundle`.
"""

from functools import cache
from typing import TYPE_CHECKING

from xscore.platform.figures import format_dollars, format_seconds
from xscore.platform.text import counted

if TYPE_CHECKING:
    import jinja2

    from xscore.records.receipt import Answer, Selected

_PAGE = """
{% if answer.answer %}<div style="white-space: pre-wrap">{{ answer.answer }}</div>{% endif %}
{% if rows %}<table>
<thead><tr><th>score</th>
<th style="text-align: left">memory</th><th style="text-align: left">why</th></tr></thead>
<tbody>{% for score, name, why in rows %}
<tr><td>{{ score }}</td>
<td style="text-align: left">{{ name }}</td><td style="text-align: left">{{ why }}</td></tr>
{% endfor %}</tbody></table>{% endif %}
<p>{{ receipt }}</p>
{% for warning in answer.warnings %}<p>{{ warning }}</p>{% endfor %}
"""


def answer_text(answer: "Answer") -> str:
    """Return the answer, the kept memories, the receipt in a line, and the warnings."""
    kept = [f"{score}  {name}  {why}".rstrip() for score, name, why in map(_row, answer.selected)]
    parts = [answer.answer or "", "\n".join(kept), receipt_line(answer), *answer.warnings]
    return "\n\n".join(filter(None, parts))


def answer_html(answer: "Answer") -> str:
    """Return the same as HTML; every text is escaped."""
    rows = [_row(memory) for memory in answer.selected]
    return _template().render(answer=answer, rows=rows, receipt=receipt_line(answer))


def receipt_line(answer: "Answer") -> str:
    """Return how many memories were judged and kept, what that cost in dollars, and the seconds it
    took."""
    coverage, judge = answer.coverage, answer.judge
    counts = {name: getattr(coverage, name) for name in ("judged", "cached", "carried", "unjudged")}
    how = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
    dollars = format_dollars(answer.spent().cost_usd)
    kept = f"{len(answer.selected)} of {counted(coverage.candidates, 'memory', 'memories')} kept"
    took = format_seconds(answer.latency.total)
    return (
        f"{kept} ({how or 'none'}) by {judge.provider}:{judge.model}, {dollars}, {took}; turn"
        f" {answer.turn_id}"
    )


def _row(memory: "Selected") -> tuple[str, str, str]:
    place = "::".join(filter(None, (memory.path, memory.entity))) or memory.title or memory.id
    return f"{memory.score:.2f}", place, memory.reason


@cache
def _template() -> "jinja2.Template":
    import jinja2  # only a notebook needs it

    return jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(
        _PAGE
    )
