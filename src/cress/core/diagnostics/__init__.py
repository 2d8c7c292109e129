"""Read-only views of the core: reasons for waiting, matches of a constraint, unresolved names, invariants."""
