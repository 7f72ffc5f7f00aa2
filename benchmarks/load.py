"""A steady load on a collector until it is ended: python -m benchmarks.load ADDRESS SPANS_PER_SECOND

Requests are small, as those of many agents at once. It raises where the prepared conversations do not last.
"""

import sys
import time

import grpc

from benchmarks.harness import EXPORT, TIMEOUT
from benchmarks.workload.generator import generate
from benchmarks.workload.otlp import requests

SPANS_PER_REQUEST = 16
SEED = 1_000
PREPARED = 3_000
"""Conversations whose requests are made before the load begins, so that sending is all that costs CPU here."""


def main() -> None:
    """Send at even distances; a request that is late is not waited for, so the rate holds on average."""
    address, spans_per_second = sys.argv[1], float(sys.argv[2])
    bodies = list(requests(generate(PREPARED, SEED), started_at=time.time_ns(), spans_per_request=SPANS_PER_REQUEST))
    interval = SPANS_PER_REQUEST / spans_per_second
    with grpc.insecure_channel(address) as channel:
        export = channel.unary_unary(EXPORT, request_serializer=bytes, response_deserializer=bytes)
        grpc.channel_ready_future(channel).result(TIMEOUT)
        print("sending", flush=True)
        started = time.monotonic()
        for number, body in enumerate(bodies):
            time.sleep(max(0.0, started + number * interval - time.monotonic()))
            export.future(body, timeout=TIMEOUT)
    raise RuntimeError(f"{PREPARED} conversations were sent before the load was ended: prepare more")


if __name__ == "__main__":
    main()
