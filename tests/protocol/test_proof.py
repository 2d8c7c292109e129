"""Mutual proof and sealed messages: what an impostor without the token can and cannot do. No sockets."""

from __future__ import annotations

import pytest

from cress.protocol.proof import NONCE, CenterProof, ExecutorProof, ProofError, Seals

TOKEN, OTHER = "the-token-of-the-cluster", "another-token-altogether"
N1, N2, N3 = (bytes([number]) * NONCE for number in (1, 2, 3))


def shaken(token: str = TOKEN) -> tuple[Seals, Seals]:
    """The seals of executor and center after a handshake."""
    executor = ExecutorProof(TOKEN, N1)
    center = CenterProof(token, N2, executor.header)
    own, seals = executor.check(center.header)
    return seals, center.check(own)


def test_both_sides_are_proven_and_messages_pass_in_both_directions() -> None:
    executor, center = shaken()
    for number in range(3):
        message = b"message %d" % number
        assert center.into.open(executor.out.seal(message)) == message
        assert executor.into.open(center.out.seal(message)) == message


def test_nothing_of_the_token_is_sent() -> None:
    executor = ExecutorProof(TOKEN, N1)
    center = CenterProof(TOKEN, N2, executor.header)
    own, _ = executor.check(center.header)
    assert TOKEN not in executor.header + center.header
    assert TOKEN.encode() not in own


@pytest.mark.parametrize("answer", [None, "", "1", "2 x y", "1 zz zz", f"1 {N2.hex()} {'0' * 64}", f"1 {N2.hex()} é"])
def test_an_impostor_that_knows_nothing_is_not_believed(answer: str | None) -> None:
    with pytest.raises(ProofError, match=r"prove|proof|nonce|wrong cluster or wrong token"):
        ExecutorProof(TOKEN, N1).check(answer)


def test_a_center_with_another_token_is_not_believed() -> None:
    with pytest.raises(ProofError, match="wrong cluster or wrong token"):
        shaken(OTHER)


def test_a_recorded_handshake_proves_nothing_to_another_nonce() -> None:
    recorded = CenterProof(TOKEN, N2, ExecutorProof(TOKEN, N1).header).header
    with pytest.raises(ProofError):
        ExecutorProof(TOKEN, N3).check(recorded)


def test_the_proof_of_one_side_is_not_that_of_the_other() -> None:
    executor = ExecutorProof(TOKEN, N1)
    center = CenterProof(TOKEN, N2, executor.header)
    with pytest.raises(ProofError):
        center.check(bytes.fromhex(center.header.split()[2]))
    # An impostor has the executor prove itself, and shows that proof as the center's.
    own, _ = executor.check(center.header)
    with pytest.raises(ProofError):
        executor.check(f"1 {N2.hex()} {own.hex()}")


def test_an_executor_that_knows_nothing_is_not_believed() -> None:
    center = CenterProof(TOKEN, N2, ExecutorProof(OTHER, N1).header)
    for proof in (b"", b"x", bytes(32)):
        with pytest.raises(ProofError, match="center's token"):
            center.check(proof)


@pytest.mark.parametrize("offered", ["", "1", "1 00", "2 " + N1.hex(), f"1 {N1.hex()} more", f"1 {N1.hex()[:-1]} "])
def test_an_offer_that_is_none_is_refused(offered: str) -> None:
    with pytest.raises(ProofError):
        CenterProof(TOKEN, N2, offered)


def test_a_relay_can_neither_change_nor_repeat_nor_reorder_nor_leave_out_nor_reflect() -> None:
    def first_two(seals: Seals) -> tuple[bytes, bytes]:
        return seals.out.seal(b"first"), seals.out.seal(b"second")

    def refused(*messages: bytes) -> None:
        """The last of these messages is refused, those before are taken."""
        _, center = shaken()
        for message in messages[:-1]:
            center.into.open(message)
        with pytest.raises(ProofError, match="seal"):
            center.into.open(messages[-1])

    first, second = first_two(shaken()[0])
    refused(first[:-1] + b"x")
    refused(first, first)
    refused(second)
    refused(first_two(shaken()[1])[0])
    refused(b"")
    refused(b"first")


def test_the_seals_of_two_connections_differ() -> None:
    executor, _ = shaken()
    other = CenterProof(TOKEN, N3, ExecutorProof(TOKEN, N1).header)
    own, _ = ExecutorProof(TOKEN, N1).check(other.header)
    with pytest.raises(ProofError):
        other.check(own).into.open(executor.out.seal(b"first"))
