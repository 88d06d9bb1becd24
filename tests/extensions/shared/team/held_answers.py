"""A relay before PostgreSQL that passes everything on, and can hold back the answers."""

import socket
from contextlib import suppress
from threading import Event, Thread

BLOCK = 65_536


class HeldAnswers:
    """Relays connections to a port; after a request with `word`, answers are held back."""

    def __init__(self, port: int, *, word: bytes) -> None:
        self._port, self._word = port, word
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.was_answered = Event()
        """The server has answered the request whose answer is held back."""
        self._holds = Event()
        Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Take no more connections."""
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._port))
                Thread(target=self._requests, args=(near, far), daemon=True).start()
                Thread(target=self._answers, args=(far, near), daemon=True).start()

    def _requests(self, near: socket.socket, far: socket.socket) -> None:
        with suppress(OSError):
            while block := near.recv(BLOCK):
                if self._word in block:
                    self._holds.set()
                far.sendall(block)
        far.close()

    def _answers(self, far: socket.socket, near: socket.socket) -> None:
        with suppress(OSError):
            while block := far.recv(BLOCK):
                if self._holds.is_set():
                    self.was_answered.set()
                else:
                    near.sendall(block)
        near.close()
