"""Choice of the Python interpreter for a virtual environment.

`choose_python.py VENV [PYTHON]` prints the chosen interpreter, and `choose_python.py --all` prints every supported
interpreter on PATH. The script runs under Python 3.7 or later because `python3` may be a version that Voicewright does
not support.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

SUPPORTED = ("3.11", "3.12", "3.13", "3.14")
HOW_TO_GET_ONE = (
    "Debian or Ubuntu: apt install python3 python3-venv; macOS: brew install python@3.13; Windows: Python 3.13 from the"
    " Microsoft Store; any system: uv python install 3.13. Then name it: make run PYTHON=/path/to/python"
)

# Program that prints the version, problems of the build, and True if pip is available.
_PROBE = """
import importlib.util, sys, sysconfig
unusable = [
    sys.implementation.name != "cpython" and sys.implementation.name,
    sys.maxsize < 2**32 and "32-bit",
    sysconfig.get_config_var("Py_GIL_DISABLED") and "free-threaded",
]
print(*filter(None, unusable), "%d.%d" % sys.version_info[:2])
print(importlib.util.find_spec("pip") is not None)
"""


def probe(python: str) -> tuple[str, bool]:
    """Return the version of an interpreter, and True if it can import pip.

    The result is ("", False) if the interpreter does not run.
    """
    try:
        done = subprocess.run([python, "-c", _PROBE], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return "", False
    version, _, has_pip = done.stdout.decode(errors="replace").partition("\n")
    return (version.strip(), has_pip.strip() == "True") if done.returncode == 0 else ("", False)


def candidates() -> list[str]:
    """Return the interpreter commands to try: `python3`, newer versions first, then `python`."""
    return ["python3", *(f"python{version}" for version in reversed(SUPPORTED)), "python"]


def choose(requested: str) -> str:
    """Return the requested interpreter, or the first supported interpreter on PATH.

    Raises:
        SystemExit: The requested interpreter is not supported, or no supported interpreter was found. The message says
                how to install Python.
    """
    found = {
        python: probe(python)[0] for python in ([requested] if requested else candidates()) if shutil.which(python)
    }
    for python, version in found.items():
        if version in SUPPORTED:
            return python
    seen = ", ".join(f"{python} is {version or 'not a working interpreter'}" for python, version in found.items())
    sys.exit(
        f"Voicewright needs Python {SUPPORTED[0]} to {SUPPORTED[-1]} (64-bit CPython with the GIL);"
        f" {seen or f'{requested or candidates()[0]} was not found'}. {HOW_TO_GET_ONE}"
    )


def is_usable(python: str, requested: str) -> bool:
    """Return True if an environment's interpreter runs, is supported, and has pip.

    If a version is requested, the interpreter must also have this version.
    """
    version, has_pip = probe(python)
    return has_pip and version in SUPPORTED and (not requested or version == probe(requested)[0])


def main(arguments: list[str]) -> int:
    """Print the chosen Python interpreter, or all supported interpreters on PATH."""
    if arguments == ["--all"]:
        # A command with a version, such as python3.12, is preferred, because it becomes a part of the environment's
        # name.
        names = sorted(candidates(), key=len)
        found = {probe(python)[0]: python for python in names if shutil.which(python)}
        print(*(found[version] for version in SUPPORTED if version in found), sep="\n")
        return 0
    venv, requested = (*arguments, "")[:2]
    own = os.path.join(venv, "bin", "python")
    if is_usable(own, requested):
        print(own)
        return 0
    chosen = choose(requested)
    if os.path.lexists(venv):
        print(f"{venv} has another Python or no longer works; it is made again with {chosen}.", file=sys.stderr)
        (os.unlink if os.path.islink(venv) else shutil.rmtree)(venv)
    print(chosen)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
