"""The settings. They have types, are frozen, and are checked at the start. Their defaults are in this package alone.

The sources are the defaults, a YAML file, `AGENTEVAL_*` environment variables (`__` between levels), and command-line
flags. Each source wins over those before it. A key that does not exist is an error that names the key.
"""

from agenteval_collector.config.evaluators import (
    DEFAULT_CONSTRAINTS,
    ConstraintConfig,
    EmbeddingConfig,
    EvaluatorConfig,
    EvaluatorsConfig,
    JudgedConfig,
    SafetyConfig,
)
from agenteval_collector.config.findings import FindingConfig, FindingsConfig
from agenteval_collector.config.judge import NO_JUDGE, BudgetConfig, RubricConfig
from agenteval_collector.config.keys import KeyConfig, digest_of
from agenteval_collector.config.settings import AssemblyConfig, ProcessRole, SenderConfig, ServerConfig, Settings
from agenteval_collector.config.sources import ConfigError, load, load_keys
from agenteval_collector.config.values import PriceConfig, Section

__all__ = [
    "DEFAULT_CONSTRAINTS",
    "NO_JUDGE",
    "AssemblyConfig",
    "BudgetConfig",
    "ConfigError",
    "ConstraintConfig",
    "EmbeddingConfig",
    "EvaluatorConfig",
    "EvaluatorsConfig",
    "FindingConfig",
    "FindingsConfig",
    "JudgedConfig",
    "KeyConfig",
    "PriceConfig",
    "ProcessRole",
    "RubricConfig",
    "SafetyConfig",
    "Section",
    "SenderConfig",
    "ServerConfig",
    "Settings",
    "digest_of",
    "load",
    "load_keys",
]
