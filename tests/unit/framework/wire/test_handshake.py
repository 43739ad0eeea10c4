"""The handshake between its two sides, and against those who do not know the secret."""

from __future__ import annotations

import pytest

from framework.errors import PeerRefused, ProtocolError, SecretMismatch
from framework.membership.members import WorkerId
from framework.wire.admission import Admission
from framework.wire.framing import frame
from framework.wire.handshake import (
    HELLO_BYTES_MAX,
    VERSION,
    Accepted,
    ClientHandshake,
    Rejected,
    ServerHandshake,
    Welcomed,
)
from framework.wire.purpose import BrokerConnection, ExecutorStream, JoinerLink, Purpose, WorkerLink, encode

SECRET = b"s" * 32
LINK = WorkerLink(2, 1, WorkerId(1), WorkerId(0))


def client(secret: bytes = SECRET, nonce: bytes = b"c" * 32, purpose: Purpose = LINK) -> ClientHandshake:
    return ClientHandshake(secret, nonce, purpose)


def server(secret: bytes = SECRET, nonce: bytes = b"n" * 32, refusal: str | None = None) -> ServerHandshake[WorkerLink]:
    return ServerHandshake(secret, nonce, (WorkerLink,), lambda link: refusal)


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_both_sides_agree_whatever_the_cuts(chunk: int) -> None:
    ours, theirs = client(), server()
    outcome: Accepted[WorkerLink] | Rejected | None = None
    welcomed: Welcomed | None = None
    to_server, to_client = ours.opening, b""
    while to_server or to_client:
        part, to_server = to_server[:chunk], to_server[chunk:]
        if part:
            reply, outcome = theirs.receive(part)
            to_client += reply
        part, to_client = to_client[:chunk], to_client[chunk:]
        if part:
            reply, welcomed = ours.receive(part)
            to_server += reply
    assert outcome == Accepted(LINK)
    assert welcomed == Welcomed(b"")


def test_what_follows_the_welcome_is_handed_on() -> None:
    ours, theirs = client(), server()
    answer, _ = theirs.receive(ours.opening)
    proof, _ = ours.receive(answer)
    welcome, _ = theirs.receive(proof)
    assert ours.receive(welcome + b"first frames") == (b"", Welcomed(b"first frames"))


def test_a_refusal_reaches_the_client_in_words() -> None:
    ours, theirs = client(), server(refusal="it is too late; é" + "x" * 1000)
    answer, _ = theirs.receive(ours.opening)
    proof, _ = ours.receive(answer)
    verdict, outcome = theirs.receive(proof)
    assert isinstance(outcome, Rejected)
    with pytest.raises(PeerRefused, match="it is too late; éxxx"):
        ours.receive(verdict)


@pytest.mark.parametrize(
    ("purpose", "name"),
    [
        (JoinerLink(1, WorkerId(1), WorkerId(0)), "links from workers that join"),
        (ExecutorStream(1, 1, 0), "streams of processes on executors"),
        (BrokerConnection(), "clients of a job's broker"),
    ],
)
def test_a_purpose_that_is_not_served_is_refused_in_words(purpose: Purpose, name: str) -> None:
    ours, theirs = client(purpose=purpose), server()
    answer, _ = theirs.receive(ours.opening)
    proof, _ = ours.receive(answer)
    verdict, outcome = theirs.receive(proof)
    assert outcome == Rejected(f"this port is for links between workers, not for {name}")
    with pytest.raises(PeerRefused, match=f"this port is for links between workers, not for {name}"):
        ours.receive(verdict)


def test_the_secret_does_not_travel() -> None:
    secret = bytes(range(32))
    ours, theirs = client(secret), server(secret)
    answer, _ = theirs.receive(ours.opening)
    proof, _ = ours.receive(answer)
    welcome, _ = theirs.receive(proof)
    assert not any(secret[start : start + 4] in ours.opening + answer + proof + welcome for start in range(28))


def test_a_client_notices_another_secret() -> None:
    ours, theirs = client(b"a" * 32), server(b"b" * 32)
    answer, outcome = theirs.receive(ours.opening)
    assert outcome is None
    with pytest.raises(SecretMismatch):
        ours.receive(answer)


def test_a_server_rejects_a_wrong_proof_before_it_parses_the_hello() -> None:
    theirs = server()
    theirs.receive(client().opening)
    reply, outcome = theirs.receive(b"p" * 32)
    assert (reply, outcome) == (b"", Rejected("it does not know the cluster's secret"))


