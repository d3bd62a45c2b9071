"""Start the voice studio from a checkout.

An installed studio starts with `python -m studio`.
"""

import sys

from studio.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
