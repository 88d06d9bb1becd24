"""A turn in Markdown, for a step summary or a comment: the question, its folders by their best
scores, and what was chosen.

GitHub shows neither scripts nor drawings in a summary, so the map is a table with a bar of
characters for each folder; the page has the rest. Text of others is escaped.
"""

from xscore.cost_reports.report_files import escape_markdown, markdown_table
from xscore.cost_reports.report_lines import ReportTable
from xscore.extensions.pages.page_figures import FolderRow, describe_turn, folder_rows
from xscore.extensions.pages.records import ListedMemory, TurnPage
from xscore.extensions.pages.threads import name_of
from xscore.platform.figures import format_tokens
from xscore.platform.text import counted, ellipsize, format_place

FOLDERS_SHOWN = 12
TASK_CHARS, NAME_CHARS = 200, 80
BAR_CHARS = 10
DASH = "–"


def render_turn_markdown(page: TurnPage) -> str:
    """Return the turn as Markdown."""
    task = escape_markdown(ellipsize(page.task, TASK_CHARS)) or "(no question)"
    parts = [f"### {task}", escape_markdown(describe_turn(page))]
    if page.kept:
        rows = [_chosen_row(entry) for entry in page.kept]
        chosen = ReportTable(
            ("chosen", "where", "score", "why"), rows, words=2, ends_in_words=True
        )
        parts.append(markdown_table(chosen))
    folders = folder_rows(page)
    shown = [_folder_row(folder) for folder in folders[:FOLDERS_SHOWN]]
    heads = ("folder", "best score", "chosen", "memories", "tokens")
    hidden_folders = max(0, len(folders) - FOLDERS_SHOWN)
    parts.append(markdown_table(ReportTable(heads, shown, words=2, more=hidden_folders)))
    return "\n\n".join(parts) + "\n"


def _chosen_row(entry: ListedMemory) -> tuple[str, ...]:
    memory = entry.memory
    name = ellipsize(name_of(memory), NAME_CHARS)
    place = format_place(memory.path, memory.start_line, memory.end_line)
    return name, ellipsize(place, NAME_CHARS), memory.score_text, memory.reason


def _folder_row(folder: FolderRow) -> tuple[str, ...]:
    best = DASH
    if folder.best is not None:
        full = round(BAR_CHARS * folder.best)
        best = f"{'█' * full}{'░' * (BAR_CHARS - full)} {folder.best:.2f}"
    unjudged = (
        f", {counted(folder.unjudged, 'unjudged', 'unjudged')}" if folder.unjudged else ""
    )
    return (
        ellipsize(folder.name, NAME_CHARS),
        best,
        str(folder.kept or ""),
        f"{folder.memories:,}{unjudged}",
        format_tokens(folder.tokens),
    )
