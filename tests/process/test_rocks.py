"""State on disk through the ends that processes come to: normal, stopped, killed, and a full disk."""

from __future__ import annotations

import signal
from pathlib import Path

from routing.bins import Bins
from routing.state.rocks import RocksStore
from routing.state.rocks_budget import MIB
from tests.processes import Program, end, wait_for_line

WRITES = """
    import sys
    from routing.bins import Bins
    from routing.state.rocks_budget import MIB
    from routing.state.rocks import RocksStore

    KEYS = range(200)
    store = RocksStore.open(Bins(16), sys.argv[1], 32 * MIB)
    number = 0
    while True:  # each batch sets all keys to its number
        number += 1
        states = store.begin(KEYS)
        states = {key: (number, "x" * 1000) for key in KEYS}
        store.end(states, born=[], changed=KEYS, gone=[])
        if number == 300:
            print("writing", flush=True)
"""

COUNTS = """
    import sys
    from operators import BinOptions, Input, Probe, execute_from_args
    from routing.state.rocks_budget import MIB
    from routing.state.rocks import RocksStore

    def count(word, n, total):
        if word == sys.argv[2]:
            raise ValueError(word)
        total += n
        return total, [(word, total)]

    store = RocksStore.maker(sys.argv[1], 32 * MIB)

    def main(worker):
        words, probe, totals = Input(), Probe(), {}
        with worker.dataflow() as scope:
            counts = words.stream(scope).stateful_state_machine(count, initial=0, bins=BinOptions(store=store))
            counts.inspect_batch(lambda _, rows: totals.update(rows)).probe(probe)
        for epoch in range(3):
            words.send_batch([("tea", 1), ("milk", 1), ("tea", 1)])
            words.advance_to(epoch + 1)
            worker.step_while(lambda: probe.less_than(epoch + 1))
        if sys.argv[2] == "wait" and worker.index == 0:
            print("counted", flush=True)
        while sys.argv[2] == "wait":
            worker.step_or_park(1.0)
        worker.complete()
        for word, total in totals.items():
            print(word, total, flush=True)

    execute_from_args(main, sys.argv[3:])
"""

MOVES = """
    import sys
    from operators import BinOptions, ControlInput, Input, Probe, execute_from_args
    from routing.state.memory import MemoryStore
    from routing.state.rocks_budget import MIB
    from routing.state.rocks import RocksStore

    EPOCHS, KEYS = 12, 2000
    rocks = RocksStore.maker(sys.argv[1], 32 * MIB)

    def append(key, value, state):
        state = [*state, value]
        return state, [(key, state)] if len(state) == EPOCHS else []

    def main(worker):
        data, control, probe, states = Input(), ControlInput(), Probe(), {}
        with worker.dataflow() as scope:
            (
                data.stream(scope)
                .stateful_state_machine(
                    append,
                    initial=list,
                    control=control.stream(scope).broadcast(),
                    bins=BinOptions(16, store=rocks if worker.index == 0 else MemoryStore),
                )
                .inspect_batch(lambda _, rows: states.update(rows))
                .probe(probe)
            )
        for epoch in range(EPOCHS):
            if worker.index == 0 and epoch:
                control.map([(bin_id + epoch // 2) % 2 for bin_id in range(16)])
            data.send_batch([(key, epoch) for key in range(worker.index, KEYS, 2)])
            data.advance_to(epoch + 1)
            control.advance_to(epoch + 1)
            worker.step_while(lambda: probe.less_than(epoch + 1))
        control.close()
        data.close()
        worker.complete()
        assert all(state == list(range(EPOCHS)) for state in states.values())
        print(len(states), flush=True)

    execute_from_args(main, sys.argv[2:])
"""

