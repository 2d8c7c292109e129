"""TLS of the center: its authority, what its certificates are good for, renewal without a restart.

Handshakes in memory.
"""

from __future__ import annotations

import asyncio
import shutil
import ssl
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cress.center.run import _check_host, _has_tls
from cress.center.settings import CenterSettings
from cress.center.tls.authority import Authority
from cress.center.tls.certificates import facts_of, read_certificate
from cress.center.tls.node_names import nodes_of
from cress.center.tls.node_renewal import renew_node
from cress.center.tls.server import CenterTls, Files, center_tls
from cress.executor.bundle import BundleError, BundleFolder
from cress.model.errors import InputError
from cress.model.times import DAY, HOUR, SECOND
from cress.protocol.messages import NewCertificate
from tests.waiting import PATIENCE


class Clock:
    """A clock that tests turn forward."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


class Site:
    """An authority, the center's TLS and the bundle of node n1, in one folder."""

    def __init__(self, folder: Path, life: int = 365 * DAY) -> None:
        self.folder = folder / "tls"
        self.authority = Authority.create(self.folder)
        self.authority.issue_center(["center.example.com", "127.0.0.1"], life)
        self.bundle = folder / "n1"
        self.authority.issue_node("n1", self.bundle)
        self.said: list[str] = []
        self.clock = Clock()
        center = self.folder / "center.pem"
        self.files = Files(center, center, self.folder / "ca.pem")
        self.tls = CenterTls(self.files, self.authority, self.said.append, self.clock)

    def client(self) -> ssl.SSLContext:
        return BundleFolder(self.bundle).context()


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def shake(
    client: ssl.SSLContext, server: ssl.SSLContext, host: str = "center.example.com"
) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Both ends of a connection in memory. Raises ssl.SSLError."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    near = client.wrap_bio(back, there, server_hostname=host)
    far = server.wrap_bio(there, back, server_side=True)
    done: list[ssl.SSLObject] = []
    for _ in range(10):
        for each in [each for each in (far, near) if each not in done]:
            try:
                each.do_handshake()
                done.append(each)
            except ssl.SSLWantReadError:
                pass
    assert len(done) == 2
    return near, far


def serial(seen: ssl.SSLObject) -> str:
    found = seen.getpeercert()
    assert found is not None
    return str(found["serialNumber"]).lower().lstrip("0")


def test_an_executor_and_the_center_know_each_other_by_their_certificates(site: Site) -> None:
    near, far = shake(site.client(), site.tls.executors)
    assert near.version() == far.version() == "TLSv1.3"
    assert nodes_of(far.getpeercert() or {}) == {"n1"}
    for name in ("ca.key", "ca.pem", "center.pem"):
        assert (site.folder / name).stat().st_mode & 0o777 == 0o600
    assert site.folder.stat().st_mode & 0o777 == site.bundle.stat().st_mode & 0o777 == 0o700


def test_names_of_nodes_that_no_host_could_have_come_back_as_they_were(site: Site, tmp_path: Path) -> None:
    for number, node in enumerate(("rack 1: node ü", "x" * 253, "..", "a,b=c")):
        site.authority.issue_node(node, tmp_path / str(number))
        _, far = shake(BundleFolder(tmp_path / str(number)).context(), site.tls.executors)
        assert nodes_of(far.getpeercert() or {}) == {node}
    for node in ("", "a/b", "*", "a\nb", "x" * 254):
        with pytest.raises(InputError, match="is not a name of a node"):
            site.authority.issue_node(node, tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_certificates_of_other_authorities_stand_for_their_hosts_and_never_for_a_pattern() -> None:
    subject = ((("commonName", "web"),),)
    assert nodes_of({"subject": subject}) == {"web"}
    assert nodes_of({"subject": subject, "subjectAltName": (("DNS", "n7"), ("DNS", "*.x"))}) == {"n7"}
    assert nodes_of({"subject": subject, "subjectAltName": (("URI", "cress-node:n8"), ("DNS", "n7"))}) == {"n8"}
    assert nodes_of({"subject": ((("commonName", "*"),),)}) == frozenset()


@pytest.mark.parametrize("port", ["api", "executors"])
def test_nothing_below_tls_1_3_is_spoken(site: Site, port: str) -> None:
    old = site.client()
    old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError, match=r"(?i)unsupported protocol"):
        shake(old, getattr(site.tls, port))


