"""The conversations of the sample agents, read from `scripts.yaml` beside this module."""

from importlib.resources import files
from typing import Final

import yaml
from pydantic import TypeAdapter

from agenteval_collector.cli.demo_agents import Script

SCRIPTS: Final = TypeAdapter(tuple[Script, ...]).validate_python(
    yaml.safe_load(files(__package__).joinpath("scripts.yaml").read_text(encoding="utf-8"))
)
