"""The DNS responder: running tasks as a zone, answers about it, and the sockets that receive questions."""
