"""From requests in the order of the log to complete traces."""

from agenteval_collector.assembly.assembler import Assembler
from agenteval_collector.assembly.completion import Waits
from agenteval_collector.assembly.restoring import KnownTrace, Reload, reassemble
from agenteval_collector.assembly.senders import SenderRules, Senders
from agenteval_collector.assembly.stage import AssemblyStage

__all__ = ["Assembler", "AssemblyStage", "KnownTrace", "Reload", "SenderRules", "Senders", "Waits", "reassemble"]
