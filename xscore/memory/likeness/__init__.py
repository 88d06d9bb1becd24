"""How like memories are: words hashed, vectors of embedders, and what says the same."""
