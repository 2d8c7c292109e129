"""Unpacking of untrusted archives: no path outside the folder, no device, no owner and no set-user-id bit."""

from __future__ import annotations

import os
import shutil
import stat
import tarfile
import zipfile
import zlib
from pathlib import Path

from cress.executor.addresses import Failed


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a tar of any compression that Python supports, or a zip, into an empty folder. Raise Failed or OSError."""
    try:
        if zipfile.is_zipfile(archive):
            _unzip(archive, folder)
        else:
            with tarfile.open(archive) as tar:
                # Links out of the folder, devices and absolute names are errors; owners and set-user-id bits are
                # dropped.
                tar.extractall(folder, filter="data")
    except tarfile.FilterError as error:
        name = getattr(error, "tarinfo", None)
        raise Failed(
            f"the archive has a member that leads out of it or is not a file: {getattr(name, 'name', error)}"
        ) from None
    except tarfile.ReadError:
        raise Failed("it is neither a tar nor a zip archive, or a damaged one") from None
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, NotImplementedError, RuntimeError) as error:
        raise Failed(f"the archive cannot be unpacked: {error}") from None


def _unzip(archive: Path, folder: Path) -> None:
    with zipfile.ZipFile(archive) as packed:
        for member in packed.infolist():
            mode = member.external_attr >> 16
            parts = member.filename.split("/")
            if (
                member.filename.startswith("/")
                or ".." in parts
                or stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR)
            ):
                raise Failed(f"the archive has a member that leads out of it or is not a file: {member.filename}")
            place = folder / member.filename
            if member.is_dir():
                place.mkdir(parents=True, exist_ok=True)
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            with packed.open(member) as source, place.open("wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
            place.chmod(0o644 | (mode & 0o111))


def merge(source: Path, target: Path) -> None:
    """Move the files in ``source`` into ``target``, each atomically, and replace files of the same name."""
    target.mkdir(parents=True, exist_ok=True)
    for entry in os.scandir(source):
        place = target / entry.name
        if entry.is_dir(follow_symlinks=False) and (place.is_dir() and not place.is_symlink()):
            merge(Path(entry.path), place)
        else:
            Path(entry.path).replace(place)
