"""Pools that the lexical judge scores, made of texts."""

from xscore.records.candidates import Candidate
from xscore.records.memory import Kind, Layer
from xscore.records.turn import Turn
from xscore.scorer.lexical import lexical_priors
from xscore.store.term_vectors import term_vector

Made = tuple[list[Candidate], list[tuple[str, bytes]]]


def made(*texts: tuple[str, str]) -> Made:
    """Make candidates and vectors from (entity, text)."""
    candidates, vectors = [], []
    for number, (entity, text) in enumerate(texts):
        name = f"m{number}"
        candidates.append(
            Candidate(
                name,
                f"c{number}",
                Layer.GRAPH,
                Kind.FUNCTION,
                f"{name}.py",
                entity,
                1,
                9,
                "python",
                9,
                0.0,
            )
        )
        vectors.append((name, term_vector(text, path=f"{name}.py", entity=entity)))
    return candidates, vectors


def scores(pool: Made, task: str) -> dict[str, float]:
    """Score the candidates, by id."""
    return lexical_priors(Turn(task=task), pool[0], lambda: pool[1])
