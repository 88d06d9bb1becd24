"""Observers that record events or wait for them."""

import asyncio
from typing import TypeVar

from xscore.records.events import Note, Observer, StageBegan, TurnEvent

Event = TypeVar("Event")


class EventList(Observer):
    """Records every event of its turns."""

    def __init__(self) -> None:
        self.events: list[TurnEvent] = []

    def on(self, event: TurnEvent) -> None:
        """Record it."""
        self.events.append(event)

    def of(self, kind: type[Event]) -> list[Event]:
        """Return the events of one kind, in order."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def notes(self) -> list[str]:
        """Return the texts of the notes."""
        return [note.text for note in self.of(Note)]


class StageWaiter(Observer):
    """Waits for a stage."""

    def __init__(self, stage: str) -> None:
        self.awaited = stage
        self.heard = asyncio.Event()

    def on(self, event: TurnEvent) -> None:
        """Wake the waiting thread."""
        if event == StageBegan(self.awaited):
            self.heard.set()
