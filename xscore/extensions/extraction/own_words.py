"""Tell a speaker's own statements from what they quote, paste, recall or only consider.

Facts are taken from own words alone. Code, quotations, tables, pages between tags and whatever
follows a line such as `The README says:` are blanked, character for character, so that places stay;
what is left is cut into sentences, and each says why it is not a statement of the speaker's, if it
is none. Patterns are for English. Trade-off: it would rather lose a statement than take a
stranger's for the speaker's: pasted text that nothing announces cannot be told from typed text.
"""

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

MOST_CHARS = 20_000
"""How much of a message is read."""
SENTENCE_CHARS = 600
"""Longest sentence: a longer one is not a statement that anybody would want to read again."""

_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})")
_QUOTED_LINE = re.compile(
    r"^[ \t]*(?:>|\||\+(?! )|-(?![ -])|---|@@|<<<<|====|//|/\*|<!--"
    r"|\[?(?:\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:?\d\d\b|\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d"
    r"|\[?(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL)\b)"
)
"""Matches a line of a quotation, a table, a diff, a comment in code, or a log."""
_MAIL_HEADER = re.compile(r"^[ \t]*(?:Subject|Sent|Cc): \S")
"""Matches a header above a mail that somebody pastes whole."""
_PROMPT = re.compile(r"^[ \t]*(?:\$|%|>>>|[\w.-]+@[\w.-]+[:#$][^ ]*) ?\S")
"""Matches a command at a prompt; what it printed follows."""
_BEGINS = re.compile(r"^\W{0,8}(?:begin|start)\b[^.!?]{0,50}$", re.IGNORECASE)
_ENDS = re.compile(r"^\W{0,8}end\b[^.!?]{0,50}$", re.IGNORECASE)
_SOMEBODY = re.compile(
    r"^[ \t]*(?!(?i:todo|fixme|decision|note|rule|convention|policy|remaining|reminder|important"
    r"|remember|preference|also|follow|action|next|question|edit|update|ps|ok|okay|yes|no|so"
    r"|correction|result|summary|fact|idea|goal|task|architecture|design|final|still|left|to|open"
    r"|please|actually|wait|first|second|finally|one|two)\b)"
    r"(?:\[[^\]\n]{1,20}\] )?[A-Z][\w-]{0,20}(?: [A-Z][\w.-]{0,20})?: \S",
)
"""Matches a line of a transcript: `Anna: we decided …`."""
_INDENTED = re.compile(r"^(?: {4}|\t)")
_BULLET = re.compile(r"^[ \t]*(?:[-*+•]|\d{1,3}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?")
_TAG = re.compile(r"<([A-Za-z][\w.-]{0,40})(?:\s[^<>\n]{0,200})?>")
_SOURCES = (
    "pages?|docs?|documentation|readme|wiki|files?|logs?|outputs?|e-?mails?|mail|issues?|tickets?"
    "|comments?|articles?|posts?|blogs?|threads?|messages?|transcripts?|reviews?|changelogs?|specs?"
    "|errors?|traceback|snippets?|code|response|site|website|stack ?overflow|slack|chat|guide"
    "|tutorial|manual|notes?|following|this|below|says|said|wrote|writes|reads|states|quotes?"
    "|instructions?|prompt|gist|paste|excerpt|suggestions?|bot|contents?|memory|memories"
)
_ANNOUNCED = re.compile(
    rf"(?:\b(?:{_SOURCES})\b|^[ \t]*here(?:['’]s)?\b)[^.!?\n:]{{0,80}}(?::|[ \t][—–-])[ \t]*$"
)
"""Matches a line that announces words that are not the speaker's."""
_OPENED = re.compile('["“«„‘]')
_CLOSINGS = {'"': '"', "“": "”", "«": "»", "„": "“", "‘": "’"}
_SINGLE_QUOTED = re.compile(r"(?<![\w'])'(?:[^'\n]|(?<=\w)'(?=\w)){12,300}'(?!\w)")
_QUOTED_WORDS = 3
"""Fewest words of a quotation; one of fewer is a name."""
_LEFT_OUT = re.compile(r"\[… [\d,]+ characters left out …\]")
_END = re.compile(r"(?<![.!?…])[.!?…]+[\"”’)\]]*(?=\s|$)")
_ABBREVIATION = re.compile(
    r"\b(?:e\.g|i\.e|etc|vs|cf|approx|resp|no|fig|dr|mr|mrs|st)\.$", re.I
)

