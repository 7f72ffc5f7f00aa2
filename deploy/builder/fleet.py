"""The dashboard of all agents: is anything wrong, with which agent, since which version, and what does it cost?"""

from grafana_foundation_sdk.builders.dashboard import Dashboard

from deploy.builder.frame import FLEET, Row, choice, dashboard_of, framed, problems_of, sessions_of
from deploy.builder.panels import ORANGE, Column, Query, stat, table, trend
from deploy.builder.promql import AGENT, EVALUATOR, VERSION, Series, grown, label, quantile, rate
from deploy.builder.shared import NORMAL, OPEN, burnt, coverage, error_share, errors_now, errors_over_time, evidence

_named = Series('deployment_environment_name=~"$environment"')
_TRACES = _named("agenteval_traces_total")
_LOOPS = _named("agenteval_loops_total")
_TURNS = _named("agenteval_agent_turn_duration_seconds_bucket")
_OPEN = Series()("agenteval_problems", *OPEN)
_LINE = (dashboard_of("__field.labels.gen_ai_agent_name"), problems_of("__field.labels.gen_ai_agent_name"))


def fleet() -> Dashboard:
    """Return the dashboard of all agents."""
    return framed(
        FLEET,
        "Agents: fleet",
        "Every agent that sends spans to the collector. Read it from the top: each row asks the next question.",
        [choice("environment", "Environment", "label_values(agenteval_traces_total, deployment_environment_name)")],
        [_wrong(), _agents(), _versions(), _money(), _time(), _trust()],
    )


def _wrong() -> Row:
    return "Is anything wrong?", (
        stat(
            "Collectors",
            "Collectors that Prometheus reaches. With none, everything below is silent, not well.",
            "count(agenteval_collector_build_info)",
            nothing="none",
        ),
        stat(
            "Agents at work",
            "Agents with a complete trace in the time range.",
            f"count({grown(_TRACES, AGENT)} > 0)",
        ),
        stat(
            "Alerts",
            "Alerts about agents that fire now. Needs the rules of deploy/prometheus in this Prometheus.",
            f'count(ALERTS{{alertstate="firing", {AGENT}!=""}})',
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
            "One row for each agent, over the time range; open problems and low sessions are those of now, in all "
            "environments. Sort by a column; a click on a name leads to the agent.",
            Column("With an error", error_share(_named, AGENT), "percentunit", NORMAL),
            Column("Open problems", f"sum by ({AGENT}) ({_OPEN})", steps=((1, ORANGE),)),
            Column("Low sessions", f"max by ({AGENT}) (agenteval_sessions_low)"),
            Column("Loops", grown(_LOOPS, AGENT), steps=((1, ORANGE),)),
            Column("Traces", grown(_TRACES, AGENT)),
            Column("Cost", grown(_named("agenteval_agent_cost_total"), AGENT), "currencyUSD"),
            Column("Turns, p95", f"histogram_quantile(0.95, {grown(_TURNS, 'le', AGENT)})", "s"),
            labels={AGENT: "Agent"},
            links=(dashboard_of("__value.text"), problems_of("__value.text"), sessions_of("__value.text")),
        ),
        errors_over_time(_named, AGENT, "agent", _LINE),
        trend(
            "Findings of severity error, by kind",
            "What went wrong, per second. One kind over several agents at once points at a tool or a model they share.",
            Query(
                rate(
                    _named("agenteval_findings_total", 'agenteval_finding_severity="error"'),
                    "agenteval_finding_kind",
                    AGENT,
                ),
                f"{{{{agenteval_finding_kind}}}} of {label(AGENT)}",
            ),
            unit="cps",
            links=_LINE,
        ),
    )


def _versions() -> Row:
    return "Since which version?", (
        evidence(
            f"max by ({AGENT}, {VERSION}, {EVALUATOR}, agenteval_finding_kind) (agenteval_regression)",
            f"{label(AGENT)} {label(VERSION)}",
            _LINE,
        ),
        trend(
            "Traces by version",
            "Complete traces per second. Where a line begins a version was rolled out.",
            Query(rate(_TRACES, AGENT, VERSION), f"{label(AGENT)} {label(VERSION)}"),
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
            Query(f"3600 * {rate(_named('agenteval_agent_cost_total'), AGENT)}", label(AGENT)),
            unit="currencyUSD",
            links=_LINE,
            width=8,
        ),
        burnt(_named, AGENT, _LINE),
        trend(
            "The judge, per hour",
            "US dollars of judging, by judge.prices. It is no part of what the agents cost.",
            Query(f"3600 * {rate('gen_ai_evaluation_client_usage_cost_total', 'gen_ai_request_model')}", "judge"),
            unit="currencyUSD",
            width=8,
        ),
    )


def _time() -> Row:
    return "How long do users wait?", tuple(
        trend(
            f"Turns, {name}",
            f"Time from a user's words to the agent's answer: {meaning}. Dots are single traces.",
            Query(quantile(level, _TURNS, AGENT), label(AGENT), exemplars=True),
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
                f"{rate(outcomes, 'agenteval_status')} / on () group_left () {rate(outcomes)}", "{{agenteval_status}}"
            ),
            unit="percentunit",
            largest=1,
        ),
        coverage(_named, AGENT, _LINE),
    )
