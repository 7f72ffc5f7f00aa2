"""The dashboard of all agents: is anything wrong, with which agent, since which version, and what does it cost?"""

from grafana_foundation_sdk.builders.dashboard import Dashboard

from deploy.builder.frame import FLEET, Row, dashboard_of, environments, framed, problems_of, sessions_of, tenants
from deploy.builder.panels import ORANGE, Column, Query, stat, table, trend
from deploy.builder.promql import (
    AGENT,
    CHOSEN,
    EVALUATOR,
    TENANT,
    VERSION,
    Series,
    grown,
    label,
    quantile,
    rate,
    shared_gauge,
)
from deploy.builder.shared import NORMAL, OPEN, burnt, coverage, error_share, errors_now, errors_over_time, evidence

_chosen = Series(CHOSEN)
_named = Series(CHOSEN, 'deployment_environment_name=~"$environment"')
_WHOSE = (AGENT, TENANT)
"""Agents of the same name are two if two tenants have them."""
_BY = ", ".join(_WHOSE)
_TRACES = _named("agenteval_traces_total")
_LOOPS = _named("agenteval_loops_total")
_TURNS = _named("agenteval_agent_turn_duration_seconds_bucket")
_ALERTS = _chosen("ALERTS", 'alertstate="firing"', f'{AGENT}!=""')
_OPEN = shared_gauge(_chosen("agenteval_problems", *OPEN), AGENT, "agenteval_problem_state")
_LINE = (
    dashboard_of(f"__field.labels.{AGENT}", f"__field.labels.{TENANT}"),
    problems_of(f"__field.labels.{AGENT}"),
)


def fleet() -> Dashboard:
    """Return the dashboard of all agents."""
    return framed(
        FLEET,
        "Agents: fleet",
        "Every agent that sends spans to the collector. Read it from the top: each row asks the next question.",
        [tenants(), environments()],
        [_wrong(), _agents(), _versions(), _money(), _time(), _trust()],
    )


def _wrong() -> Row:
    return "Is anything wrong?", (
        stat(
            "Collectors",
            "Collectors that Prometheus reaches. With none, everything below is silent, not well.",
            f"count(count by (instance) ({_chosen('agenteval_collector_build_info')}))",
            nothing="none",
        ),
        stat(
            "Agents at work",
            "Agents with a complete trace in the time range.",
            f"count({grown(_TRACES, *_WHOSE)} > 0)",
        ),
        stat(
            "Alerts",
            "Alerts about agents that fire now. Needs the rules of deploy/prometheus in this Prometheus.",
            f"count({_ALERTS})",
            steps=((1, ORANGE),),
        ),
        stat(
            "Open problems",
            "Failures of severity error that recur and are neither resolved nor muted, in all environments. "
            "Orange from the first one: each is worth a look, once.",
            f"sum({_OPEN})",
            steps=((1, ORANGE),),
        ),
        errors_now(_named),
        stat(
            "Loops",
            "Loops in the time range that may stop an agent (mode alarm). Orange from the first one: a loop costs "
            "money until somebody ends it.",
            grown(_LOOPS),
            steps=((1, ORANGE),),
        ),
    )


def _agents() -> Row:
    return "Which agent is it?", (
        table(
            "Agents",
            "One row for each agent of each tenant, over the time range; open problems and low sessions are those of "
            "now, in all environments. Sort by a column; a click on a name leads to the agent.",
            Column("With an error", error_share(_named, *_WHOSE), "percentunit", NORMAL),
            Column("Open problems", f"sum by ({_BY}) ({_OPEN})", steps=((1, ORANGE),)),
            Column("Low sessions", f"max by ({_BY}) ({_chosen('agenteval_sessions_low')})"),
            Column("Loops", grown(_LOOPS, *_WHOSE), steps=((1, ORANGE),)),
            Column("Traces", grown(_TRACES, *_WHOSE)),
            Column("Cost", grown(_named("agenteval_agent_cost_total"), *_WHOSE), "currencyUSD"),
            Column("Turns, p95", f"histogram_quantile(0.95, {grown(_TURNS, 'le', *_WHOSE)})", "s"),
            labels={AGENT: "Agent", TENANT: "Tenant"},
            links=(
                dashboard_of("__value.text", "__data.fields.Tenant"),
                problems_of("__value.text"),
                sessions_of("__value.text"),
            ),
        ),
        errors_over_time(_named, _WHOSE, "agent", _LINE),
        trend(
            "Findings of severity error, by kind",
            "What went wrong, per second. One kind over several agents at once points at a tool or a model they share.",
            Query(
                rate(
                    _named("agenteval_findings_total", 'agenteval_finding_severity="error"'),
                    "agenteval_finding_kind",
                    *_WHOSE,
                ),
                f"{{{{agenteval_finding_kind}}}} of {label(*_WHOSE)}",
            ),
            unit="cps",
            links=_LINE,
        ),
    )


def _versions() -> Row:
    return "Since which version?", (
        evidence(
            shared_gauge(_chosen("agenteval_regression"), AGENT, VERSION, EVALUATOR, "agenteval_finding_kind"),
            label(AGENT, VERSION),
            _LINE,
        ),
        trend(
            "Traces by version",
            "Complete traces per second. Where a line begins a version was rolled out.",
            Query(rate(_TRACES, *_WHOSE, VERSION), label(AGENT, VERSION, TENANT)),
            unit="cps",
            links=_LINE,
        ),
    )


def _money() -> Row:
    return "What does it cost?", (
        trend(
            "Agents' model calls, per hour",
            "US dollars by the tokens that spans tell of and the prices of their models. Models without a known price "
            "are left out.",
            Query(f"3600 * {rate(_named('agenteval_agent_cost_total'), *_WHOSE)}", label(*_WHOSE)),
            unit="currencyUSD",
            links=_LINE,
            width=8,
        ),
        burnt(_named, _WHOSE, _LINE),
        trend(
            "The judge, per hour",
            "US dollars of judging, by judge.prices. It is no part of what the agents cost.",
            Query(
                f"3600 * {rate(_chosen('gen_ai_evaluation_client_usage_cost_total'), TENANT)}", f"judge {label(TENANT)}"
            ),
            unit="currencyUSD",
            width=8,
        ),
    )


def _time() -> Row:
    return "How long do users wait?", tuple(
        trend(
            f"Turns, {name}",
            f"Time from a user's words to the agent's answer: {meaning}. Dots are single traces.",
            Query(quantile(level, _TURNS, *_WHOSE), label(*_WHOSE), exemplars=True),
            unit="s",
            links=_LINE,
        )
        for level, name, meaning in ((0.5, "median", "half of the turns take longer"), (0.95, "p95", "one in 20 does"))
    )


def _trust() -> Row:
    outcomes = _named("agenteval_evaluation_outcomes_total")
    return "Can I trust the scores?", (
        trend(
            "Evaluations by what came of them",
            "Share of evaluations. Only scored ones say anything of quality: no_judge, no_content, over_budget and "
            "failed say why there is no score.",
            Query(
                f"{rate(outcomes, 'agenteval_status', TENANT)} / on ({TENANT}) group_left () {rate(outcomes, TENANT)}",
                label("agenteval_status", TENANT),
            ),
            unit="percentunit",
            largest=1,
        ),
        coverage(_named, _WHOSE, _LINE),
    )