_SPOKE = re.compile(
    r"\b(?:said|says|say|thinks?|thought|claims?|claimed|told|tells?|wrote|writes?"
    r"|suggests?|suggested|recommends?|recommended|argues?|argued|insists?|insisted"
    r"|mentions?|mentioned|reckons?|believes?|believed|wants?|wanted|prefers?"
    r"|preferred|likes?|liked|decided|decides|agreed|asked|asks|advises?|advised"
    r"|instructs?|instructed|states|stated|reads|noted|proposes|proposed|warns?|warned"
    r"|chose|switched|considered|pushed|swears)\b"
)
_NOT_ANOTHER = frozenset(
    """
    i we you it that this which who and or but so then also still to not never always just
    only have has had been be is are was were am team finally now today already really
    please will would should must can could do did does don let s usually generally strongly
    definitely actually there here what yes ok okay no finally ultimately eventually again
    both all as then firmly jointly recently yesterday earlier first later ever
    """.split()
)
"""Words before such a verb that are not somebody else."""
_BETWEEN = frozenset(
    "also once has have had just still team really strongly clearly usually".split()
)
"""Words between a person and the verb."""
_PRONOUN = re.compile(r"(?:i|we|you|it)['’]")
_NO_LETTER = re.compile(r"[^\w'’-]")
_ELSEWHERE = re.compile(
    r"\b(?:according to\b|as per\b|per the\b|quot(?:e|ing)\b|in (?:his|her|their|its"
    r"|\w+'s) (?:words|opinion|view)\b|they(?:'re|’re)?\b|(?:he|she)\b|their\b|I(?:'ve"
    r"| have)? (?:read|heard|saw|seen)\b|used to\b|back then\b|years ago\b|at my (?:last|old"
    r"|former|previous|other)\b|at (?:his|her|another)\b|in (?:my|the|an|a|our) ?(?:other|old"
    r"|different|another|former|previous|last)\b|in another\b|elsewhere\b|previously\b"
    r"|supposedly\b|allegedly\b|reportedly\b|someone\b|somebody\b|people\b|(?:some|many|most"
    r"|other) (?:teams|projects)\b|(?:competitor|vendor|customer|partner|neighbou?r|friend"
    r"|boss|manager|colleague|coworker|teammate|reviewer|speaker|maintainer|upstream)s?\b"
    r"|(?:reads?|says?|comment|docstring|message|warning|log)\b[^.`]{0,40}`[^`]*\s[^`]*`"
    r"|\b(?:e-?mail|mail|comment|ticket|article|slack|wiki|readme|docstring|commit message"
    r"|changelog|transcript)\b[^.!?:]{0,30}:\s)"
    r"|(?<!team['’]s )(?<!project['’]s )(?<!\bit['’]s )(?<!that['’]s )(?<=\w['’]s )(?:rule"
    r"|convention|policy|decision|preference|advice|opinion|view|recommendation|choice"
    r"|practice|words|style)\b|(?<!our )(?<!the )(?<!this )(?<!my )(?<!whole )\bteam (?!')"
)
_RECALLED = re.compile(
    r"\b(?:m_[0-9a-f]{8,20}\b|xscore (?:remembers|recalls|says|adds)\b|from memory\b"
    r"|as (?:i )?re(?:call|member|corded)\w*\b|I (?:recall|remember)\b|recalled\b|memor(?:y"
    r"|ies) (?:says?|notes?|mentions?|has|have|shows?|lists?|tells?)\b|(?:in|from"
    r"|per) (?:an? |the |my |your )?(?:earlier|past|previous|prior) (?:session|conversation"
    r"|chat|turn)s?\b|prior context\b|you (?:said|told|mentioned|asked|decided|wanted"
    r"|noted)\b|recorded (?:decision|convention|preference|memory)\b|(?:already )?on record\b"
    r"|stored (?:fact|memory|note|preference|decision|convention)s?\b|based on your\b"
    r"|confidence [01]?\.\d)"
)
_TO_A_MODEL = re.compile(
    r"\b(?:(?:ai|llm|assistants?|language models?|chatbots?|coding agents?|agents?|claude"
    r"|copilot|chatgpt|gpt|cursor|codex)\b[^.\n]{0,80}\b(?:must|should|shall|always|never"
    r"|remember|note|store|save|memori[sz]e|need|have to|are to|is to)\b|ignore (?:all |any "
    r"|the )?(?:previous|prior|earlier|above)\b|your (?:memory|system prompt|instructions)\b"
    r"|(?:store|save|write|put) (?:this|that|it) (?:in|into|to) (?:your |long-term )?memory\b)"
)
_CONSIDERED = re.compile(
    r"\b(?:suppose|imagine|what if|whether|hypothetically|in theory|pretend|maybe|perhaps|possibly"
    r"|probably|might|for example|for instance|e\.g\.|let's say|say we|should we|shall we|could we"
    r"|would we|can we|do we|did we|have we|wondering|not sure|unsure|i think|i guess"
    r"|i suspect\w*|i believe|seems?|likely"
    r"|looks like|apparently|suspect\w*|presumably|considering|thinking about"
    r"|thinking of|leaning|tempted|propose|proposal|option [a-d1-9]|one option|alternatively"
    r"|we could|you could|i could|could also|would be|would have|might have|almost|nearly|about to"
    r"|haven't decided|have not decided|didn't decide|not decided|not agreed"
    r"|not settled|not chosen|haven't (?:agreed|settled|chosen)"
    r"|isn['’]t true|not true|not the case|untrue|no need to|never said|doubt|undecided"
    r"|yet to decide|if we|if i|had we|were we|wish|joking|kidding|just a thought"
    r"|spitballing|brainstorm\w*|draft|in case we|assuming|once we)\b"
    r"|^(?:if|unless|had|were|would|could|should we|should i|can|why|how|what if)\b"
)
_TRIED = re.compile(
    r"\bbut (?:it|that|this|then|we|i|the)\b[^.]{0,60}\b(?:n[o']t|fail\w*|broke\w*|undo|undid"
    r"|revert\w*|back|gave up|wrong|drop\w*)\b|\b(?:dead end|did ?n[o']t work|does ?n[o']t work"
    r"|didn’t work|doesn’t work|no longer|not any ?more|was wrong|were wrong|turned out"
    r"|gave up on|rolled back|abandoned|reverted|undone|undid|for a moment"
    r"|temporarily|briefly|for a while)\b"
)
_SPEAKS_AGAIN = re.compile(
    r"^(?:but |so |still |however,? |ok(?:ay)?,? )?(?:i|we|let['’]s)\b", re.I
)
"""Matches where the speaker goes on in their own name after somebody else was heard."""
_IS_HERE = re.compile(r"\b(?:here|in this (?:repo|repository|project|codebase))\b", re.I)
"""Matches where the speaker is back after another place was spoken of."""


