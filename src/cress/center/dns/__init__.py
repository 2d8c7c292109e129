"""The DNS responder: the names of running tasks as a zone, its answers, and the sockets where questions come in."""
