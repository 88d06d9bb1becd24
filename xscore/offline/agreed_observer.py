"""What a question within a run tells: all of it is passed on, but the user, who agreed to all, is not asked again."""

from xscore.records import Estimate, JudgeEstimate, Observer, Progress, SessionInfo


class Agreed:
    """Passes everything on to another observer; whether to go on was asked once, for the whole run."""

    can_confirm = False

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    def stage(self, name: str) -> None:
        """Pass it on."""
        self._observer.stage(name)

    def forecast(self, forecast: JudgeEstimate) -> None:
        """Pass it on."""
        self._observer.forecast(forecast)

    def progress(self, progress: Progress) -> None:
        """Pass it on."""
        self._observer.progress(progress)

    def note(self, message: str) -> None:
        """Pass it on."""
        self._observer.note(message)

    def session(self, session: SessionInfo) -> None:
        """Pass it on."""
        self._observer.session(session)

    def answer_text(self, piece: str) -> None:
        """Pass it on."""
        self._observer.answer_text(piece)

    def confirm(self, estimate: Estimate) -> bool:
        """Agree."""
        return True
