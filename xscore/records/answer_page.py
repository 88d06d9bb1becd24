"""An answer and its receipt as HTML, as a notebook shows them.

The answer's Markdown is rendered; every text is escaped. It knows no record.
"""

from collections.abc import Sequence
from functools import cache

import jinja2

from xscore.platform.markdown_html import markdown_html

_PAGE = """
{{ answer_html|safe }}
{% if rows %}<table>
<thead><tr><th>score</th>
<th style="text-align: left">memory</th><th style="text-align: left">why</th></tr></thead>
<tbody>{% for row in rows %}
<tr><td>{{ row.score }}</td>
<td style="text-align: left">{{ row.name }}</td>
<td style="text-align: left">{{ row.reason }}</td></tr>
{% endfor %}</tbody></table>{% endif %}
<p>{{ receipt }}</p>
{% for warning in warnings %}<p>{{ warning }}</p>{% endfor %}
"""


def render_answer(
    *, answer: str, rows: Sequence[object], receipt: str, warnings: Sequence[str]
) -> str:
    """Return an answer, its kept memories, the line of its receipt and its warnings as HTML.

    rows: with `score`, `name` and `reason`.
    """
    return _template().render(
        answer_html=markdown_html(answer), rows=rows, receipt=receipt, warnings=warnings
    )


@cache
def _template() -> jinja2.Template:
    return jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True
    ).from_string(_PAGE)
