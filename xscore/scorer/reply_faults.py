"""What was wrong with a judge's replies, counted for the receipt's warnings. Pure."""

from msgspec import Struct

from xscore.platform.text import counted
from xscore.scorer.replies import ParsedReply


class ReplyFaults(Struct):
    """What was wrong with replies so far; for the receipt's warnings."""

    repaired: int = 0
    """Replies that were not JSON as they stood."""
    foreign: int = 0
    """Scores for ids that were not asked for."""
    void: int = 0
    """Scores that are not integers 0..100, or given twice with different values."""
    asked_again: int = 0
    """Prompts sent for pieces that an earlier one left without a score."""

    def count(self, reply: ParsedReply) -> None:
        """Add what was wrong with one reply."""
        self.repaired += reply.repaired
        self.foreign += reply.foreign
        self.void += reply.void

    def in_words(self) -> str:
        """`2 replies repaired, 1 score void; 3 prompts asked again`; empty if nothing was wrong."""
        counts = (
            (self.repaired, "reply repaired", "replies repaired"),
            (self.foreign, "score for unknown ids", "scores for unknown ids"),
            (self.void, "score void", "scores void"),
        )
        clauses = [", ".join(counted(*fault) for fault in counts if fault[0])]
        if self.asked_again:
            clauses.append(f"{counted(self.asked_again, 'prompt')} asked again")
        return "; ".join(filter(None, clauses))

    def warnings(self) -> tuple[str, ...]:
        """Say for a receipt what was wrong, if anything was."""
        words = self.in_words()
        if not words:
            return ()
        return (f"the judge's replies had to be repaired: {words}",)
