"""Script that starts the voice studio from a checkout of the repository.

An installed studio starts with `python -m studio`.
"""

import sys

from studio.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
