"""The rules of the house that ruff, mypy and import-linter cannot state. Run all: ``python -m tools.house``."""
