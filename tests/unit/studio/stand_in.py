"""Fake runtime process that is ready, loads forever, fails, crashes or hangs.

Its option `--check` fails only for the behaviour `refuse`. A runtime with `large` or `large-crash` does not fit into
memory next to another runtime.

Run: ``python -m runtime.shared.child tests.unit.studio.stand_in BEHAVIOUR --host H --port P``.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from runtime.errors import PortInUse


class Answers(BaseHTTPRequestHandler):
    is_ready = True

    def do_GET(self) -> None:
        self.send_response(200 if self.is_ready else 503)
        self.end_headers()
        self.wfile.write(b'{"status":"loading","loaded":1,"of":3,"step":"reading weights"}')

    def log_message(self, format: str, *args: object) -> None:
        return


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("behaviour")
    parser.add_argument("--host")
    parser.add_argument("--port", type=int)
    parser.add_argument("--check", action="store_true")
    arguments, _ = parser.parse_known_args()
    if arguments.behaviour == "refuse":
        print("the checkpoint is missing", file=sys.stderr)
        sys.exit(2)
    if arguments.check:
        print(json.dumps({"fits_alongside": not arguments.behaviour.startswith("large")}))
        sys.exit(0)
    if arguments.behaviour.endswith("crash"):
        print("it has crashed", file=sys.stderr)
        sys.exit(70)
    if arguments.behaviour == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Answers.is_ready = arguments.behaviour != "loading"
    try:
        server = ThreadingHTTPServer((arguments.host, arguments.port), Answers)
    except OSError:
        taken = PortInUse(port=arguments.port, host=arguments.host, option="--port")
        print(f"voicewright: {taken} [{taken.code}]", file=sys.stderr)
        sys.exit(2)
    with server:
        server.serve_forever()
    time.sleep(60)


main()
