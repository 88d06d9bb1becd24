"""Pages of turns: one HTML file shows what was asked, the map of scores, and what came of it."""
