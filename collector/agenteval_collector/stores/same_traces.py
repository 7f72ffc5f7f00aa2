"""Keep newer revisions of traces that say the same: their outcomes stand, and are of the newer revision now."""

import json
from collections.abc import Sequence

from sqlalchemy import Connection, update

from agenteval_collector.model.commit import SameTrace
from agenteval_collector.stores.schema import outcomes, traces
from otel_agenteval.outcome import Subject


def write_same(connection: Connection, tenant: str, same: Sequence[SameTrace]) -> None:
    """Keep the newer revisions."""
    for trace in same:
        connection.execute(
            update(traces)
            .where(traces.c.tenant == tenant, traces.c.trace_id == trace.trace_id)
            .values(
                revision=trace.revision,
                revised=json.dumps(trace.revised),
                offsets=json.dumps(list(trace.offsets)),
                processes=json.dumps(list(trace.processes)),
            )
        )
        connection.execute(
            update(outcomes)
            .where(
                outcomes.c.tenant == tenant,
                outcomes.c.subject == Subject.TRACE,
                outcomes.c.subject_id == trace.trace_id,
            )
            .values(revision=trace.revision)
        )