class Doubt(StrEnum):
    """Why a sentence is not a statement of the speaker's."""

    NONE = ""
    """The sentence is a statement of the speaker's."""
    TOO_LONG = "too long"
    QUESTION = "a question"
    REPORTED = "somebody else's"
    RECALLED = "recalled"
    TO_A_MODEL = "for a model"
    ELSEWHERE = "of elsewhere"
    CONSIDERED = "only considered"
    TRIED = "tried and dropped"


_PATTERN_OF_DOUBT = {
    Doubt.RECALLED: _RECALLED,
    Doubt.TO_A_MODEL: _TO_A_MODEL,
    Doubt.ELSEWHERE: _ELSEWHERE,
    Doubt.CONSIDERED: _CONSIDERED,
    Doubt.TRIED: _TRIED,
}
_NOT_THE_SPEAKER = frozenset(
    {Doubt.REPORTED, Doubt.RECALLED, Doubt.TO_A_MODEL, Doubt.ELSEWHERE}
)
"""Doubts that hold for whatever follows on the same line, too."""


class Sentence(Struct, frozen=True):
    """A sentence of a message."""

    text: str
    """The sentence as it was written, without the mark of a list."""
    words: str
    """The sentence with the words that are not the speaker's blanked."""
    start: int
    """Place in the message where it begins."""
    end: int
    doubt: Doubt = Doubt.NONE
    is_listed: bool = False
    """Whether it begins an entry of a list."""


