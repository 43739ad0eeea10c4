"""The pure core of outputs in files: which part, when it is finished, what is complete, when to cut."""

from __future__ import annotations

from operators.job.parts import Completion, CutPolicy, OpenPart, PartName, Parts


def spans(parts: list[OpenPart]) -> list[tuple[int, int]]:
    return [(part.first, part.last) for part in parts]


def write(parts: Parts, *epochs: int, at_once: bool = False) -> list[int]:
    """Which of these epochs can be written."""
    return [epoch for epoch in epochs if parts.of(epoch, at_once=at_once) is not None]


def test_a_part_is_finished_when_its_rows_have_come_to_the_cut_behind_it():
    parts = Parts()
    assert write(parts, 0) == []  # a cut may still come
    parts.heard = 3
    assert write(parts, 0, 2, 3) == [0, 2]
    parts.cut(5)
    parts.heard = 9
    assert write(parts, 3, 4, 5, 8) == [3, 4, 5, 8]
    assert parts.take_finished(4) == []
    assert spans(parts.take_finished(5)) == [(0, 4)]
    parts.heard = None
    assert parts.take_finished(9) == []
    assert spans(parts.take_finished(None)) == [(5, 8)]


def test_rows_that_cannot_wait_have_a_part_of_their_own():
    parts = Parts()
    assert write(parts, 1, 2, at_once=True) == [1, 2]
    parts.cut(2)
    parts.heard = 4
    assert write(parts, 0, 1, 3) == [0, 1, 3]
    assert spans(parts.take_finished(2)) == [(1, 1), (0, 0)]
    assert spans(parts.take_finished(3)) == [(2, 2)]


def test_a_joiner_may_have_missed_cuts_before_the_first_that_it_hears_of():
    parts = Parts(hears_from=None)
    parts.heard = 3
    assert write(parts, 1, 2, 3) == [1, 2]
    parts.cut(6)
    parts.heard = 9
    assert write(parts, 4, 5, 6, 8) == [4, 5, 6, 8]
    parts.cut(9)
    assert spans(parts.take_finished(9)) == [(1, 1), (2, 2), (4, 4), (5, 5), (6, 8)]


def test_a_leaver_may_miss_cuts_from_where_it_began_to_leave():
    parts = Parts()
    parts.heard = 3
    assert write(parts, 0, 2) == [0, 2]
    parts.leave()
    parts.heard = 9
    parts.leave()
    assert write(parts, 1, 3, 4) == [1, 3, 4]
    assert spans(parts.take_finished(3)) == [(0, 2)]
    assert spans(parts.take_finished(5)) == [(3, 3), (4, 4)]


def test_what_is_before_a_cut_is_complete_once_all_reports_have_come_to_it():
    completion = Completion()
    for cut in (3, 5):
        completion.cut(cut)
    early, late, other = PartName(0, 2, 1), PartName(3, 4, 0), PartName(10, 12, 0)
    for name in (late, early, other):
        completion.report(name)
    assert not completion.advance(2)
    assert completion.advance(4)
    assert (completion.complete, completion.files) == (2, [early])
    assert not completion.advance(4)
    assert completion.advance(None)
    assert (completion.complete, completion.files) == (4, [early, late])
    completion.end()
    assert (completion.complete, completion.files) == (12, [early, late, other])


def test_an_output_without_records_is_complete_when_it_ends():
    completion = Completion()
    completion.cut(7)
    completion.advance(None)
    completion.end()
    assert (completion.complete, completion.files) == (6, [])


def test_names_say_first_and_last_epoch_and_worker():
    assert str(PartName(0, 52, 3)) == "part-0-52-w3.jsonl"
    assert [PartName.is_one(name) for name in ("part-0-52-w3.jsonl", "part-00000-a.jsonl", "x")] == [True, False, False]


def test_cuts_come_soon_at_first_and_seldom_later():
    policy, now_s, waits = CutPolicy(100.0), 100.0, []
    for _ in range(60):
        waits.append(round(policy.left_s(now_s), 6))
        now_s += waits[-1]
        assert policy.left_s(now_s) < 1e-5
        policy.cut(now_s)
    assert waits[:11] == [1.0] * 11
    assert waits == sorted(waits)
    assert waits[-1] == 30.0
