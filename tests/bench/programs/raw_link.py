"""Batches over one link, as fast as it takes them; the process that receives prints how long that took.

python tests/bench/programs/raw_link.py -n2 (-p0 | -p1) [--hostfile FILE] [--no-tls] MEGABYTES
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
import pyarrow as pa

from framework.launch.config import parse
from framework.membership.members import WorkerId
from framework.net.mesh import start_mesh
from framework.net.secret import load_or_create_secret
from framework.wire.credentials import Credentials
from framework.wire.messages import Data, Goodbye, Lost

BATCH_BYTES = 1 << 20
PARK_S = 1.0


def main() -> None:
    config, [megabytes] = parse(sys.argv[1:])
    assert config.process is not None
    credentials = Credentials(load_or_create_secret(config.secret_file), encryption=config.encryption)
    mesh = start_mesh(config.process, 1, config.addresses, credentials)
    endpoint = mesh.endpoints[WorkerId(config.process)]
    if config.process == 1:
        batch = pa.record_batch({"x": np.arange(BATCH_BYTES // 8)})
        for number in range(int(megabytes)):
            endpoint.send(WorkerId(0), Data(0, number, batch))
            endpoint.flush()
            while endpoint.congested():
                endpoint.park(PARK_S)
                endpoint.receive()
        endpoint.send(WorkerId(0), Goodbye())
        while not endpoint.drain(PARK_S):
            pass
    else:
        began_s, count = time.monotonic(), 0
        while True:
            endpoint.park(PARK_S)
            messages = [message for _, message in endpoint.receive()]
            if not count:
                began_s = time.monotonic()
            count += sum(isinstance(message, Data) for message in messages)
            assert not any(isinstance(message, Lost) for message in messages), messages
            if any(isinstance(message, Goodbye) for message in messages):
                break
        assert count == int(megabytes), count
        sys.stdout.write(json.dumps({"seconds": time.monotonic() - began_s}) + "\n")
    mesh.close()


if __name__ == "__main__":
    main()