def own_sentences(message: str) -> list[Sentence]:
    """Return the sentences of a message in which the speaker says something."""
    message = message[:MOST_CHARS]
    blanked = own_text(message)
    sentences: list[Sentence] = []
    for start, end, is_listed in _spans(blanked):
        words = blanked[start:end]
        if any(character.isalpha() for character in words):
            sentences.append(
                Sentence(message[start:end], words, start, end, _doubt_of(words), is_listed)
            )
    return _doubt_rest_of_line(sentences, message)


def _doubt_rest_of_line(sentences: list[Sentence], message: str) -> list[Sentence]:
    """Doubt what goes on in the line in which somebody else is heard."""
    checked: list[Sentence] = []
    heard_until = -1
    is_elsewhere = False
    for sentence in sentences:
        doubt = sentence.doubt
        if sentence.start < heard_until and not doubt:
            pattern = _IS_HERE if is_elsewhere else _SPEAKS_AGAIN
            if not pattern.search(sentence.words):
                doubt = Doubt.REPORTED
        if doubt in _NOT_THE_SPEAKER:
            is_elsewhere = is_elsewhere or doubt is Doubt.ELSEWHERE
            line_end = message.find("\n", sentence.end)
            heard_until = len(message) if line_end < 0 else line_end
        else:
            is_elsewhere = False
        checked.append(replace(sentence, doubt=doubt))
    return checked


def own_text(message: str) -> str:
    """Return a message with what is not the speaker's blanked."""
    return _without_quotations(_without_blocks(message[:MOST_CHARS]))


def _doubt_of(words: str) -> Doubt:
    if len(words) > SENTENCE_CHARS:
        return Doubt.TOO_LONG
    if words.rstrip().endswith("?"):
        return Doubt.QUESTION
    # Patterns of small letters alone are many times as fast as those that ignore case.
    lowered = words.lower()
    if _reports_another(lowered):
        return Doubt.REPORTED
    for doubt, pattern in _PATTERN_OF_DOUBT.items():
        if pattern.search(lowered):
            return doubt
    return Doubt.NONE


def _reports_another(lowered: str) -> bool:
    """Whether a sentence says what somebody else says, wants or does."""
    for spoke in _SPOKE.finditer(lowered):
        before = lowered[max(0, spoke.start() - 80) : spoke.start()].split()
        while len(before) > 1 and before[-1] in _BETWEEN:
            del before[-1]
        subject = ""
        if before:
            subject = _NO_LETTER.split(before[-1])[-1]
        # A sentence that begins with the verb is an order, and after a comma another one begins.
        if subject and not _PRONOUN.match(subject) and subject not in _NOT_ANOTHER:
            return True
    return False


def _without_blocks(message: str) -> str:
    """Blank code, quoted lines, tables, text between tags, and what a line announces."""
    lines: list[str] = []
    fence = ""
    announced = False
    before_is_blank = True
    is_output = False
    all_lines = _without_tags(message).split("\n")
    for number, (line, written) in enumerate(zip(all_lines, message.split("\n"), strict=True)):
        lines_below = all_lines[number + 1 : number + 4]
        opening = _FENCE.match(line)
        is_code = bool(_INDENTED.match(written)) and before_is_blank and not _BULLET.match(line)
        if fence:
            is_foreign = True
            if opening and opening[1].startswith(fence) and line.strip() == opening[1]:
                fence = ""
        elif opening:
            is_foreign = True
            fence = opening[1]
        else:
            is_output = bool(_PROMPT.match(line)) or (is_output and bool(line.strip()))
            is_foreign = announced or is_code or is_output or _is_quoted(line)
        # Code goes on below a line of code.
        before_is_blank = not line.strip() or is_code
        if not is_foreign:
            announced = _announces(line, lines_below)
        elif announced and _ENDS.match(line):
            announced = False
        elif _MAIL_HEADER.match(line):
            announced = True
        lines.append(_blank(line) if is_foreign else line)
    return "\n".join(lines)


