"""The bench harness: what it prints and how it ends. No figure of any bench is judged here."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest

from tests.bench.__main__ import main, run
from tests.bench.harness import Bar, CannotRun, Progress, UnknownBench, discover, ratios, select, table


def fast(progress: Progress) -> Iterator[Bar]:
    progress("repeat 1 of 1")
    yield Bar.of("rows / bare loop", [0.5, 0.4, 0.25], ">=", 1 / 3, note="one worker")


def slow(progress: Progress) -> Iterator[Bar]:
    yield Bar("p99 of a round trip", 12_345.6, 5, "<=", unit="ms")


def broken(progress: Progress) -> Iterator[Bar]:
    raise RuntimeError("the job died")
    yield


def test_every_bench_module_can_be_imported():
    assert all(callable(function) for function in discover().values())


@pytest.mark.parametrize(
    ("measured", "direction", "holds"),
    [(1.0, ">=", True), (0.9, ">=", False), (1.0, "<=", True), (1.1, "<=", False), (float("nan"), "<=", False)],
)
def test_a_bar_holds_on_its_side(measured, direction, holds):
    assert Bar("any", measured, 1.0, direction).holds is holds


def test_one_aligned_line_per_bar():
    bars = [*fast(lambda text: None), *slow(lambda text: None)]
    assert table(bars) == [
        "rows / bare loop        0.400x  (0.250..0.500)   bar >= 0.333x  holds   one worker",
        "p99 of a round trip  12,346 ms                  bar <= 5.00 ms  misses",
    ]


def test_no_bars_no_lines():
    assert table([]) == []


def test_a_run_shows_progress_and_succeeds_also_when_a_bar_is_missed():
    out, err = io.StringIO(), io.StringIO()
    assert run({"fast": fast, "slow": slow}, out=out, err=err) == 0
    assert [line.split()[-1] for line in out.getvalue().splitlines()] == ["worker", "misses"]
    assert err.getvalue().splitlines()[:2] == ["[1/2] fast: running", "[1/2] fast: repeat 1 of 1"]


def test_a_crash_is_shown_and_the_others_still_run():
    out, err = io.StringIO(), io.StringIO()
    assert run({"broken": broken, "fast": fast}, out=out, err=err) == 1
    assert "RuntimeError: the job died" in err.getvalue()
    assert out.getvalue().startswith("rows / bare loop")


def test_a_bench_that_cannot_run_says_what_to_do_and_the_others_still_run():
    def lacking(progress: Progress) -> Iterator[Bar]:
        raise CannotRun("tea must be there: put the kettle on")
        yield

    out, err = io.StringIO(), io.StringIO()
    assert run({"lacking": lacking, "fast": fast}, out=out, err=err) == 1
    assert "[1/2] lacking: cannot run: tea must be there: put the kettle on\n" in err.getvalue()
    assert "Traceback" not in err.getvalue()
    assert out.getvalue().startswith("rows / bare loop")


def test_an_interrupt_keeps_what_was_measured():
    def interrupted(progress: Progress) -> Iterator[Bar]:
        raise KeyboardInterrupt
        yield

    out, err = io.StringIO(), io.StringIO()
    assert run({"fast": fast, "interrupted": interrupted, "slow": slow}, out=out, err=err) == 130
    assert out.getvalue().count("\n") == 1


def test_an_unknown_name_gets_the_closest_and_all_of_them():
    with pytest.raises(UnknownBench) as caught:
        select({"rows-wordcount": fast, "round-trip": slow}, ["row-wordcount"])
    assert str(caught.value).splitlines() == [
        "no bench is called 'row-wordcount'; did you mean 'rows-wordcount'?",
        "There are:",
        "  round-trip",
        "  rows-wordcount",
    ]


def test_an_unknown_name_on_the_command_line(capsys: pytest.CaptureFixture[str]):
    assert main(["no such bench"]) == 2
    assert "no bench is called 'no such bench'" in capsys.readouterr().err


def test_names_select_in_their_order():
    benches = {"fast": fast, "slow": slow}
    assert list(select(benches, [])) == ["fast", "slow"]
    assert list(select(benches, ["slow"])) == ["slow"]


def test_ratios_alternate_and_leave_out_the_first_round():
    calls: list[str] = []
    shown: list[str] = []
    figures = ratios(lambda: calls.append("o"), lambda: calls.append("b"), repeats=2, progress=shown.append)
    assert "".join(calls) == "bobobo"
    assert len(figures) == 2
    assert shown == ["warming up", "repeat 1 of 2", "repeat 2 of 2"]
