"""Assembly: requests come in, in the order of the log. Complete traces go on to the evaluation, spans to live
detection."""

from agenteval_collector.assembly.assembler import Assembler
from agenteval_collector.assembly.ports import KeptRequests
from agenteval_collector.assembly.restoring import reassemble
from agenteval_collector.assembly.senders import Senders
from agenteval_collector.assembly.stage import AssemblyStage, Progress
from agenteval_collector.assembly.unconnected import Unconnected

__all__ = [
    "Assembler",
    "AssemblyStage",
    "KeptRequests",
    "Progress",
    "Senders",
    "Unconnected",
    "reassemble",
]
