"""A process that can be ready, refuse its settings, crash, or ignore SIGTERM: what a runtime does on a bad day.

Run as ``python -m studio.child tests.unit.studio.stand_in BEHAVIOUR --host H --port P``.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        return


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("behaviour")
    parser.add_argument("--host")
    parser.add_argument("--port", type=int)
    arguments = parser.parse_args()
    if arguments.behaviour == "refuse":
        print("the checkpoint is missing", file=sys.stderr)
        sys.exit(2)
    if arguments.behaviour == "crash":
        sys.exit(70)
    if arguments.behaviour == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with ThreadingHTTPServer((arguments.host, arguments.port), Answers) as server:
        server.serve_forever()
    time.sleep(60)


main()