def test_without_a_certificate_of_this_authority_nobody_is_an_executor(site: Site, tmp_path: Path) -> None:
    nobody = ssl.create_default_context(cafile=site.folder / "ca.pem")
    shake(nobody, site.tls.api)
    with pytest.raises(ssl.SSLError, match=r"(?i)peer did not return a certificate"):
        shake(nobody, site.tls.executors)
    other = Site(tmp_path / "other")
    shutil.copy(site.folder / "ca.pem", other.bundle / "ca.pem")
    with pytest.raises(ssl.SSLError, match=r"(?i)certificate verify failed"):
        shake(other.client(), site.tls.executors)
    with pytest.raises(ssl.SSLError, match=r"(?i)self-signed|verify failed|local issuer"):
        shake(other.client(), other.tls.executors)  # its ca.pem is the first authority's now


def test_an_executor_cannot_pose_as_the_center_nor_the_center_as_an_executor(site: Site, tmp_path: Path) -> None:
    # Even where the node is called as the center's host.
    site.authority.issue_node("center.example.com", tmp_path / "thief")
    thief = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    thief.load_cert_chain(tmp_path / "thief" / "cert.pem", tmp_path / "thief" / "key.pem")
    with pytest.raises(ssl.SSLCertVerificationError, match="unsuitable certificate purpose"):
        shake(site.client(), thief)
    center = ssl.create_default_context(cafile=site.folder / "ca.pem")
    center.load_cert_chain(site.folder / "center.pem")
    with pytest.raises(ssl.SSLCertVerificationError, match="unsuitable certificate purpose"):
        shake(center, site.tls.executors)


def test_the_host_must_be_one_of_the_names(site: Site) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match=r"(?i)hostname mismatch"):
        shake(site.client(), site.tls.executors, "elsewhere.example.com")


def test_the_center_renews_its_certificate_after_two_thirds_of_its_life_and_shows_it_at_once(site: Site) -> None:
    first = serial(shake(site.client(), site.tls.executors)[0])
    site.clock.ahead = 200 * 24 * 3600
    site.tls.look()
    assert serial(shake(site.client(), site.tls.api)[0]) == first
    site.clock.ahead = 245 * 24 * 3600
    # A real certificate is made by the real clock: it is newer, and has the same names.
    site.tls.look()
    seen, _ = shake(site.client(), site.tls.api)
    assert serial(seen) != first
    assert serial(shake(site.client(), site.tls.executors)[0]) == serial(seen)
    assert site.tls.names == ("center.example.com", "127.0.0.1")
    assert site.said == []


def test_a_life_stays_what_it_was_over_many_renewals(site: Site) -> None:
    for life in (6 * SECOND, HOUR, 90 * DAY):
        site.authority.issue_center(["a"], life)
        lives = [facts.until - facts.since for facts in (site.authority.renew_center() for _ in range(4))]
        assert max(lives) - min(lives) <= 1
        assert life / 1e6 <= lives[-1] <= life / 1e6 + 301


