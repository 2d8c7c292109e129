#!/bin/sh
# Fetch the peers into a folder (build/peers), without installing anything on the machine: HyperQueue's wheel from PyPI,
# Slurm's packages from Debian. What cannot be fetched is left out, and the measurements say so.
#
#   sh benchmarks/peers/fetch.sh
set -u

cd "$(dirname "$0")/../.."
place=build/peers
mkdir -p "$place/debs"

.venv/bin/python -m pip install --quiet --target "$place/hyperqueue" hyperqueue==0.27.0 ||
    echo "HyperQueue could not be fetched" >&2

if command -v apt-get >/dev/null && command -v dpkg >/dev/null; then
    (cd "$place/debs" &&
        apt-get download -qq slurmd slurmctld slurm-client slurm-wlm-basic-plugins libmunge2 &&
        for file in *.deb; do dpkg -x "$file" ../slurm; done) ||
        echo "Slurm could not be fetched" >&2
else
    echo "Slurm is fetched from Debian only: there is no apt-get" >&2
fi
