"""The exec helper under its name in release 0.1, whose agents may still run when this release is installed."""

from __future__ import annotations

import sys

from cress.executor.exec.helper import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
