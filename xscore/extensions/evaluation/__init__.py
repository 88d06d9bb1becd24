"""How well the judge finds known answers: recall, precision, nDCG, dollars."""
