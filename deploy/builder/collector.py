"""The dashboard of the collector: does it run, take everything, keep up, and is the judge there?"""

from grafana_foundation_sdk.builders.dashboard import Dashboard

from deploy.builder.frame import COLLECTOR, Row, choice, framed, tenants
from deploy.builder.panels import ORANGE, RED, Query, stat, trend
from deploy.builder.promql import CHOSEN, EVALUATOR, TENANT, Series, grown, label, quantile, rate, share, shared_gauge

_own = Series('instance=~"$instance"', CHOSEN)
_MODEL = "gen_ai_request_model"


def _work(name: str) -> str:
    return _own(f"agenteval_collector_{name}")


def collector() -> Dashboard:
    """Return the dashboard of the collector itself."""
    return framed(
        COLLECTOR,
        "Agents: collector",
        "The collector's own work, and the judge's. What is lost or late here is missing in the other dashboards. "
        "Choose tenants to see what is theirs.",
        [tenants(), choice("instance", "Collector", "label_values(agenteval_collector_build_info, instance)")],
        [_running(), _taking(), _behind(), _room(), _leaving(), _judge(), _judged()],
    )


def _running() -> Row:
    return "Does it run?", (
        stat(
            "Up",
            "Collectors that Prometheus reaches. With none, everything else is silent, not well.",
            f"count(count by (instance) ({_work('build_info')}))",
            nothing="none",
        ),
        stat(
            "Oldest waiting",
            "Age of the oldest acknowledged request that is not fully scored. Orange from a minute, red from ten: "
            "assembly.max_age, after which scoring is behind. Below that an agent may just take so long.",
            f"max({_work('log_oldest_age_seconds')})",
            unit="s",
            steps=((60, ORANGE), (600, RED)),
        ),
        stat(
            "Refused",
            "Requests of the time range of which nothing was kept. Red from the first one: spans may be lost.",
            grown(_work("requests_refused_total")),
            steps=((1, RED),),
        ),
        stat(
            "Judge paused",
            "1 while the judge's endpoint fails and requests are held back. What waits is judged later.",
            f"max({_own('agenteval_judge_paused')})",
            nothing="no judge",
            steps=((1, RED),),
        ),
        stat(
            "Judge has drifted",
            "Evaluators whose judge says something else than before of the same traces.",
            f"sum({shared_gauge(_own('agenteval_judge_drift'), EVALUATOR)})",
            nothing="not known",
            steps=((1, ORANGE),),
        ),
        stat(
            "Waiting for the judge",
            "Traces whose questions are not answered. Orange from 1,000: a tenth of judge.backlog, above which traces "
            "are not judged.",
            f"sum({_own('gen_ai_evaluation_client_queue_size')})",
            nothing="no judge",
            steps=((1000, ORANGE),),
        ),
    )


def _taking() -> Row:
    return "Does it take everything?", (
        trend(
            "Spans and log records",
            "Acknowledged, refused one by one, and late (after their trace was scored), per second.",
            Query(rate(_work("spans_received_total")), "received"),
            Query(rate(_work("spans_rejected_total")), "rejected"),
            Query(rate(_work("spans_late_total")), "late"),
            unit="cps",
        ),
        trend(
            "Requests refused",
            "By the type of error. Overloaded: more comes than can be assembled; Unavailable: the disk refuses; "
            "InvalidRequest: the sender is wrong.",
            Query(rate(_work("requests_refused_total"), "error_type"), "{{error_type}}"),
            Query(rate(_work("metrics_dropped_total")), "metrics, which nobody needs here"),
            unit="cps",
        ),
        trend(
            "Traces scored as they stood",
            "Partial traces by reason, and those scored before they were complete for want of memory or time.",
            Query(rate(_work("traces_partial_total"), "agenteval_reason"), "{{agenteval_reason}}"),
            Query(rate(_work("traces_released_early_total")), "released early"),
            unit="cps",
        ),
        trend(
            "Values that could not be read",
            "Recorded values no dialect could read, and results of other evaluators that were left out.",
            Query(rate(_work("values_unread_total"), "agenteval_kind"), "unread: {{agenteval_kind}}"),
            Query(rate(_work("results_left_out_total"), "agenteval_reason"), "left out: {{agenteval_reason}}"),
            unit="cps",
        ),
    )


def _behind() -> Row:
    return "Does it keep up?", (
        trend(
            "Oldest waiting",
            "Age of the oldest acknowledged request that is not fully scored. The line is assembly.max_age by default.",
            Query(_work("log_oldest_age_seconds"), label("instance", TENANT)),
            unit="s",
            steps=((600, RED),),
            width=8,
        ),
        trend(
            "Held",
            "Traces that are not complete, and acknowledged requests that are not fully scored.",
            Query(_work("traces_open"), f"open traces {label(TENANT)}"),
            Query(_work("log_lag"), f"requests {label(TENANT)}"),
            width=8,
        ),
        trend(
            "Queues",
            "Items that wait in each queue. A queue that only grows is where the time goes.",
            Query(_work("queue_size"), label("agenteval_queue", TENANT)),
            width=8,
        ),
    )