def test_an_expired_certificate_is_replaced_at_the_start_if_the_authority_is_the_centers_own(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.clock.ahead = 400 * 24 * 3600
    with pytest.raises(InputError, match="expired at"):
        CenterTls(site.files, None, site.said.append, site.clock)
    site.clock.ahead = 300 * 24 * 3600
    before = facts_of(read_certificate(site.files.certificate)).serial
    assert CenterTls(site.files, site.authority, site.said.append, site.clock).facts.serial != before


def test_files_that_change_are_read_and_half_of_a_change_is_not_taken(tmp_path: Path) -> None:
    site = Site(tmp_path)
    text = site.files.certificate.read_text()
    cut = text.index("-----BEGIN PRIVATE")
    given = Files(tmp_path / "c.pem", tmp_path / "k.pem", site.files.ca)
    given.certificate.write_text(text[:cut])
    given.key.write_text(text[cut:])
    given.key.chmod(0o600)
    tls = CenterTls(given, None, site.said.append)
    first = serial(shake(site.client(), tls.api)[0])
    site.authority.issue_center(["center.example.com"])
    text = site.files.certificate.read_text()
    cut = text.index("-----BEGIN PRIVATE")
    given.certificate.write_text(text[:cut])
    tls.look()
    assert site.said == []
    tls.look()  # the certificate has stayed alone for a while
    assert "the certificate of before is kept" in site.said[-1]
    for context in (tls.api, tls.executors):
        assert serial(shake(site.client(), context)[0]) == first
    given.key.write_text(text[cut:])
    tls.look()
    tls.look()
    assert serial(shake(site.client(), tls.api)[0]) == tls.facts.serial != first
    assert serial(shake(site.client(), tls.executors)[0]) == tls.facts.serial


def test_a_certificate_that_nobody_renews_is_told_of_before_it_expires(site: Site) -> None:
    tls = CenterTls(site.files, None, site.said.append, site.clock)
    site.clock.ahead = 300 * 24 * 3600
    tls.look()
    assert site.said == []
    site.clock.ahead = 340 * 24 * 3600
    tls.look()
    tls.look()
    (sentence,) = site.said
    assert sentence.startswith(f"{site.files.certificate}: expires at")


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda files: files.certificate.unlink(), "cannot be read: No such file"),
        (lambda files: files.certificate.write_text("nothing"), "there is no certificate in it"),
        (lambda files: files.key.chmod(0o644), "others may read or change the key"),
        (lambda files: files.ca.write_text("nothing"), "cannot be used"),
    ],
)
def test_files_that_cannot_be_used_are_told(site: Site, damage: Callable[[Files], None], sentence: str) -> None:
    damage(site.files)
    with pytest.raises(InputError, match=sentence):
        CenterTls(site.files, None, site.said.append)


