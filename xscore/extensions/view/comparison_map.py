"""The data block of a comparison: the columns of a turn's map, with the scores of both turns.

What the map is colored by is how far each memory rose; `parts/changes.js` works it out.
"""

from xscore.extensions.pages.map_data import map_columns, score_steps
from xscore.extensions.view.comparison import TurnComparison
from xscore.pipeline.json_form import Json, script_json


def comparison_data(comparison: TurnComparison) -> str:
    """Return the data of a comparison, safe within a `script` element."""
    memories = comparison.memories
    receipt = comparison.now.receipt
    thresholds: dict[str, Json] = {}
    if receipt is not None:
        thresholds.update(receipt.thresholds)
    columns = map_columns([compared.memory for compared in memories])
    return script_json(
        {
            **columns,
            "threshold": receipt.threshold if receipt is not None else None,
            "thresholds": thresholds,
            "before": [score_steps(compared.before) for compared in memories],
            "scores": [score_steps(compared.now) for compared in memories],
            "kept": [place for place, compared in enumerate(memories) if compared.rank_now],
            "keptBefore": [
                place for place, compared in enumerate(memories) if compared.rank_before
            ],
            "near": [],
        }
    )
