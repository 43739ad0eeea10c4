"""The handshake between its two sides, and against those who do not know the secret."""

from __future__ import annotations

import pytest

from framework.errors import PeerRefused, ProtocolError, SecretMismatch
from framework.membership.members import WorkerId
from framework.wire.admission import Admission
from framework.wire.codec import encode_value
from framework.wire.credentials import Credentials
from framework.wire.framing import frame
from framework.wire.handshake import (
    _CLIENT,
    HELLO_BYTES_MAX,
    RUN_CHARS_MAX,
    VERSION,
    Accepted,
    ClientHandshake,
    Rejected,
    ServerHandshake,
    Welcomed,
)
from framework.wire.purpose import BrokerConnection, ExecutorStream, JoinerLink, Purpose, WorkerLink, encode

RUN = "5e1f"
OURS = Credentials(b"s" * 32, RUN)
LINK = WorkerLink(2, 1, WorkerId(1), WorkerId(0))


UNPROVEN = "it does not know the cluster's secret, or somebody in between changed what it said"


def client(credentials: Credentials = OURS, nonce: bytes = b"c" * 32, purpose: Purpose = LINK) -> ClientHandshake:
    return ClientHandshake(credentials, nonce, purpose)


def server(
    credentials: Credentials = OURS, nonce: bytes = b"n" * 32, refusal: str | None = None
) -> ServerHandshake[WorkerLink]:
    return ServerHandshake(credentials, nonce, (WorkerLink,), lambda link: refusal)


def hello(purpose: bytes, run: str = RUN, generation: object = 0) -> bytes:
    return frame(encode_value([run, generation, purpose]))


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
    ours, theirs = client(Credentials(secret)), server(Credentials(secret))
    answer, _ = theirs.receive(ours.opening)
    proof, _ = ours.receive(answer)
    welcome, _ = theirs.receive(proof)
    assert not any(secret[start : start + 4] in ours.opening + answer + proof + welcome for start in range(28))


def test_a_client_notices_another_secret() -> None:
    ours, theirs = client(Credentials(b"a" * 32)), server(Credentials(b"b" * 32))
    answer, outcome = theirs.receive(ours.opening)
    assert outcome is None
    with pytest.raises(SecretMismatch):
        ours.receive(answer)


def test_a_server_rejects_a_wrong_proof_before_it_parses_the_hello() -> None:
    theirs = server()
    theirs.receive(client().opening)
    reply, outcome = theirs.receive(b"p" * 32 + frame(b"\xc1"))
    assert (reply, outcome) == (b"", Rejected(UNPROVEN))


def test_a_replayed_handshake_proves_nothing() -> None:
    ours, theirs = client(), server(nonce=b"1" * 32)
    answer, _ = theirs.receive(ours.opening)
    proof, _ = ours.receive(answer)
    again = server(nonce=b"2" * 32)
    again.receive(ours.opening)
    assert again.receive(proof) == (b"", Rejected(UNPROVEN))


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
        assert candidate.receive(proof + hello(encode(LINK)))[1] == Rejected(UNPROVEN)


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
    "said",
    [
        frame(b""),
        frame(b"\x90"),
        frame(b"\x00"),
        frame(encode(LINK)),
        frame(encode_value([RUN, 0])),
        hello(b""),
        hello(b"\x91\x05"),
        hello(b"\x91\xc3"),
        hello(b"\x92\x91\x01\x01"),
        hello(b"\x95\x01\x01\x01\x01\xff"),
        hello(b"\x95\x01\x01\x01\x01\xc3"),
        hello(b"\x94\x01\x02\x01\x01"),
        hello(b"\x96\x01\x02\x01\x01\x00\x00"),
        hello(encode(LINK), run="r" * (RUN_CHARS_MAX + 1)),
        hello(encode(LINK), generation=True),
        hello(encode(LINK), generation=-1),
        (HELLO_BYTES_MAX + 1).to_bytes(4, "big"),
        b"\xff\xff\xff\xff",
        hello(encode(LINK)) + b"x",
    ],
)
def test_a_bad_hello_is_rejected_even_from_one_who_knows_the_secret(said: bytes) -> None:
    ours, theirs = client(), server()
    answer, _ = theirs.receive(ours.opening)
    ours._transcript.add(answer)
    proven = said[:-1] if said.endswith(b"x") else said
    reply, outcome = theirs.receive(ours._transcript.proof(_CLIENT, proven) + said)
    assert reply == b""
    assert isinstance(outcome, Rejected)
    assert outcome != Rejected(UNPROVEN)


@pytest.mark.parametrize(
    ("credentials", "reason"),
    [
        (Credentials(OURS.secret, "0b57"), "it is of run 0b57, and this process is of run 5e1f: another job"),
        (Credentials(OURS.secret), "it was started by hand, and this process is of run 5e1f: another job"),
        (Credentials(OURS.secret, RUN, 1), "it is of generation 1 of the job, and this process of 0"),
    ],
)
def test_another_run_or_generation_is_refused_in_words(credentials: Credentials, reason: str) -> None:
    ours, theirs = client(credentials), server()
    answer, _ = theirs.receive(ours.opening)
    said, _ = ours.receive(answer)
    verdict, outcome = theirs.receive(said)
    assert isinstance(outcome, Rejected)
    assert outcome.reason.startswith(reason)
    with pytest.raises(PeerRefused, match=reason):
        ours.receive(verdict)


THIRD = WorkerLink(3, 1, WorkerId(2), WorkerId(1))
"""What process 2 wants of process 1, at whose port somebody else listens."""


@pytest.mark.parametrize(
    "another",
    [
        hello(encode(WorkerLink(3, 1, WorkerId(1), WorkerId(0)))),
        hello(encode(JoinerLink(1, WorkerId(77), WorkerId(0)))),
        hello(encode(THIRD), run="0b57"),
        hello(encode(THIRD), generation=1),
    ],
)
def test_who_relays_a_client_to_another_server_cannot_say_what_it_comes_for(another: bytes) -> None:
    ours, theirs = client(purpose=THIRD), server()
    answer, _ = theirs.receive(ours.opening)
    said, _ = ours.receive(answer)
    assert theirs.receive(said[:32] + another) == (b"", Rejected(UNPROVEN))


def test_who_relays_a_refused_client_cannot_welcome_it() -> None:
    """Else it would believe in a link to process 1, and whoever holds the port of that would be the link."""
    ours, theirs = client(purpose=THIRD), server(refusal="worker 1 is not here")
    answer, _ = theirs.receive(ours.opening)
    said, _ = ours.receive(answer)
    verdict, _ = theirs.receive(said)
    welcome = frame(encode_value([True, ""]))
    for forged in (welcome + verdict[-32:], welcome + said[:32], welcome + answer[40:]):
        with pytest.raises(ProtocolError, match="somebody is in between"):
            client_after(ours.opening, answer).receive(forged)


def test_the_verdict_of_another_handshake_proves_nothing() -> None:
    ours, theirs = client(), server()
    answer, _ = theirs.receive(ours.opening)
    verdict, _ = theirs.receive(ours.receive(answer)[0])
    later, again = client(nonce=b"d" * 32), server()
    later.receive(again.receive(later.opening)[0])
    with pytest.raises(ProtocolError, match="somebody is in between"):
        later.receive(verdict)


def client_after(opening: bytes, answer: bytes) -> ClientHandshake:
    ours = client(purpose=THIRD)
    assert ours.opening == opening
    ours.receive(answer)
    return ours


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
