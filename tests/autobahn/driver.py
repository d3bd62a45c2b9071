"""WebSocket client that runs Autobahn's test cases: `driver.py FOLDER PORT [ID …]`.

The script runs in .venv-autobahn, with a current Autobahn client, and prints JSON. The cases contain bytes in strings,
as in Python 2: each Latin-1 character of a string is one byte on the network.
"""

import binascii
import json
import sys
import types

from autobahn.twisted.websocket import WebSocketClientFactory, WebSocketClientProtocol, connectWS
from autobahn.websocket import utf8validator
from autobahn.websocket.protocol import WebSocketProtocol
from twisted.internet import reactor


def _bytes(value):
    return value.encode("latin-1") if isinstance(value, str) else value


class _Validator(utf8validator.Utf8Validator):
    def validate(self, text):
        return super().validate(_bytes(text))


def load(folder):
    """Import and return the test cases in a folder, except those about compression.

    Their base class is patched so that it compares values instead of pickles.
    """
    hexadecimal = types.ModuleType("binascii")
    hexadecimal.b2a_hex = lambda text: binascii.b2a_hex(_bytes(text)).decode()
    utf8validator.Utf8Validator = _Validator
    compression = types.ModuleType("case.case12_x_x")
    for name in ("Case12_X_X", "Case13_X_X"):
        setattr(compression, name, [])
        setattr(compression, f"{name}_CaseSubCategories", {})
    sys.modules["case.case12_x_x"] = compression
    sys.modules["binascii"] = hexadecimal
    import zope.interface

    zope.interface.implements = lambda *_: None
    sys.path.insert(0, folder)
    import case

    sys.modules["binascii"] = binascii
    case.Case.compare = lambda _, one, other: one == other
    return case.Cases


def name_of(case):
    return case.__name__.removeprefix("Case").replace("_", ".")


class Player(WebSocketClientProtocol):
    """Connection of one test case, which provides the methods that the case calls.

    The methods are implemented with the current Autobahn client.
    """

    case = None

    def connectionMade(self):
        self.createWirelog, self.connectionWasOpen, self.txFrameStats = True, False, {}
        self.played = self.case(self)
        super().connectionMade()

    def onOpen(self):
        self.connectionWasOpen = True
        self.played.onOpen()

    def onMessage(self, payload, isBinary):
        self.played.onMessage(payload.decode("latin-1"), isBinary)

    def onPing(self, payload):
        self.sendPong(payload)
        self.played.onPing(payload.decode("latin-1"))

    def onPong(self, payload):
        self.played.onPong(payload.decode("latin-1"))

    def onClose(self, wasClean, code, reason):
        self.played.onClose(wasClean, code, reason)

    def connectionLost(self, reason):
        super().connectionLost(reason)
        self.played.onConnectionLost(self.failedByMe)
        self.factory.done(self.played.behavior, self.played.behaviorClose, self.played.result, self.played.resultClose)

    def sendFrame(self, opcode, payload=b"", **words):
        self.txFrameStats[opcode] = self.txFrameStats.get(opcode, 0) + 1
        super().sendFrame(opcode, _bytes(payload), **words)

    def sendMessage(self, payload, isBinary=False, **words):
        super().sendMessage(_bytes(payload), isBinary, **words)

    def sendMessageFrameData(self, payload, sync=False):
        super().sendMessageFrameData(_bytes(payload), sync)

    def sendCloseFrame(self, code=None, reasonUtf8=None, isReply=False):
        super().sendCloseFrame(code, _bytes(reasonUtf8), isReply)

    def sendClose(self, code=None, reason=None):
        # The client's own method refuses close codes that some cases must send.
        self.sendCloseFrame(code, reason)

    def enableWirelog(self, enable):
        self.createWirelog = enable

    def _later(self, seconds, what):
        reactor.callLater(seconds, lambda: self.state == WebSocketProtocol.STATE_CLOSED or what())

    def continueLater(self, delay, fun, tag=None):
        self._later(delay, fun)

    def killAfter(self, delay):
        self._later(delay, self._fail_connection)

    def closeAfter(self, delay):
        self._later(delay, self.sendClose)


class Conductor(WebSocketClientFactory):
    """Factory of WebSocket connections that runs the test cases one after another."""

    def __init__(self, url, cases):
        super().__init__(url)
        self.setProtocolOptions(failByDrop=False, autoPingInterval=0)
        self.left, self.ends, self.current = list(cases), {}, None

    def begin(self):
        if not self.left:
            print(json.dumps(self.ends))
            reactor.stop()
            return
        self.current = self.left.pop(0)
        connectWS(self)

    def buildProtocol(self, addr):
        player = Player()
        player.factory, player.case = self, self.current
        return player

    def done(self, *said):
        self.ends[name_of(self.current)] = said
        reactor.callLater(0, self.begin)

    def clientConnectionFailed(self, connector, reason):
        sys.exit(f"{name_of(self.current)}: {reason.getErrorMessage()}")


def main(folder, port, *wanted):
    cases = [case for case in load(folder) if not wanted or name_of(case) in wanted]
    conductor = Conductor(f"ws://127.0.0.1:{port}", cases)
    reactor.callLater(0, conductor.begin)
    reactor.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