def test_a_replayed_handshake_proves_nothing() -> None:
    ours, theirs = client(), server(nonce=b"1" * 32)
    answer, _ = theirs.receive(ours.opening)
    proof, _ = ours.receive(answer)
    again = server(nonce=b"2" * 32)
    again.receive(ours.opening)
    assert again.receive(proof) == (b"", Rejected("it does not know the cluster's secret"))


def test_a_server_proof_sent_back_is_no_client_proof() -> None:
    """Reflection: let the server answer its own challenge on a second connection, and return that answer."""
    first, second = server(nonce=b"1" * 32), server(nonce=b"2" * 32)
    opening = client(nonce=b"m" * 32).opening
    answer, _ = first.receive(opening)
    server_nonce = answer[8:40]
    reflected, _ = second.receive(opening[:8] + server_nonce)
    for proof in (answer[40:], reflected[40:]):
        candidate = server(nonce=b"1" * 32)
        candidate.receive(opening)
        assert candidate.receive(proof)[1] == Rejected("it does not know the cluster's secret")


def test_a_client_is_not_fooled_by_its_own_opening() -> None:
    ours = client()
    with pytest.raises(SecretMismatch):
        ours.receive(ours.opening + ours.opening[:32])


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"GET / HTTP/1.1\r\n", "does not speak this protocol"),
        (b"H\x00", "does not speak this protocol"),
        (client().opening + b"x", "out of turn"),
        (b"HAILER\x00\x09", "speaks version 9"),
    ],
)
def test_a_stranger_is_rejected_at_its_first_words(said: bytes, reason: str) -> None:
    _, outcome = server().receive(said)
    assert isinstance(outcome, Rejected)
    assert reason in outcome.reason


def test_another_version_is_told_ours() -> None:
    reply, _ = server().receive(b"HAILER\x00\x09")
    assert reply == b"HAILER" + VERSION.to_bytes(2, "big")
    with pytest.raises(ProtocolError, match="speaks version 9"):
        client().receive(b"HAILER\x00\x09")
    with pytest.raises(ProtocolError, match="not a Hailer process"):
        client().receive(b"SSH-2.0")


@pytest.mark.parametrize(
    "hello",
    [
        frame(b""),
        frame(b"\x90"),
        frame(b"\x00"),
        frame(b"\x91\x05"),
        frame(b"\x91\xc3"),
        frame(b"\x92\x91\x01\x01"),
        frame(b"\x95\x01\x01\x01\x01\xff"),
        frame(b"\x95\x01\x01\x01\x01\xc3"),
        frame(b"\x94\x01\x02\x01\x01"),
        frame(b"\x96\x01\x02\x01\x01\x00\x00"),
        (HELLO_BYTES_MAX + 1).to_bytes(4, "big"),
        b"\xff\xff\xff\xff",
        frame(encode(LINK)) + b"x",
    ],
)
def test_a_bad_hello_is_rejected_even_from_one_who_knows_the_secret(hello: bytes) -> None:
    ours, theirs = client(), server()
    answer, _ = theirs.receive(ours.opening)
    proof = ours.receive(answer)[0][:32]
    reply, outcome = theirs.receive(proof + hello)
    assert reply == b""
    assert isinstance(outcome, Rejected)


def test_admission_takes_each_expected_link_once() -> None:
    admission = Admission(2, 1, frozenset([WorkerId(0)]), {(WorkerId(1), WorkerId(0))})

    def ask(processes: int = 2, threads: int = 1, source: int = 1, target: int = 0) -> str | None:
        return admission.refusal(WorkerLink(processes, threads, WorkerId(source), WorkerId(target)))

    def join(threads: int = 1) -> str | None:
        return admission.refusal(JoinerLink(threads, WorkerId(2), WorkerId(0)))

    assert (
        ask(processes=3) == "it was started for 3 processes of 1 thread, but this cluster has 2 processes of 1 thread"
    )
    assert ask(threads=2) == "it was started for 2 processes of 2 threads, but this cluster has 2 processes of 1 thread"
    assert ask(target=5) == "worker 5 is not here"
    assert ask(source=0) == "worker 0 is here"
    assert ask() is None
    assert ask() is None, "nobody could tell its client, who tries again"
    admission.record(WorkerLink(2, 1, WorkerId(1), WorkerId(0)))
    assert ask(source=2) == "worker 0 expects no link from worker 2"
    assert join(threads=2) == "it has 2 threads, but the processes of this cluster have 1"
    assert join() is None
    admission.record(JoinerLink(1, WorkerId(2), WorkerId(0)))
    assert join() == "worker 2 has a link to worker 0 already; is a process started twice?"
    assert ask() == "worker 1 has a link to worker 0 already; is a process started twice?"
