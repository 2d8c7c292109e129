"""How attempts are run: one file for each runtime, behind the interface in ``base``."""
