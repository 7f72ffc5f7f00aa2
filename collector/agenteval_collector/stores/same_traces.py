"""Keep newer revisions of traces that say the same: their outcomes stand, and are of the newer revision now."""

import json
from collections.abc import Sequence

from sqlalchemy import update

from agenteval_collector.model.commit import SameTrace
from agenteval_collector.stores.access import TenantConnection
from agenteval_collector.stores.schema import outcomes, own, traces
from agenteval_collector.stores.trace_json import revision_json
from otel_agenteval.outcome import Subject


def write_same(connection: TenantConnection, same: Sequence[SameTrace]) -> None:
    """Keep the newer revisions."""
    for trace in same:
        connection.execute(
            update(traces)
            .where(own(traces), traces.c.trace_id == trace.trace_id)
            .values(
                revision=trace.revision,
                revised=revision_json(trace.view),
                offsets=json.dumps(list(trace.offsets)),
                processes=json.dumps(list(trace.processes)),
            )
        )
        connection.execute(
            update(outcomes)
            .where(
                own(outcomes),
                outcomes.c.subject == Subject.TRACE,
                outcomes.c.subject_id == trace.trace_id,
            )
            .values(revision=trace.revision)
        )
