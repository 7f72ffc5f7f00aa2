"""The rules of the loop detectors, from the settings."""

from agenteval_collector.config import DetectorsConfig, LoopsConfig, RepetitionConfig
from otel_agenteval.detectors import Budget, HungSpan, Repetition, RuleBook, Rules


def rule_book(loops: LoopsConfig) -> RuleBook:
    """The rules that the settings ask for."""
    return RuleBook(default=_rules(loops), agents={name: _rules(own) for name, own in loops.agents.items()})


def _rules(config: DetectorsConfig) -> Rules:
    budget = config.budget
    return Rules(
        identical_call=_repetition(config.identical_call),
        cycle=_repetition(config.cycle),
        no_progress=_repetition(config.no_progress),
        error_storm=_repetition(config.error_storm),
        repeated_output=_repetition(config.repeated_output),
        hung_span=HungSpan(mode=config.hung_span.mode, after=config.hung_span.after),
        budget=Budget(mode=budget.mode, steps=budget.steps, tokens=budget.tokens, seconds=budget.seconds),
    )


def _repetition(config: RepetitionConfig) -> Repetition:
    return Repetition(mode=config.mode, repeats=config.repeats)