MOVES_COLUMNS = """
    import sys
    import numpy as np
    import pyarrow as pa
    from operators import BinOptions, ControlInput, Probe, execute_from_args
    from operators.columns import ColumnInput
    from routing.state.rocks_budget import MIB
    from routing.state.rocks import RocksStore

    EPOCHS, KEYS, BATCH = 4, 300_000, 10_000
    rocks = RocksStore.maker(sys.argv[1], 32 * MIB)

    def count(key, n, total):
        total += n
        return total, [(key, total)]

    def main(worker):
        data, control, probe = ColumnInput({"key": int, "n": int}), ControlInput(), Probe()
        mine = np.arange(worker.index, KEYS, 2)
        last, largest_bytes = np.zeros(KEYS, np.int64), 0

        def keep(batch):
            last[batch["key"].to_numpy()] = batch["total"].to_numpy()

        with worker.dataflow() as scope:
            (
                data.stream(scope)
                .stateful_state_machine(
                    count,
                    key="key",
                    value="n",
                    state={"total": int},
                    initial=0,
                    output={"key": int, "total": int},
                    control=control.stream(scope).broadcast(),
                    bins=BinOptions(16, store=rocks),
                )
                .inspect(keep)
                .probe(probe)
            )
        for epoch in range(EPOCHS):
            if worker.index == 0 and epoch:
                control.map([0 if bin_id < 4 * epoch else 1 for bin_id in range(16)])
            np.random.default_rng(epoch).shuffle(mine)
            for start in range(0, len(mine), BATCH):
                some = mine[start : start + BATCH]
                data.send(pa.record_batch({"key": some, "n": some + epoch}))
                worker.step()
            data.advance_to(epoch + 1)
            control.advance_to(epoch + 1)
            worker.step_while(lambda: probe.less_than(epoch + 1))
            largest_bytes = max(largest_bytes, rocks.disk_bytes())
        control.close()
        data.close()
        worker.complete()
        numbers = np.arange(KEYS)
        right = (last == EPOCHS * numbers + sum(range(EPOCHS))) & (numbers > 0)
        print(right.sum(), largest_bytes > MIB, flush=True)

    execute_from_args(main, sys.argv[2:])
"""

FILLS_BEHIND_A_TABLE = """
    import resource, sys
    from rocksdict import WriteBatch
    from routing.state.rocks_budget import MIB
    from routing.state.errors import StoreFull
    from routing.state.rocks import RocksStore

    database, _ = RocksStore.maker(sys.argv[1], 32 * MIB).behind_table()
    resource.setrlimit(resource.RLIMIT_FSIZE, (MIB // 4, MIB // 4))
    try:
        for number in range(10_000):
            batch = WriteBatch(raw_mode=True)
            batch.put(number.to_bytes(8, "big"), b"x" * 10_000)
            database.write(batch)
    except StoreFull as error:
        print(error, flush=True)
"""

FILLS = """
    import resource, sys
    from routing.bins import Bins
    from routing.state.errors import StoreFull
    from routing.state.rocks_budget import MIB
    from routing.state.rocks import RocksStore

    store = RocksStore.open(Bins(16), sys.argv[1], 32 * MIB)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MIB // 4, MIB // 4))
    try:
        for number in range(10_000):
            states = store.begin([number])
            store.end({number: "x" * 10_000}, born=[number], changed=[number], gone=[])
    except StoreFull as error:
        print(error, flush=True)
    store.close()
"""

FILLS_IN_A_JOB = """
    import resource, sys
    from operators import BinOptions, Input, execute_from_args
    from routing.state.rocks_budget import MIB
    from routing.state.rocks import RocksStore

    def keep(key, value, state):
        return "x" * 10_000, []

    store = RocksStore.maker(sys.argv[1], 32 * MIB)

    def main(worker):
        pairs = Input()
        with worker.dataflow() as scope:
            pairs.stream(scope).stateful_state_machine(keep, initial="", bins=BinOptions(store=store))
        resource.setrlimit(resource.RLIMIT_FSIZE, (MIB // 4, MIB // 4))
        for number in range(10_000):
            pairs.send((number, None))
            pairs.advance_to(number + 1)
            worker.step()

    execute_from_args(main, sys.argv[2:])
"""


def test_a_process_killed_while_it_writes_leaves_whole_batches(tmp_path: Path):
    program, state = Program.write(tmp_path, WRITES), tmp_path / "state"
    with program.started(str(state)) as process:
        wait_for_line(process, "writing")
        process.kill()
        assert process.wait() == -signal.SIGKILL
    store = RocksStore.open(Bins(16), state, 32 * MIB)
    found = store.begin(range(200))
    [last] = {number for number, _ in found.values()}
    assert len(found) == sum(store.bins().values()) == 200
    assert last >= 300
    store.close()


