"""What the first lines of a file say about it: the interpreter of a script, and the encoding of its
text.

Both are looked for where nothing better is known: an interpreter where the name tells no language,
an encoding where the bytes are not UTF-8. A file may be anyone's, so a few hundred bytes are read
and only encodings of human languages are decoded. Trade-off: no line in the style of an editor
(`-*- mode: ruby -*-`) is read for a language.
"""

import codecs
import re

from xscore.indexer.languages import PLAIN_TEXT, Language, language_named, language_of

MOST_FIRST_CHARS = 200
"""Most characters read of the first line."""
_MOST_WORDS = 12
_INTERPRETERS = {
    "python": "python pypy ipython pipx uv uvx",
    "javascript": "node nodejs",
    "typescript": "deno bun tsx ts-node",
    "ruby": "ruby jruby rake",
    "shell": "sh bash zsh dash ksh ash",
    "php": "php",
    "lua": "lua luajit",
    "fish": "fish",
    "elixir": "elixir",
    "scala": "scala",
    "kotlin": "kotlin",
    "swift": "swift",
    "make": "make",
}
_LANGUAGE_OF: dict[str, str] = {}
for _language, _programs in _INTERPRETERS.items():
    _LANGUAGE_OF |= dict.fromkeys(_programs.split(), _language)
_ENCODING = re.compile(
    rb"(?:coding|charset)[ \t]{0,9}[:=][ \t]{0,9}[\"']?([A-Za-z][\w.-]{1,30})"
)
_ENCODING_BYTES = 1_000
"""How far into a file its declaration of an encoding may be."""
_ENCODINGS = frozenset(
    """
    shift_jis shift_jis_2004 cp932 euc_jp iso2022_jp iso2022_jp_1 iso2022_jp_2 gb2312 gbk gb18030 hz
    big5 big5hkscs euc_kr cp949 johab cp437 cp850 cp852 cp855 cp866 cp874 cp1250 cp1251 cp1252
    cp1253 cp1254 cp1255 cp1256 cp1257 cp1258 koi8-r koi8-u mac-roman mac-cyrillic tis-620 iso8859-1
    iso8859-2 iso8859-3 iso8859-4 iso8859-5 iso8859-6 iso8859-7 iso8859-8 iso8859-9 iso8859-10
    iso8859-11 iso8859-13 iso8859-14 iso8859-15 iso8859-16
    """.split()
)


def language_of_file(path: str, text: str) -> Language:
    """Return the language of a file by its name, or of a script by its first line. text: its
    beginning suffices."""
    named = language_of(path)
    if named is not PLAIN_TEXT or not text.startswith("#!"):
        return named
    words = text[2:MOST_FIRST_CHARS].split("\n", 1)[0].split()
    for word in words[:_MOST_WORDS]:
        program = word.rpartition("/")[2].rstrip("0123456789.")
        if program in _LANGUAGE_OF:
            return language_named(_LANGUAGE_OF[program])
    return named


def declared_encoding(data: bytes) -> str:
    """Return the encoding that the first lines of a file declare; empty if they declare none
    that is known."""
    declared = _ENCODING.search(data[:_ENCODING_BYTES])
    if declared is None:
        return ""
    try:
        name = codecs.lookup(declared[1].decode("ascii")).name
    except LookupError:
        return ""
    return name if name in _ENCODINGS else ""
