"""The loops of center and executor as pure objects: events in, effects out; sockets, files and clocks are their
drivers'.

Nothing is imported here: an executor loads ``cress.shell.executor`` and no other part.
"""