def _is_quoted(line: str) -> bool:
    """Whether a line shows by itself that somebody else wrote it."""
    return bool(_QUOTED_LINE.match(line) or _SOMEBODY.match(line))


def _announces(line: str, lines_below: Sequence[str]) -> bool:
    """Whether what follows this line is somebody else's: it names a source, or ends in a colon."""
    if _BEGINS.match(line):
        return True
    if not line.rstrip().endswith((":", " -", " –", " —")):
        return False
    below = next((line for line in lines_below if line.strip()), "")
    # The code is blanked anyway; below it the speaker goes on.
    if _FENCE.match(below):
        return False
    return bool(_ANNOUNCED.search(line.lower())) or (bool(below) and not _BULLET.match(below))


def _without_tags(message: str) -> str:
    """Blank from each tag to its end; a page that is never closed goes to the end."""
    kept: list[str] = []
    place = 0
    unclosed: set[str] = set()
    while opening := _TAG.search(message, place):
        end = -1
        if opening[1] not in unclosed:
            end = message.find(f"</{opening[1]}>", opening.end())
        if end < 0:
            unclosed.add(opening[1])
        is_page = opening[1].lower() in ("html", "body", "div", "article", "page", "document")
        if end >= 0:
            end += len(opening[1]) + 3
        else:
            end = len(message) if is_page else opening.end()
        kept.append(message[place : opening.start()])
        kept.append(_blank(message[opening.start() : end]))
        place = end
    return "".join([*kept, message[place:]])


def _without_quotations(message: str) -> str:
    """Blank text between quotation marks, unless it is as short as a name."""
    kept: list[str] = []
    place = 0
    paragraph_end = -1
    text = _LEFT_OUT.sub(lambda mark: _blank(mark[0]), message)
    while opening := _OPENED.search(text, place):
        # A mark that its paragraph never closes is an inch, or a slip.
        if opening.end() > paragraph_end:
            paragraph_end = text.find("\n\n", opening.end())
            paragraph_end = len(text) if paragraph_end < 0 else paragraph_end
        end = text.find(_CLOSINGS[opening[0]], opening.end(), paragraph_end) + 1
        if not end:
            kept.append(text[place : opening.end()])
            place = opening.end()
            continue
        kept.append(text[place : opening.start()])
        kept.append(_without_words(text[opening.start() : end]))
        place = end
    doubly = "".join([*kept, text[place:]])
    return _SINGLE_QUOTED.sub(lambda quotation: _without_words(quotation[0]), doubly)


def _without_words(quotation: str) -> str:
    if len(quotation.split()) < _QUOTED_WORDS:
        return quotation
    return _blank(quotation)


def _blank(text: str) -> str:
    """Return spaces in the place of every character but line ends."""
    return re.sub(r"[^\n]", " ", text)


def _spans(blanked: str) -> Iterator[tuple[int, int, bool]]:
    """Yield where each sentence begins and ends, and whether it begins an entry of a list."""
    line_start = 0
    for line in blanked.split("\n"):
        bullet = _BULLET.match(line)
        start = bullet.end() if bullet else 0
        is_listed = bool(bullet)
        for end in _sentence_ends(line, start):
            piece = line[start:end]
            indent = len(piece) - len(piece.lstrip())
            if piece.strip():
                yield (
                    line_start + start + indent,
                    line_start + start + len(piece.rstrip()),
                    is_listed,
                )
            start = end
            is_listed = False
        line_start += len(line) + 1


def _sentence_ends(line: str, start: int) -> Iterator[int]:
    for mark in _END.finditer(line, start):
        # Only its last word is looked at: a line of full stops would take its length squared.
        if not _ABBREVIATION.search(line, max(start, mark.end() - 8), mark.end()):
            yield mark.end()
    yield len(line)
