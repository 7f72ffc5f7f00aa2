"""A steady load on a collector until it is ended: python -m benchmarks.load ADDRESS SPANS_PER_SECOND

Requests are small, like those of many agents at once. They are made while they are sent, which costs this process about
0.1 ms of CPU for a span.
"""

import sys
import time
from collections import deque

import grpc

from benchmarks.harness import EXPORT, TIMEOUT
from benchmarks.workload.generator import generate
from benchmarks.workload.otlp import requests

SPANS_PER_REQUEST = 16
SEED = 1_000
UNDER_WAY = 256
"""The most requests that wait for an answer."""
ENDLESS = 10**9
"""Number of conversations, more than are ever sent."""


def main() -> None:
    """Send requests at even distances. The process does not wait for answers, so the rate holds on average."""
    address, spans_per_second = sys.argv[1], float(sys.argv[2])
    interval = SPANS_PER_REQUEST / spans_per_second
    bodies = requests(generate(ENDLESS, SEED), started_at=time.time_ns(), spans_per_request=SPANS_PER_REQUEST)
    with grpc.insecure_channel(address) as channel:
        export = channel.unary_unary(EXPORT, request_serializer=bytes, response_deserializer=bytes)
        grpc.channel_ready_future(channel).result(TIMEOUT)
        print("sending", flush=True)
        started = time.monotonic()
        # gRPC cancels a call that nobody has a reference to.
        under_way: deque[grpc.Future[bytes]] = deque(maxlen=UNDER_WAY)
        for number, body in enumerate(bodies):
            time.sleep(max(0.0, started + number * interval - time.monotonic()))
            under_way.append(export.future(body, timeout=TIMEOUT))


if __name__ == "__main__":
    main()
