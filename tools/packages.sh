#!/bin/sh
# Install the Debian packages that some tests need; where that is not possible, say so: those tests are skipped then.
#
#   tools/packages.sh               for `make test`
set -u

# libfaketime: steps of the wall clock, for a process only. crun, runc, bubblewrap: runtimes of containers.
# skopeo, umoci: images of containers; docker-registry: a registry of such images. chromium: the browser of the tests of the portal. postgresql: the database of the application in tests/system, and
# a store. zookeeper: a store. bind9-dnsutils: `dig`. prometheus: it scrapes /metrics, and promtool checks the alert rules.
PACKAGES="faketime crun runc bubblewrap skopeo umoci docker-registry postgresql zookeeper bind9-dnsutils chromium prometheus"

say() { printf '%s\n' "$*" >&2; }

missing=
for package in $PACKAGES; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
    say "!!! not installed:$missing (Debian packages; only root can, with apt-get); tests that need them will be skipped"
    exit 0
fi
say "Installing for the tests:$missing"
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086 - a list of names
install() { timeout 300 apt-get install -y -qq --no-install-recommends $missing >/dev/null 2>&1; }
install || { timeout 300 apt-get update -qq >/dev/null 2>&1 && install; } ||
    say "!!! could not install:$missing; tests that need them will be skipped"
exit 0
