#!/bin/sh
# Build .venv from requirements.lock, or do nothing when it is up to date.
#
#   tools/bootstrap.sh              with the first Python >= 3.11 on the path
#   PYTHON=python3.12 tools/bootstrap.sh
#
# Versions and hashes come from the lock file; the project itself is installed editable, without fetching anything.
set -eu

cd "$(dirname "$0")/.."
VENV=.venv
STAMP=$VENV/.installed
OLDEST="3.11"
ASKED=${PYTHON:-}

say() { printf '%s\n' "$*" >&2; }
fail() { say "error: $*"; exit 1; }

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

# What makes two interpreters the same one: the version, and where it is installed.
identity() { "$1" -c 'import sys; print(sys.version, sys.base_prefix)' 2>/dev/null; }

find_python() {
    if [ -n "$ASKED" ]; then
        version=$("$ASKED" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) ||
            fail "PYTHON=$ASKED does not run; give the path of a Python $OLDEST or newer"
        new_enough "$ASKED" || fail "PYTHON=$ASKED is Python $version; Cress needs $OLDEST or newer"
        printf '%s\n' "$ASKED"
        return
    fi
    for name in python3 python3.13 python3.12 python3.11 python3.14; do
        if new_enough "$name"; then
            printf '%s\n' "$name"
            return
        fi
    done
    found=$(python3 -c 'import sys; print("python3 is %d.%d" % sys.version_info[:2])' 2>/dev/null) || found="found none"
    fail "Cress needs Python $OLDEST or newer ($found); install one, or name it: make PYTHON=/path/to/python3.12"
}

# Debian and Ubuntu ship a python3 whose venv module lacks pip until python3-venv is installed.
make_venv() {
    python=$1
    rm -rf "$VENV"
    # The import is asked first: the error of a venv without ensurepip would look like ours.
    if "$python" -c 'import ensurepip, venv' 2>/dev/null && "$python" -m venv "$VENV"; then return; fi
    rm -rf "$VENV"
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        say "$python cannot make a virtual environment: installing python$version-venv"
        export DEBIAN_FRONTEND=noninteractive
        if apt-get update -qq >&2 && { apt-get install -y -qq --no-install-recommends "python$version-venv" >&2 ||
            apt-get install -y -qq --no-install-recommends python3-venv >&2; } && "$python" -m venv "$VENV"; then
            return
        fi
        rm -rf "$VENV"
    fi
    if "$python" -m virtualenv --version >/dev/null 2>&1 && "$python" -m virtualenv --quiet "$VENV" >&2; then return; fi
    rm -rf "$VENV"
    if "$python" -m pip --version >/dev/null 2>&1; then
        say "$python cannot make a virtual environment: trying virtualenv from the package index"
        if "$python" -m pip install --quiet --no-input --target build/virtualenv virtualenv >&2 &&
            PYTHONPATH=build/virtualenv "$python" -m virtualenv --quiet "$VENV" >&2; then
            return
        fi
        rm -rf "$VENV"
    fi
    fail "$python cannot make a virtual environment; on Debian and Ubuntu: sudo apt-get install python$version-venv"
}

[ -f requirements.lock ] || fail "requirements.lock is missing; this is no complete copy of the repository"
here=$(pwd -P)
# One line for what is installed, one for the place: scripts in a virtual environment break when it is moved or copied.
wanted=$(printf '%s %s\n%s' "$(cksum <requirements.lock)" "$(cksum <pyproject.toml)" "$here")

if [ -x "$VENV/bin/python" ] && new_enough "$VENV/bin/python"; then
    if [ -f "$STAMP" ] && [ "$(sed -n 2p "$STAMP")" != "$here" ]; then
        python=$(find_python)
        make_venv "$python"
    elif [ -n "$ASKED" ]; then
        python=$(find_python)
        [ "$(identity "$python")" = "$(identity "$VENV/bin/python")" ] || make_venv "$python"
    fi
    if [ -f "$STAMP" ] && [ "$(cat "$STAMP")" = "$wanted" ]; then exit 0; fi
    if ! "$VENV/bin/python" -m pip --version >/dev/null 2>&1; then
        python=$(find_python)
        make_venv "$python"
    fi
else
    python=$(find_python)
    make_venv "$python"
fi

say "Installing into $VENV ($("$VENV/bin/python" --version)) from requirements.lock; the first time takes about a minute"
rm -f "$STAMP"
pip() { "$VENV/bin/python" -m pip --quiet --no-input --disable-pip-version-check "$@" >&2; }
pip install --require-hashes --only-binary :all: -r requirements.lock ||
    fail "could not install the packages of requirements.lock (see above)"
pip install --no-deps --no-build-isolation --no-index -e . || fail "could not install the project itself (see above)"
printf '%s\n' "$wanted" >"$STAMP"
