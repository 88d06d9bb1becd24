"""Lists of questions judged without anyone waiting: through vendors' Batch APIs, by many workers, overnight."""
