"""How well the judge finds what it should: recall, precision, nDCG, dollars."""
