"""TCP proxy that can stop forwarding without closing its connections."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress


class StallingProxy:
    """TCP proxy for a local port that can be stalled.

    While the proxy is stalled, data and new connections wait.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._flows = threading.Event()
        self._flows.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: list[socket.socket] = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def stall(self) -> None:
        """Stop forwarding data between clients and the server, without closing connections."""
        self._flows.clear()

    def flow(self) -> None:
        """Forward the data that waited during the stall, and continue to forward data."""
        self._flows.set()

    def close(self) -> None:
        """Close the proxy's listening socket and all its connections."""
        self._flows.set()
        for connection in self._open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        self._flows.wait()
        with suppress(OSError):
            server = socket.create_connection(("127.0.0.1", self._target))
            self._open += [client, server]
            threading.Thread(target=self._pass_on, args=(server, client), daemon=True).start()
            self._pass_on(client, server)

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while piece := source.recv(65536):
                self._flows.wait()
                sink.sendall(piece)
        for writer in (source, sink):
            with suppress(OSError):
                writer.shutdown(socket.SHUT_RDWR)


@contextmanager
def stalling_proxy(target: int) -> Iterator[StallingProxy]:
    """Run a proxy that can be stalled, for the local port ``target``."""
    with closing(StallingProxy(target)) as proxy:
        yield proxy