def test_a_second_process_is_told_who_has_the_directory(tmp_path: Path):
    program, state = Program.write(tmp_path, WRITES), tmp_path / "state"
    with program.started(str(state)) as process:
        wait_for_line(process, "writing")
        second = program.run(str(state))
        assert second.code == 1
        assert f"StoreLocked: the state in {state} is in use by process {process.pid} on " in second.err


def test_bins_go_to_and_fro_between_disk_and_memory_while_records_come(tmp_path: Path):
    program, stores = Program.write(tmp_path, MOVES), tmp_path / "stores"
    ended = program.run(str(stores), "-n2")
    assert (ended.code, ended.err) == (0, "")
    counts = [int(line) for line in ended.out.splitlines()]
    assert sum(counts) == 2000
    assert all(count > 500 for count in counts), counts
    assert list(stores.glob("store-*")) == []


def test_bins_of_columns_go_to_and_fro_with_what_of_them_is_on_disk(tmp_path: Path):
    program, stores = Program.write(tmp_path, MOVES_COLUMNS), tmp_path / "stores"
    ended = program.run(str(stores), "-n2")
    assert ended.code == 0, ended.err
    counts, on_disk = zip(*(line.split() for line in ended.out.splitlines()), strict=True)
    assert sum(map(int, counts)) == 300_000 - 1
    assert on_disk == ("True", "True")
    assert list(stores.glob("store-*")) == []


def test_nothing_is_left_when_a_job_ends(tmp_path: Path):
    program, stores = Program.write(tmp_path, COUNTS), tmp_path / "stores"
    ended = program.run(str(stores), "", "-n2", "-w2")
    assert (ended.code, ended.err) == (0, "")
    assert sorted(ended.out.splitlines()) == ["milk 12", "tea 24"]
    assert list(stores.glob("store-*")) == []


def test_nothing_is_left_when_a_job_fails(tmp_path: Path):
    program, stores = Program.write(tmp_path, COUNTS), tmp_path / "stores"
    ended = program.run(str(stores), "milk", "-w2")
    assert ended.code == 1
    assert "ValueError: milk" in ended.err
    assert list(stores.glob("store-*")) == []


def test_nothing_is_left_when_a_job_is_stopped(tmp_path: Path):
    program, stores = Program.write(tmp_path, COUNTS), tmp_path / "stores"
    with program.started(str(stores), "wait") as process:
        wait_for_line(process, "counted")
        assert len(list(stores.glob("store-*"))) == 1
        process.terminate()
        assert end(process).code == 143
    assert list(stores.glob("store-*")) == []


def test_the_next_job_clears_away_what_a_killed_one_left(tmp_path: Path):
    program, stores = Program.write(tmp_path, COUNTS), tmp_path / "stores"
    with program.started(str(stores), "wait") as process:
        wait_for_line(process, "counted")
        process.kill()
        process.wait()
    [left] = stores.glob("store-*")
    assert program.run(str(stores), "").out.splitlines() == ["tea 6", "milk 3"]
    assert not left.exists()
    assert list(stores.glob("store-*")) == []


def test_a_full_disk_is_told_by_name(tmp_path: Path):
    """A limit on the size of files stands for the size of the disk."""
    ended = Program.write(tmp_path, FILLS).run(str(tmp_path / "state"))
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith(f"no room is left for the state in {tmp_path / 'state'} (IO error: ")
    assert "make room, or give the store another directory" in ended.out


def test_a_job_on_a_full_disk_says_so_and_leaves_nothing(tmp_path: Path):
    """Closing a database that has failed fails again, with another error."""
    stores = tmp_path / "stores"
    ended = Program.write(tmp_path, FILLS_IN_A_JOB).run(str(stores), "-n2")
    assert ended.code == 1
    assert "StoreFull: no room is left for the state in" in ended.err
    assert ended.err.count("RocksDB cannot work") == 0
    assert list(stores.glob("store-*")) == []


def test_a_full_disk_behind_a_table_is_told_by_name(tmp_path: Path):
    """Nothing is logged there: what cannot be written is found out a little later."""
    ended = Program.write(tmp_path, FILLS_BEHIND_A_TABLE).run(str(tmp_path / "state"))
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith(f"no room is left for the state in {tmp_path / 'state'}")
