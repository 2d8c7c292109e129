"""The loops of center and executor as pure objects: events in, effects out; their drivers have sockets, files and
clocks.

Nothing is imported here: an executor loads ``cress.shell.executor`` and no other part.
"""
