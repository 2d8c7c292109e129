"""``python -m cress`` is ``cress``."""

from cress.cli.main import main

main()
