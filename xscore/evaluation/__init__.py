"""Does the selection find what it should? Qrels in, recall, precision and nDCG out."""
