"""The costs that the model starts from. Each default is measured, or is said to be assumed."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """The costs of spans, traces and machines. CPU is that of one core.

    The machines were busy with other work when they were measured, so the figures are rather too high.
    """

    # The sent spans are those of `benchmarks.workload` (benchmarks/README.md).
    spans_per_trace: float = 3.3
    span_bytes: float = 4_540

    # CPU of a span by stage, in us. To receive it: 34 with a file (`benchmarks.collector_cpu`), 6 for the cut by trace.
    receive_us: float = 40
    # To assemble it: 10 (`benchmarks.assembly_cpu`), 47 for live loops (`benchmarks.loops_cpu`), 6 for the message of
    # the trace, 10 for its key.
    assemble_us: float = 73
    # To evaluate it: the rest of the 830 that a whole collector on PostgreSQL takes (docs/scaling.md), and 5 to read
    # the message. The CPU of commits is included.
    evaluate_us: float = 745
    # CPU of the server for everything: look-ups, commits, its vacuum and its log.
    store_us: float = 700

    # Milliseconds of a commit: the CPU of the server and of the collector between the two ends of the transaction
    # (`benchmarks.commits`), and the wait for the network, which is 0 here.
    commit_ms: float = 27
    commit_trace_ms: float = 0.64
    # Milliseconds of these for which the sums of the schema are locked, so that others wait: 8 % of a commit of 64
    # traces, 11 % of one of 8 (`benchmarks.writers`, one writer; 5 % in other runs).
    locked_ms: float = 3.2
    locked_trace_ms: float = 0.034
    commit_traces: int = 64
    """The most traces in a commit (`evaluation/stage.py`)."""

    # A judgement is mostly a commit of its own. This is the mean for one trace: most have no problem to count.
    verdict_locked_ms: float = 0.9
    judged: float = 0.0
    """Share of all traces that are judged."""
    verdict_usd: float = 0.002
    """US dollars for a judged trace. It is assumed; `gen_ai_evaluation_client_usage_cost_total` has your cost."""

    # Bytes of a trace in the store, with its indexes (`benchmarks.commits`). Content is forgotten after 30 days.
    trace_bytes: float = 8_400
    content_days: float = 30
    log_hours: float = 24
    """Hours that the log is kept (`log.retention`)."""
    compression: float = 4
    """Compression of the topics (lz4). It is assumed; zlib's fastest level made invented conversations 8 times smaller.
    """
    replicas: int = 3

    # Machines and prices are assumed. Put yours here.
    utilisation: float = 0.6
    """Share of the greatest load that is planned. The rest is for bursts, and for the share of a member that died."""
    cores: int = 8
    """Cores of a machine for our processes. Each process uses about one core."""
    store_cores: int = 32
    broker_mb: float = 100
    """Megabytes a second that a broker takes in, including its copies of others' partitions."""
    core_usd: float = 0.04
    """US dollars for an hour of a core with its memory."""
    disk_usd: float = 0.10
    """US dollars for a gigabyte of disk for a month."""

    def committed_ms(self, traces: int) -> float:
        """Return the milliseconds that a commit takes, without its wait for the lock."""
        return self.commit_ms + self.commit_trace_ms * traces

    def held_ms(self, traces: int) -> float:
        """Return the milliseconds for which a commit has the sums of its schema locked."""
        return self.locked_ms + self.locked_trace_ms * traces

    @property
    def lock_spans(self) -> float:
        """The most spans a second of one schema: its commits queue at one lock, and judgements are commits too."""
        held = self.held_ms(self.commit_traces) / self.commit_traces + self.judged * self.verdict_locked_ms
        return 1e3 / held * self.spans_per_trace

    @property
    def server_spans(self) -> float:
        """The most spans a second that one server of the store takes."""
        return self.store_cores * 1e6 / self.store_us

    @property
    def schema_spans(self) -> float:
        """The most spans a second that one schema takes. A schema is on one server."""
        return min(self.lock_spans, self.server_spans)
