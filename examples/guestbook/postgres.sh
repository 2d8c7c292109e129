# PostgreSQL as a task: its data stay in $CRESS_STATE, and are complete or not there.
set -e
bin=$(ls -d /usr/lib/postgresql/*/bin | tail -1)
if [ ! -d "$CRESS_STATE/data" ]; then
    rm -rf "$CRESS_STATE/new"
    "$bin/initdb" -D "$CRESS_STATE/new" -U guestbook --auth=trust >/dev/null
    mv "$CRESS_STATE/new" "$CRESS_STATE/data"
fi
# SIGTERM would wait until every client has left; SIGINT stops at once and cleanly.
trap 'kill -INT $pid' TERM
"$bin/postgres" -D "$CRESS_STATE/data" -p "$CRESS_PORT" \
    -c listen_addresses="${CRESS_ADDRESS:-127.0.0.1}" -c unix_socket_directories= -c max_connections=40 &
pid=$!
wait $pid || wait $pid
