"""Archives of images, by the prefix of their address: ``oci-archive:PATH``."""

from __future__ import annotations

ARCHIVES = ("oci-archive:", "docker-archive:")


def archive_in(name: str) -> tuple[str, str]:
    """Return the prefix of an archive and the rest of its address; empty and the name for an image of a registry."""
    prefix = next((kind for kind in ARCHIVES if name.startswith(kind)), "")
    return prefix, name.removeprefix(prefix)
