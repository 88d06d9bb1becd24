"""The formats that are read, by the name that `--from` takes. A new one is a module of its own and a line here."""

from xscore.sessions.aider import Aider
from xscore.sessions.claude_code import ClaudeCode
from xscore.sessions.cline import Cline
from xscore.sessions.codex import Codex
from xscore.sessions.session_format import SessionFormat

FORMATS: dict[str, SessionFormat] = {each.origin: each for each in (ClaudeCode(), Codex(), Aider(), Cline())}
