"""The bundle of a node that joins: what is there is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from cress.center.tls.authority import Authority
from cress.client.join import join
from cress.model.errors import InputError
from cress.model.times import DAY
from cress.protocol.bundle_files import BUNDLE_CERTIFICATE

# Nobody is asked there.
NOWHERE = "https://127.0.0.1:1"


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    Authority.create(tmp_path / "tls").issue_node("n1", tmp_path / "n1", life=DAY)
    return tmp_path / "n1"


def test_a_bundle_that_is_valid_is_kept_without_a_question(bundle: Path) -> None:
    before = {path.name: path.read_bytes() for path in bundle.iterdir()}
    joined = join(NOWHERE, "no token", "n1", bundle)
    assert (joined.bundle, joined.executor_url) == (bundle, "")
    assert {path.name: path.read_bytes() for path in bundle.iterdir()} == before


def test_a_bundle_without_a_certificate_needs_a_token(bundle: Path) -> None:
    (bundle / BUNDLE_CERTIFICATE).unlink()
    with pytest.raises(InputError, match="it is not a join token"):
        join(NOWHERE, "no token", "n1", bundle)


def test_a_certificate_that_cannot_be_read_is_not_replaced(bundle: Path) -> None:
    (bundle / BUNDLE_CERTIFICATE).write_text("something else")
    with pytest.raises(InputError, match="there is no certificate in it"):
        join(NOWHERE, "no token", "n1", bundle)
    assert (bundle / BUNDLE_CERTIFICATE).read_text() == "something else"
