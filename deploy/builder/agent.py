"""The dashboard of one agent of a tenant: is it well, how good are its answers, what does it cost?"""

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.builders.dashboard import Dashboard

from deploy.builder.frame import AGENT as UID
from deploy.builder.frame import Row, choice, environments, framed, problems_of, sessions_of, tenants
from deploy.builder.panels import DATA, ORANGE, Column, Query, stat, table, trend
from deploy.builder.promql import (
    AGENT,
    CHOSEN,
    EVALUATOR,
    VERSION,
    Series,
    grown,
    label,
    largest,
    quantile,
    rate,
    share,
    shared_gauge,
)
from deploy.builder.shared import (
    NORMAL,
    OPEN,
    burnt,
    coverage,
    error_share,
    errors_now,
    errors_over_time,
    evidence,
    with_error,
)

_ENVIRONMENT = 'deployment_environment_name=~"$environment"'
_AGENT = f'{CHOSEN}, {AGENT}="$agent"'
_own = Series(_AGENT, f'{VERSION}=~"$version"', _ENVIRONMENT)
_all_versions = Series(_AGENT, _ENVIRONMENT)
_TRACES = _own("agenteval_traces_total")
_COST = _own("agenteval_agent_cost_total")
_TURNS = _own("agenteval_agent_turn_duration_seconds_bucket")
_OPERATIONS = "agenteval_agent_operation_duration_seconds_bucket"
_OUTCOMES = "agenteval_evaluation_outcomes_total"
_JUDGED = _own(_OUTCOMES, 'agenteval_part="random"', 'gen_ai_evaluation_score_label!=""')
_PASSED = _own(_OUTCOMES, 'agenteval_part="random"', 'gen_ai_evaluation_score_label="pass"')
_BY_VERSION = label(VERSION)
_PAGES = (problems_of("agent"), sessions_of("agent"))


def agent() -> Dashboard:
    """Return the dashboard of one agent."""
    built = framed(
        UID,
        "Agents: one agent",
        "One agent, with its versions side by side. Choose two versions to compare them.",
        [
            tenants(several=False),
            environments(),
            choice("agent", "Agent", f"label_values(agenteval_traces_total{{{CHOSEN}}}, {AGENT})", several=False),
            choice("version", "Version", f"label_values({_series_of_agent('agenteval_traces_total')}, {VERSION})"),
        ],
        [_wrong(), _promised(), _course(), _versions(), _quality(), _money(), _time(), _trust()],
    )
    return built.annotation(_beginnings())


def _beginnings() -> builders.AnnotationQuery:
    """Return marks where a version of the agent was seen for the first time in a while."""
    traces = _all_versions("agenteval_traces_total")
    began = f"count by ({VERSION}) ({traces}) unless count by ({VERSION}) ({traces} offset 5m)"
    mark = builders.AnnotationQuery().name("Versions begin").datasource(DATA).icon_color("blue")
    return mark.enable(True).expr(began)


def _wrong() -> Row:
    return "Is it well?", (
        errors_now(_own, _PAGES),
        stat(
            "Open problems",
            "Failures of severity error that recur and are neither resolved nor muted, of all versions and "
            "environments.",
            f"sum({shared_gauge(_series_of_agent('agenteval_problems', *OPEN), 'agenteval_problem_state')})",
            steps=((1, ORANGE),),
            links=_PAGES,
        ),
        stat(
            "Active sessions",
            "Sessions that may still get traces, of all versions and environments.",
            f"sum({shared_gauge(_sessions('active'), 'service_name')})",
            links=_PAGES,
        ),
        stat(
            "Low sessions",
            "Active sessions, drawn at random for the judge, that score below the threshold of a session score. How "
            "many of them chance explains is shown below.",
            f"max({_sessions('low')})",
            nothing="no judge",
            links=_PAGES,
        ),
        stat(
            "Loops",
            "Loops in the time range that may stop the agent (mode alarm). Orange from the first one.",
            grown(_own("agenteval_loops_total")),
            steps=((1, ORANGE),),
            links=_PAGES,
        ),
        stat(
            "Last loop",
            "How long ago the newest loop was found.",
            f"time() - max({_own('agenteval_loop_last_seconds')})",
            unit="s",
            nothing="never",
            links=_PAGES,
        ),
    )


