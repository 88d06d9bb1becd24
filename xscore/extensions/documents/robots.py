"""Whether a host's rules for robots allow an address, as RFC 9309 says.

Its patterns are those of a stranger, so it runs in the process of `read_process`. Trade-off: the
delay that rules may ask for is not kept, since a person fetches few pages of a host.
"""

from protego import Protego

from xscore.extensions.documents.parsed import ParsedDocument, RobotsJob

FORBIDDEN = "its host's robots.txt forbids it"


def read_rules(job: RobotsJob) -> ParsedDocument:
    """Return a result whose `problem` is empty if the address is allowed."""
    rules = Protego.parse(job.rules.decode("utf-8", "replace"))
    if rules.can_fetch(job.address, job.agent):
        return ParsedDocument()
    return ParsedDocument(problem=FORBIDDEN)
