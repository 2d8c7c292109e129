"""The center's loops: commit, dispatch, and the sessions with executors."""