def _promised() -> Row:
    """Return what fires, and how the objectives of the settings are kept."""
    about = ("title", "kind", "severity", "owner")
    labels = {f"agenteval_alarm_{name}": name.capitalize() for name in about}
    alarm = f"max by ({', '.join((*labels, 'deployment_environment_name'))}) ({_all_versions('agenteval_alarm')})"
    failing = share(rate(with_error(_all_versions)), rate(_all_versions("agenteval_traces_total")))
    return "Which alarms fire, and are the objectives kept?", (
        table(
            "Alarms",
            "What goes wrong now, compared with the agent's own past or with an objective. The page has the evidence.",
            Column("Fires", alarm),
            labels={**labels, "deployment_environment_name": "Environment"},
            links=_PAGES,
            width=12,
        ),
        trend(
            "Failing traces, and the objective",
            "Share of the traces with an error. The objective is `objectives.AGENT.failing` of the settings, if any.",
            Query(failing, "failing"),
            Query(_objective("failing"), "objective"),
            unit="percentunit",
            links=_PAGES,
            width=8,
        ),
        stat(
            "Error budget left",
            "Of the failures that the objective allows in the time range. Below 0 it is spent.",
            f"1 - {error_share(_all_versions)} / {_objective('failing')}",
            unit="percentunit",
            nothing="no objective",
            links=_PAGES,
        ),
    )


def _objective(name: str) -> str:
    objective = f'agenteval_objective="{name}"'
    return f"max({_series_of_agent('agenteval_objective', objective)})"


def _course() -> Row:
    return "Since when?", (
        errors_over_time(_own, (VERSION,), "version", _PAGES),
        trend(
            "Findings by kind",
            "What was found, per second. Errors flag a trace; warnings and infos are hints.",
            Query(
                rate(_own("agenteval_findings_total"), "agenteval_finding_kind", "agenteval_finding_severity"),
                "{{agenteval_finding_kind}} ({{agenteval_finding_severity}})",
            ),
            unit="cps",
            links=_PAGES,
        ),
    )


def _versions() -> Row:
    return "Which version is better?", (
        table(
            "Versions side by side",
            "Over the time range. A difference may be chance: the evidence below says when it is not.",
            Column("With an error", error_share(_own, VERSION), "percentunit", NORMAL),
            Column("Passed", share(grown(_PASSED, VERSION), grown(_JUDGED, VERSION)), "percentunit"),
            Column("Traces", grown(_TRACES, VERSION)),
            Column("Cost of a trace", f"{grown(_COST, VERSION)} / ({grown(_TRACES, VERSION)} > 0)", "currencyUSD"),
            Column("Turns, p95", f"histogram_quantile(0.95, {grown(_TURNS, 'le', VERSION)})", "s"),
            labels={VERSION: "Version"},
        ),
        evidence(
            shared_gauge(_by_version("agenteval_regression"), VERSION, EVALUATOR, "agenteval_finding_kind"),
            _BY_VERSION,
            _PAGES,
        ),
        trend(
            "Reliability over repeated runs",
            "R and its four parts, from 0 to 1. Needs runs with a task id.",
            Query(
                shared_gauge(
                    _by_version("agenteval_reliability", 'agenteval_reliability_metric=~"R|R_con|R_pred|R_rob|R_saf"'),
                    VERSION,
                    "agenteval_reliability_metric",
                ),
                f"{{{{agenteval_reliability_metric}}}} of {_BY_VERSION}",
            ),
            largest=1,
        ),
    )


def _quality() -> Row:
    legend = f"{label(EVALUATOR)} of {_BY_VERSION}"
    told_apart = VERSION, EVALUATOR, "agenteval_estimator"
    return "How good are its answers?", (
        trend(
            "Rate of passing, with its interval",
            "By evaluator and version. low and high bound the 95 % interval, which takes 20 labels by people. Without "
            "it the rate is the judge's own word.",
            Query(shared_gauge(_by_version("agenteval_pass_rate"), *told_apart), legend),
            Query(shared_gauge(_by_version("agenteval_pass_rate_low"), *told_apart), f"{legend}, low"),
            Query(shared_gauge(_by_version("agenteval_pass_rate_high"), *told_apart), f"{legend}, high"),
            unit="percentunit",
            largest=1,
            links=_PAGES,
            width=8,
        ),
        trend(
            "Scores, lower quarter",
            "A quarter of the scores are below the line. Dots are single traces: a click opens one on the collector's "
            "page.",
            Query(
                quantile(0.25, _own("gen_ai_evaluation_score_bucket"), EVALUATOR),
                label(EVALUATOR),
                exemplars=True,
            ),
            largest=1,
            links=_PAGES,
            width=8,
        ),
        trend(
            "Low sessions",
            "Active sessions, drawn at random for the judge, that are below the threshold of a session score, and how "
            "many of them chance explains. The alert AgentSessionsLow fires above that.",
            Query(shared_gauge(_sessions("low"), EVALUATOR, "service_name"), label(EVALUATOR)),
            Query(shared_gauge(_sessions("low_limit"), EVALUATOR, "service_name"), f"{label(EVALUATOR)}: by chance"),
            links=_PAGES,
            width=8,
        ),
    )


