"""Names of files in the data directory that several modules use."""

from __future__ import annotations

from cress.store.opening import SQLITE

LOCK, ADDRESS, STORE = "center.lock", "center.json", SQLITE
# Unix sockets of the center, for clients and for executors of this machine.
API_SOCKET, EXECUTOR_SOCKET = "api.sock", "executors.sock"

# Certificates made by `cress tls init`.
TLS, CENTER_CERTIFICATE, CA = "tls", "center.pem", "ca.pem"
# Folders whose files the center reads when it starts. In others there may be anything: the files of tasks, say.
READ_AT_START = ("audit", "events", TLS)
