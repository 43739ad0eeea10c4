"""What encryption costs between two machines: network namespaces of this one, each with a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import median

from tests.bench.harness import Bar, CannotRun, Progress, bench
from tests.bench.programs.run import ROOT, TIMEOUT_S

REPEATS = 3
MEGABYTES = 1_000
KEYS, BATCHES, ROUNDS = 1_000_000, 40, 4
HOSTS = ("10.78.0.1:2101", "10.78.0.2:2101")


@bench("tls")
def tls(progress: Progress) -> Iterator[Bar]:
    """A link, and WordCount on columns, between two namespaces: with TLS, and without."""
    with _namespaces() as namespaces, tempfile.TemporaryDirectory() as folder:
        hosts = Path(folder) / "hosts"
        hosts.write_text("\n".join(HOSTS))
        run = partial(_slowest, namespaces, hosts)
        for name, program, arguments, amount, unit, bar in (
            ("a link", "raw_link.py", (str(MEGABYTES),), MEGABYTES, "MB/s", 0.2),
            (
                f"WordCount on columns, {KEYS:,} keys",
                "columns.py",
                ("fold", str(KEYS), str(BATCHES), str(ROUNDS)),
                BATCHES * ROUNDS * 2**19 / 1e6,
                "million words/s",
                0.7,
            ),
        ):
            encrypted: list[float] = []
            plain: list[float] = []
            for repeat in range(REPEATS):
                progress(f"{name}: {repeat + 1} of {REPEATS}")
                encrypted.append(run(program, *arguments))
                plain.append(run(program, "--no-tls", *arguments))
            ratios = [without / one for one, without in zip(encrypted, plain, strict=True)]
            note = f"{amount / median(encrypted):.3g} against {amount / median(plain):.3g} {unit}"
            yield Bar.of(f"{name}, with TLS / without", ratios, ">=", bar, note=note)


def _slowest(namespaces: tuple[str, str], hosts: Path, program: str, *arguments: str) -> float:
    """How many seconds the slower of two processes took."""
    with ExitStack() as stack:
        processes = []
        for number, namespace in enumerate(namespaces):
            command = [sys.executable, str(ROOT / "tests/bench/programs" / program), "-p", str(number)]
            flags = ["--hostfile", str(hosts), "--secret-file", str(hosts.with_name("secret"))]
            process = subprocess.Popen(
                ["ip", "netns", "exec", namespace, *command, *flags, *arguments],
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
            processes.append(process)
        said = [process.communicate(timeout=TIMEOUT_S)[0] for process in processes]
        assert [process.returncode for process in processes] == [0, 0], said
    return max(float(json.loads(line)["seconds"]) for out in said for line in out.splitlines())


@contextmanager
def _namespaces() -> Iterator[tuple[str, str]]:
    """Two namespaces, and a link between them."""
    names = f"hailer-tls-{os.getpid()}-a", f"hailer-tls-{os.getpid()}-b"
    with ExitStack() as stack:
        for name in names:
            try:
                _ip("netns", "add", name)
            except (OSError, subprocess.CalledProcessError) as error:
                raise CannotRun("this user may not make network namespaces; run it as root") from error
            stack.callback(subprocess.run, ["ip", "netns", "del", name], check=False)
        _ip("-n", names[0], "link", "add", "name", "wire", "type", "veth", "peer", "name", "wire", "netns", names[1])
        for name, host in zip(names, HOSTS, strict=True):
            _ip("-n", name, "link", "set", "lo", "up")
            _ip("-n", name, "link", "set", "wire", "up")
            _ip("-n", name, "address", "add", f"{host.partition(':')[0]}/24", "dev", "wire")
        yield names


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