def _money() -> Row:
    return "What does it cost?", (
        trend(
            "Cost of a trace, by version",
            "US dollars of model calls by trace. Models without a known price are left out.",
            Query(f"{rate(_COST, VERSION)} / ({rate(_TRACES, VERSION)} > 0)", _BY_VERSION),
            unit="currencyUSD",
            width=8,
        ),
        burnt(_own, ("agenteval_loop_kind",), _PAGES),
        trend(
            "Tokens, by model",
            "Tokens per second, as the agent's spans tell. Input that grows faster than output is history sent again.",
            Query(
                rate(_own("agenteval_agent_tokens_total"), "gen_ai_request_model", "gen_ai_token_type"),
                "{{gen_ai_request_model}} {{gen_ai_token_type}}",
            ),
            width=8,
        ),
    )


def _time() -> Row:
    chat = 'gen_ai_operation_name="chat"'
    models, counts = _own(_OPERATIONS, chat), _OPERATIONS.replace("_bucket", "_count")
    tools = _own(_OPERATIONS, 'gen_ai_operation_name="execute_tool"')
    calls = "agenteval_agent_tool_calls_total"
    by_tool = "{{gen_ai_tool_name}}"
    return "Where does the time go, and which tool fails?", (
        trend(
            "Turns, p95 by version",
            "Time from a user's words to the answer; one turn in 20 takes longer. Dots are single traces.",
            Query(quantile(0.95, _TURNS, VERSION), _BY_VERSION, exemplars=True),
            unit="s",
            width=8,
        ),
        trend(
            "Model calls, p95",
            "One model call in 20 takes longer. The ten slowest models.",
            Query(
                largest(10, quantile(0.95, models, "gen_ai_request_model")), "{{gen_ai_request_model}}", exemplars=True
            ),
            unit="s",
            width=8,
        ),
        trend(
            "Tool calls, p95",
            "One tool call in 20 takes longer. The ten slowest tools.",
            Query(largest(10, quantile(0.95, tools, "gen_ai_tool_name")), by_tool, exemplars=True),
            unit="s",
            width=8,
        ),
        trend(
            "Tool calls that fail",
            "Share of each tool's calls; the ten tools with most.",
            Query(
                largest(
                    10,
                    share(
                        rate(_own(calls, 'agenteval_status="error"'), "gen_ai_tool_name"),
                        rate(_own(calls), "gen_ai_tool_name"),
                    ),
                ),
                by_tool,
            ),
            unit="percentunit",
            largest=1,
            links=_PAGES,
        ),
        trend(
            "Model calls that fail",
            "Share of each model's calls; the ten models with most.",
            Query(
                largest(
                    10,
                    share(
                        rate(_own(counts, chat, 'agenteval_status="error"'), "gen_ai_request_model"),
                        rate(_own(counts, chat), "gen_ai_request_model"),
                    ),
                ),
                "{{gen_ai_request_model}}",
            ),
            unit="percentunit",
            largest=1,
            links=_PAGES,
        ),
    )


def _trust() -> Row:
    outcomes = _own(_OUTCOMES)
    return "Can I trust the scores?", (
        trend(
            "Evaluations by what came of them",
            "Evaluations per second. Only scored ones say anything of quality; the others say why there is no score.",
            Query(rate(outcomes, EVALUATOR, "agenteval_status"), f"{label(EVALUATOR)}: {{{{agenteval_status}}}}"),
            unit="cps",
        ),
        coverage(_own, (EVALUATOR,)),
    )


def _sessions(which: str) -> str:
    """Return the selector of the agent's sessions; those that are active are counted once, not by evaluator."""
    evaluator = f'{EVALUATOR}=""' if which == "active" else f'{EVALUATOR}!=""'
    return _series_of_agent(f"agenteval_sessions_{which}", evaluator)


def _by_version(name: str, *matchers: str) -> str:
    return _series_of_agent(name, f'{VERSION}=~"$version"', *matchers)


def _series_of_agent(name: str, *matchers: str) -> str:
    """Return the selector of a figure that is known of the agent whatever its environment."""
    return Series(_AGENT)(name, *matchers)
