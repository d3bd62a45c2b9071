"""Command that runs Autobahn's 301 WebSocket test cases against the runtime's HTTP port.

`make autobahn` runs this command, which records the result for docs/reliability.md (T9).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from tests.support.promises import record_figures
from tests.support.thorough import ROOT

# Number of all cases except those about compression, which the server does not negotiate (promise T8 in
# docs/reliability.md).
CASES = 301
LONGEST_S = 580
DRIVER = ROOT / "tests" / "autobahn" / "driver.py"


def play(environment: Path, cases: Path, *wanted: str) -> dict[str, list[str]]:
    """Run the test cases against an echo server on the runtime's port, and return the results.

    The result of a case is a list of its behaviour, its behaviour at the close, and a message.

    Raises: subprocess.CalledProcessError: The test driver failed.
    """
    echo = [sys.executable, "-m", "tests.autobahn.echo"]
    with subprocess.Popen(echo, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        # The cases intentionally violate the protocol, so Python's warnings are hidden.
        driver = [str(environment / "bin" / "python"), "-W", "ignore", str(DRIVER), str(cases), port, *wanted]
        try:
            said = subprocess.run(driver, stdout=subprocess.PIPE, text=True, check=True, timeout=LONGEST_S).stdout
        finally:
            server.communicate()
    return dict(json.loads(said))


def figure(ends: Mapping[str, list[str]]) -> str:
    """Return a summary with the number of cases per result and the names of failed cases."""
    counts = Counter(behaviour for behaviour, *_ in ends.values())
    failed = sorted(case for case, (behaviour, *_) in ends.items() if behaviour == "FAILED")
    said = ", ".join(f"{count} {behaviour.lower()}" for behaviour, count in counts.most_common())
    return f"Autobahn, {len(ends)} cases: {said}" + (f" ({', '.join(failed)})" if failed else "")


def main() -> None:
    """Run the test cases, print the results, and record a summary."""
    parser = argparse.ArgumentParser(prog="make autobahn", description=__doc__)
    parser.add_argument("environment", type=Path)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="7.1.5, …; all, if none")
    arguments = parser.parse_args()
    ends = play(arguments.environment, arguments.environment / "cases", *arguments.cases)
    for case, (behaviour, close, sentence, close_sentence) in ends.items():
        if behaviour != "OK" or close != "OK":
            print(f"{case}: {behaviour}, {close}: {sentence} {close_sentence}")
    print(figure(ends))
    if len(ends) == CASES:
        record_figures({"T9": figure(ends)})


if __name__ == "__main__":
    main()