def test_a_key_with_a_password_asks_nobody(site: Site, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = tmp_path / "locked.pem"
    locked = serialization.BestAvailableEncryption(b"secret")
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    key.write_bytes(ec.generate_private_key(ec.SECP256R1()).private_bytes(pem, pkcs8, locked))
    key.chmod(0o600)
    with pytest.raises(InputError, match="key without a password"):
        CenterTls(Files(site.files.certificate, key, site.files.ca), None, site.said.append)


def test_an_executor_gets_its_next_certificate_over_its_connection(site: Site, tmp_path: Path) -> None:
    async def play() -> list[bytes]:
        sent: asyncio.Queue[bytes] = asyncio.Queue()

        def send(message: NewCertificate) -> None:
            sent.put_nowait(message.pem)

        site.authority.issue_node("short", tmp_path / "short", 2 * SECOND)
        present = ssl.PEM_cert_to_DER_cert((tmp_path / "short" / "cert.pem").read_text())
        task = asyncio.create_task(renew_node(site.tls, present, send))
        try:
            async with asyncio.timeout(PATIENCE):
                return [await sent.get(), await sent.get()]
        finally:
            task.cancel()

    first, second = asyncio.run(play())
    assert first != second
    bundle = BundleFolder(tmp_path / "short")
    bundle.keep(second)
    assert (bundle.folder / "cert.pem").read_bytes() == second
    assert nodes_of(shake(bundle.context(), site.tls.executors)[1].getpeercert() or {}) == {"short"}


def test_a_certificate_for_another_key_does_not_replace_that_of_a_bundle(site: Site, tmp_path: Path) -> None:
    site.authority.issue_node("n2", tmp_path / "n2")
    before = (site.bundle / "cert.pem").read_bytes()
    with pytest.raises(BundleError, match="key values mismatch"):
        BundleFolder(site.bundle).keep((tmp_path / "n2" / "cert.pem").read_bytes())
    assert (site.bundle / "cert.pem").read_bytes() == before
    assert sorted(path.name for path in site.bundle.iterdir()) == ["ca.pem", "cert.pem", "key.pem"]


def test_a_certificate_of_another_authority_is_not_renewed(site: Site, tmp_path: Path) -> None:
    other = Site(tmp_path / "other")
    present = read_certificate(other.bundle / "cert.pem")
    assert site.authority.renew_node(present) is None
    assert other.authority.renew_node(present) is not None


def test_off_loopback_a_center_starts_with_tls_or_when_told_that_it_is_insecure(tmp_path: Path) -> None:
    settings = CenterSettings(data=tmp_path, host="0.0.0.0")
    with pytest.raises(InputError, match=r"is not a loopback address.*cress tls init"):
        _check_host(settings)
    _check_host(replace(settings, insecure=True))
    _check_host(replace(settings, host="127.0.0.1"))
    Site(tmp_path)
    _check_host(settings)
    assert center_tls(settings, print).names[0] == "center.example.com"


def test_given_certificates_need_the_authority_of_the_executors(site: Site) -> None:
    center = site.files.certificate
    settings = CenterSettings(data=site.folder, tls_cert=center, tls_key=center)
    with pytest.raises(InputError, match="authority of the executors' certificates is missing"):
        center_tls(settings, print)
    assert center_tls(replace(settings, tls_ca=site.files.ca), print).names == site.tls.names


def test_revoked_are_the_certificates_made_until_then_and_no_others(site: Site, tmp_path: Path) -> None:
    def present(bundle: Path) -> bytes:
        return ssl.PEM_cert_to_DER_cert((bundle / "cert.pem").read_text())

    closed: list[str] = []
    site.tls.when_revoked = lambda: closed.append("n1")
    for number, life in enumerate((SECOND, 14 * SECOND, 90 * DAY)):
        site.authority.issue_node("n1", tmp_path / f"old{number}", life)
    site.authority.issue_node("n2", tmp_path / "n2")
    site.authority.revoke("n1")
    # Before the center has looked, too, nobody gets a new certificate for a revoked one.
    assert site.tls.renewed_node(present(tmp_path / "old2")) is None
    site.tls.look()
    assert closed == ["n1"]
    assert all(site.tls.is_revoked(present(tmp_path / f"old{number}")) for number in range(3))
    assert not site.tls.is_revoked(present(tmp_path / "n2"))
    for number, life in enumerate((SECOND, 14 * SECOND, 90 * DAY)):
        site.authority.issue_node("n1", tmp_path / f"new{number}", life)
        assert not site.tls.is_revoked(present(tmp_path / f"new{number}"))
    site.authority.revoke("n2")
    (site.folder / "revoked.json").write_text("nothing")
    site.tls.look()
    assert "what was revoked before stays so" in site.said[-1]
    assert site.tls.is_revoked(present(tmp_path / "old2"))
    with pytest.raises(InputError, match="does not hold the revoked certificates"):
        CenterTls(site.files, site.authority, site.said.append)


def test_a_certificate_that_is_lost_is_no_reason_to_speak_without_tls(tmp_path: Path) -> None:
    settings = CenterSettings(data=tmp_path, host="127.0.0.1")
    assert not _has_tls(settings)
    Site(tmp_path)
    assert _has_tls(settings)
    (tmp_path / "tls" / "center.pem").unlink()
    with pytest.raises(InputError, match="would not use TLS"):
        _has_tls(settings)
