"""A relay before a server of the storm: a network that can be cut, and that can be slow."""

import socket
import time
from contextlib import suppress
from threading import Event, Thread

BLOCK = 65_536


class StormNetwork:
    """A relay before the server: what goes through it ends when the network is cut."""

    def __init__(self, port: int) -> None:
        self._far = port
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=200)
        self.port: int = self._listener.getsockname()[1]
        self._is_cut = Event()
        self._delay_s = 0.0
        self._open: set[socket.socket] = set()
        Thread(target=self._accept, daemon=True).start()

    def hold(self) -> None:
        """Take new connections, and say nothing on them."""
        self._is_cut.set()

    def let_through(self) -> bool:
        """End it; True, so that a condition may do it."""
        self._is_cut.clear()
        return True

    def cut(self, seconds: float) -> None:
        """Break every connection, and answer none for so long."""
        self._is_cut.set()
        for one_end in list(self._open):
            with suppress(OSError):
                one_end.shutdown(socket.SHUT_RDWR)
        time.sleep(seconds)
        self._is_cut.clear()

    def slow_down(self, seconds: float, *, delay_s: float) -> None:
        """Let everything that comes back take this much longer for so long, as a server with a
        slow disk does."""
        self.delay_answers(delay_s)
        time.sleep(seconds)
        self.delay_answers(0.0)

    def delay_answers(self, delay_s: float) -> None:
        """From now on let everything that comes back take this much longer."""
        self._delay_s = delay_s

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                Thread(target=self._relay, args=(near,), daemon=True).start()

    def _relay(self, near: socket.socket) -> None:
        # A cut network says nothing: the connection hangs until it is mended.
        while self._is_cut.is_set():
            time.sleep(0.05)
        try:
            far = socket.create_connection(("127.0.0.1", self._far))
        except OSError:
            near.close()
            return
        self._open |= {near, far}
        back = Thread(target=self._pass_on, args=(far, near, True), daemon=True)
        back.start()
        self._pass_on(near, far, is_answer=False)
        back.join()
        self._open -= {near, far}
        near.close()
        far.close()

    def _pass_on(self, source: socket.socket, target: socket.socket, is_answer: bool) -> None:
        with suppress(OSError):
            while block := source.recv(BLOCK):
                if is_answer and self._delay_s:
                    time.sleep(self._delay_s)
                target.sendall(block)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)
