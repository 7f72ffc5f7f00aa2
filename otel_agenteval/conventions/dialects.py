"""The dialects that are read, the one that is believed first standing first."""

from collections.abc import Collection, Sequence

from otel_agenteval.agent_names import agent_of
from otel_agenteval.conventions.crewai import CrewAI
from otel_agenteval.conventions.facts import Dialect, SpanFacts
from otel_agenteval.conventions.google_adk import GoogleADK
from otel_agenteval.conventions.langfuse import Langfuse
from otel_agenteval.conventions.litellm import LiteLLM
from otel_agenteval.conventions.logfire import Logfire
from otel_agenteval.conventions.mlflow import MLflow
from otel_agenteval.conventions.openai_agents import OpenAIAgents
from otel_agenteval.conventions.openinference import OpenInference
from otel_agenteval.conventions.openlit import OpenLIT
from otel_agenteval.conventions.otel_events import OtelEvents
from otel_agenteval.conventions.otel_genai import OtelGenAI
from otel_agenteval.conventions.pydantic_ai import PydanticAI
from otel_agenteval.conventions.span_values import LogRecord, SpanRecord
from otel_agenteval.conventions.traceloop import Traceloop
from otel_agenteval.conventions.vercel_ai import VercelAI

DIALECTS: tuple[Dialect, ...] = (
    CrewAI(),
    LiteLLM(),
    Traceloop(),
    OpenAIAgents(),
    OtelGenAI(),
    OtelEvents(),
    OpenLIT(),
    GoogleADK(),
    OpenInference(),
    PydanticAI(),
    Logfire(),
    Langfuse(),
    MLflow(),
    VercelAI(),
)


# What other dialects stand beside: with one of those, its own switch is the right one.
_COMMON = frozenset({CrewAI.name, OtelGenAI.name, OtelEvents.name})


def content_switch(names: Collection[str]) -> str | None:
    """What to do for a trace that was read by the dialects `names` and lacks content; None without any."""
    own = [each for each in DIALECTS if each.name in names and each.name not in _COMMON]
    known = own or [each for each in DIALECTS if each.name in names]
    return known[0].content_switch if known else None


def read_span(span: SpanRecord, logs: Sequence[LogRecord] = ()) -> tuple[SpanFacts | None, tuple[str, ...]]:
    """The facts of a span and the names of the dialects that recognised it; None where none did.

    Where a span speaks several dialects, each fact is taken from the first that knows it.
    """
    facts: SpanFacts | None = None
    names: tuple[str, ...] = ()
    for dialect in DIALECTS:
        if dialect.recognises(span, logs):
            names += (dialect.name,)
            more = dialect.read(span, logs)
            if facts is None:
                facts = more
            else:
                facts.complete_with(more)
    if facts is not None:
        facts.agent = agent_of(span.name, span.attributes, span.scope)
    return facts, names
