"""One call of a hook: the agent's message, the repository it is about, and the reply.

It adds text and wakes the background process; which text, each event decides: `hook_events` names
its function.
"""

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from xscore.extensions.agents.hook_protocols import HookMessage
from xscore.platform.paths import RepositoryRoot
from xscore.settings import LoadedSettings, Settings
from xscore.store.hook_state import SessionBrief, read_hook_state, was_given
from xscore.store.opening import has_store

INDEXING = "xscore is indexing this repository; later prompts get its context."
"""What is said where there is no index yet."""


class HookCall(Struct):
    """One call of a hook, with its context."""

    message: HookMessage
    client: str
    thread: str
    """Thread of the agent's session; empty if it named none."""
    root: RepositoryRoot
    loaded: LoadedSettings
    state_file: Path
    data: bytes
    """The message as the agent wrote it."""
    say: Callable[[str], None]
    """Adds a text to the agent's context."""
    added_texts: tuple[str, ...] = ()
    """Texts that were added, so they are not repeated in this session."""
    brief: SessionBrief | None = None
    """What the session has received of earlier work, if this call adds to it."""
    notice: str = ""
    """Text to add if time runs out."""

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self.loaded.settings

    @property
    def is_watched(self) -> bool:
        """Whether xscore works here: in a repository, or in a folder with a store."""
        return self.root.is_git or has_store(self.root.store_dir)

    def answer(self, *texts: str) -> None:
        """Add texts to the agent's context, each unless this session has it already."""
        fresh = [text for text in texts if text]
        if self.thread and fresh:
            state = read_hook_state(self.state_file)
            fresh = [text for text in fresh if not was_given(state, self.thread, text)]
        if fresh:
            self.added_texts = tuple(fresh)
            self.say("\n".join(fresh))

    def wake(self, *, judges_changes: bool = False) -> None:
        """Let the background process finish the rest, and judge changes again if asked to."""
        # Most prompts leave nothing.
        from xscore.extensions.agents.background import wake_background

        wake_background(self.root, settings=self.settings, judges_changes=judges_changes)
