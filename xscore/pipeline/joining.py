"""Join a model's score of each memory with the words': one sum of evidence, in log-odds.

    joined = judge + weight · (words - neutral)

where judge and words are the log-odds of both scores, and neutral is a word score that says
nothing either way in this pool. The judge's own score is kept apart from the evidence of words.
A weight of 0 leaves every score as the judge gave it. The constants were measured (decision
0043).

It reads nothing: the word score of a memory is the prior that is stored with its judgment, so a
cached turn pays nothing for it. Trade-off: words are those of the pool that was judged; a later
edit elsewhere does not change them.
"""

from collections.abc import Sequence
from heapq import nlargest
from itertools import repeat
from math import ceil, exp, log
from operator import itemgetter

from xscore.records.judgment import Boost, Judgment, Origin, Outcome, Ranked, has_unjudged
from xscore.settings import SelectionSettings

WORDS_WEIGHT = 0.5
"""Weight of words relative to a model that was not measured here."""
JUDGE_BOUND = 0.005
"""Distance from 0 or 1 at which such a score counts: half a step of the scale from 0 to 100."""
NEUTRAL_WORDS = SelectionSettings().lexical_threshold / 10
"""Word score that says nothing either way: a tenth of what is kept where words alone rank."""
WORDS_BOUND = NEUTRAL_WORDS / 50
"""`JUDGE_BOUND` for word scores. Most of a pool are near 0, and count two less in log-odds than
a neutral one, at the usual weight."""
MOST_WORDS = 0.95
"""Highest word score that counts: words alone cannot refute a judge that is certain."""
MOST_LIFTED, LIFTED_SHARE = 100, 0.2
"""Most memories that words speak for, and the largest share of a pool: where more score above
`NEUTRAL_WORDS`, as with a long task, the neutral score is higher."""
JOINED_FROM, JOINED_WHOLLY = 50, 100
"""Memories of a pool up to which the model's score counts alone, and from which words have their
whole weight. All of a small pool has room among the first 15, and its words are too few to tell
much: joined, a strong judge lost some of what it had kept."""


def join(outcomes: Sequence[Outcome], *, weight: float) -> list[Ranked]:
    """Return every judged outcome with its joined score, in the given order; without boosts.

    weight: that of the evidence of words in a large pool; 0: the score is the judge's.
    """
    judged = outcomes
    if has_unjudged(outcomes):
        unjudged = Origin.UNJUDGED  # Python 3.11 looks up an enum's member in 0.2 µs
        judged = [outcome for outcome in outcomes if outcome[2] is not unjudged]
    judgments: list[Judgment] = list(map(itemgetter(1), judged))
    scores: Sequence[float] = list(map(itemgetter(1), judgments))
    evidence: Sequence[float] = [0.0] * len(scores)
    weight *= _share_of_weight(len(outcomes))
    if weight:
        priors = [judgment.prior for judgment in judgments]
        evidence = words_evidence(priors, weight=weight)
        scores = _joined_scores(scores, evidence)
    # Made by `zip`, a third of the time of the constructor, for the many of a pool.
    candidates, origins = (map(itemgetter(place), judged) for place in (0, 2))
    no_boosts: repeat[tuple[Boost, ...]] = repeat(())
    fields = zip(candidates, judgments, origins, no_boosts, scores, evidence, strict=False)
    return list(map(tuple.__new__, repeat(Ranked), fields))


def _share_of_weight(pool: int) -> float:
    """Return the share of the weight that words have in a pool of this many memories, 0..1."""
    share = (pool - JOINED_FROM) / (JOINED_WHOLLY - JOINED_FROM)
    return min(1.0, max(0.0, share))


def words_evidence(word_scores: Sequence[float], *, weight: float) -> list[float]:
    """Return what words add to each memory's log-odds; below 0: they speak against it."""
    neutral = _words_log_odds(neutral_words(word_scores))
    # Most scores of a pool are 0: each value is worked out once.
    evidence_of: dict[float, float] = {}
    for score in set(word_scores):
        amount = weight * (_words_log_odds(score) - neutral)
        evidence_of[score] = round(amount, 6)
    return [evidence_of[score] for score in word_scores]


def neutral_words(word_scores: Sequence[float]) -> float:
    """Return the word score that says nothing in this pool.

    Never above the best, so that words that say the same of all memories move none.
    """
    if not word_scores:
        return NEUTRAL_WORDS
    most_lifted = min(MOST_LIFTED, ceil(LIFTED_SHARE * len(word_scores)))
    best_first = nlargest(most_lifted, word_scores)
    return min(best_first[0], max(NEUTRAL_WORDS, best_first[-1]))


def joined_score(judge_score: float, evidence: float) -> float:
    """Return a judge's score after this evidence, 0..1; without any, the score itself."""
    (score,) = _joined_scores([judge_score], [evidence])
    return score


def _joined_scores(judge_scores: Sequence[float], evidence: Sequence[float]) -> list[float]:
    # The odds of thousands are multiplied: logarithms would take three times as long.
    factor_of = {amount: exp(amount) for amount in set(evidence)}
    bound = JUDGE_BOUND
    width = 1 - 2 * JUDGE_BOUND
    scores: list[float] = []
    for judge_score, amount in zip(judge_scores, evidence, strict=True):
        if not amount:
            scores.append(judge_score)
            continue
        bounded_score = bound + width * judge_score
        odds = factor_of[amount] * bounded_score / (1 - bounded_score)
        # The bound is taken back: no evidence and very little of it give nearly the same.
        score = (odds / (1 + odds) - bound) / width
        # Rounding may leave 0..1: clamp.
        scores.append(score if 0 < score < 1 else float(score > 0))
    return scores


def _words_log_odds(score: float) -> float:
    bounded_score = WORDS_BOUND + (1 - 2 * WORDS_BOUND) * min(score, MOST_WORDS)
    return log(bounded_score / (1 - bounded_score))