def _room() -> Row:
    return "Has it room?", (
        trend(
            "Memory",
            "Resident memory of the process, and server.memory_limit: near it, requests are refused.",
            Query(_work("memory_bytes"), label("instance")),
            Query(_work("memory_limit_bytes"), f"limit {label('instance')}"),
            unit="bytes",
            width=8,
        ),
        trend(
            "Disk",
            "What the collector's files take, and what is free there. A full disk refuses telemetry.",
            Query(_work("disk_bytes"), label("instance")),
            Query(_work("disk_free_bytes"), f"free {label('instance')}"),
            unit="bytes",
            width=8,
        ),
        trend(
            "Series",
            "Series of counters and histograms. At server.max_series new tools, versions and agents count as _other.",
            Query(_work("series"), label("instance", TENANT)),
            Query(grown(_work("series_merged_total")), "counted as _other"),
            Query(grown(_work("series_dropped_total")), "idle, dropped"),
            width=8,
        ),
    )


def _leaving() -> Row:
    return "Does it lose anything on the way out?", (
        trend(
            "Lost",
            "Items that a full queue lost, calls of an emitter that failed, messages of Kafka that were passed over: "
            "a healthy collector has none.",
            Query(rate(_work("queue_dropped_total"), "agenteval_queue"), "dropped: {{agenteval_queue}}"),
            Query(rate(_work("sink_failures_total"), "agenteval_sink"), "failed: {{agenteval_sink}}"),
            Query(rate(_work("messages_passed_over_total"), "agenteval_topic"), "passed over: {{agenteval_topic}}"),
            unit="cps",
            width=8,
        ),
        trend(
            "Set aside",
            "Input that the collector died on twice or cannot read. `agenteval doctor` lists it.",
            Query(_work("quarantine"), label("agenteval_kind", "instance", TENANT)),
            width=8,
        ),
        trend(
            "Pushes that failed",
            "Exports to export.endpoint that failed for good. Metrics catch up later; events are lost to that backend.",
            Query(rate(_work("push_failures_total"), "agenteval_signal"), "{{agenteval_signal}}"),
            unit="cps",
            width=8,
        ),
    )


def _judge() -> Row:
    requests = _own("agenteval_judge_requests_total")
    failed = _own("agenteval_judge_requests_total", 'error_type!=""')
    lookups = "agenteval_judge_cache_lookups_total"
    return "Does the judge answer?", (
        trend(
            "Requests that fail",
            "Share of HTTP requests to the judge, by the type of error; each attempt counts.",
            Query(f"{rate(failed, 'error_type')} / on () group_left () ({rate(requests)} > 0)", "{{error_type}}"),
            unit="percentunit",
            largest=1,
            width=8,
        ),
        trend(
            "Time for an answer, p95",
            "By question; one question in 20 takes longer.",
            Query(
                quantile(
                    0.95,
                    _own("gen_ai_evaluation_client_operation_duration_seconds_bucket"),
                    "agenteval_judge_question",
                ),
                "{{agenteval_judge_question}}",
            ),
            unit="s",
            width=8,
        ),
        trend(
            "Answers from the cache",
            "Share of questions that were answered before and cost nothing.",
            Query(share(rate(_own(lookups, 'agenteval_result="hit"')), rate(_own(lookups))), "hits"),
            unit="percentunit",
            largest=1,
            width=8,
        ),
    )


def _judged() -> Row:
    return "What does the judge cost, and what does it leave out?", (
        trend(
            "Budget used",
            "Share of each limit of judge.budget. At 1 traces are over_budget until there is room again.",
            Query(
                f"{_own('agenteval_judge_budget_used')} / {_own('agenteval_judge_budget_limit')}",
                label("agenteval_judge_budget", TENANT),
            ),
            unit="percentunit",
            steps=((0.8, ORANGE), (1, RED)),
            width=6,
        ),
        trend(
            "Cost, per hour",
            "US dollars by judge.prices.",
            Query(f"3600 * {rate(_own('gen_ai_evaluation_client_usage_cost_total'), _MODEL)}", label(_MODEL)),
            unit="currencyUSD",
            width=6,
        ),
        trend(
            "Tokens",
            "Tokens of questions and answers, per second.",
            Query(
                rate(_own("gen_ai_evaluation_client_usage_tokens_sum"), "gen_ai_token_type"), "{{gen_ai_token_type}}"
            ),
            width=6,
        ),
        trend(
            "Not judged",
            "Traces for which judge.backlog had no room, and sessions with findings for which judge.escalate had none.",
            Query(rate(_own("gen_ai_evaluation_client_enqueue_errors_total")), "no room"),
            Query(rate(_work("sessions_not_escalated_total")), "not escalated"),
            unit="cps",
            width=6,
        ),
    )
