"""Attribute and event names, each written once.

Names of the OpenTelemetry GenAI conventions are constants of our own here. The conventions package has them as
deprecated only, because they moved to a repository that has no release yet.
"""

from typing import Final

# Attributes that our processor adds to the exported copy of a span.
AGENTEVAL_SESSION_ID: Final = "agenteval.session.id"
AGENTEVAL_USER_ID: Final = "agenteval.user.id"
AGENTEVAL_TASK_ID: Final = "agenteval.task.id"
AGENTEVAL_RUN_ID: Final = "agenteval.run.id"
AGENTEVAL_CONDITION: Final = "agenteval.condition"
AGENTEVAL_PROCESS_ID: Final = "agenteval.process.id"
AGENTEVAL_SPAN_COUNT: Final = "agenteval.trace.span_count"
AGENTEVAL_DETECTORS: Final = "agenteval.detectors"
"""The version of the detectors beside the agent, on each span that they looked at. The collector need not look
again."""
AGENTEVAL_FINDINGS: Final = "agenteval.findings"
"""The loops that a span completed: a JSON list of `kind`, `mode`, `reason`, `agent`, `tool`, `metadata`."""

# Attributes that an application may set on any span of a run.
AGENTEVAL_RUN_SUCCESS: Final = "agenteval.run.success"
AGENTEVAL_RUN_CONFIDENCE: Final = "agenteval.run.confidence"
AGENTEVAL_EXPECTED_TOOLS: Final = "agenteval.expected_tools"
AGENTEVAL_EXPECTED_ANSWER: Final = "agenteval.expected_answer"

# Instrumentation scopes of our own: telemetry under them is never evaluated.
OWN_SCOPES: Final = ("otel_agenteval", "agenteval_collector")

# General conventions.
SERVICE_NAME: Final = "service.name"
SERVICE_VERSION: Final = "service.version"
DEPLOYMENT_ENVIRONMENT: Final = "deployment.environment.name"
LEGACY_DEPLOYMENT_ENVIRONMENT: Final = "deployment.environment"
SESSION_ID: Final = "session.id"
USER_ID: Final = "user.id"
ENDUSER_ID: Final = "enduser.id"
ERROR_TYPE: Final = "error.type"
EXCEPTION_EVENT: Final = "exception"
EXCEPTION_TYPE: Final = "exception.type"
EXCEPTION_MESSAGE: Final = "exception.message"

# GenAI conventions: identity.
GEN_AI_OPERATION_NAME: Final = "gen_ai.operation.name"
GEN_AI_PROVIDER_NAME: Final = "gen_ai.provider.name"
GEN_AI_CONVERSATION_ID: Final = "gen_ai.conversation.id"
GEN_AI_AGENT_VERSION: Final = "gen_ai.agent.version"
GEN_AI_AGENT_NAME: Final = "gen_ai.agent.name"
GEN_AI_REQUEST_MODEL: Final = "gen_ai.request.model"
GEN_AI_RESPONSE_MODEL: Final = "gen_ai.response.model"
GEN_AI_RESPONSE_ID: Final = "gen_ai.response.id"

# GenAI conventions: content.
GEN_AI_INPUT_MESSAGES: Final = "gen_ai.input.messages"
GEN_AI_OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
GEN_AI_SYSTEM_INSTRUCTIONS: Final = "gen_ai.system_instructions"
GEN_AI_TOOL_DEFINITIONS: Final = "gen_ai.tool.definitions"
GEN_AI_TOOL_NAME: Final = "gen_ai.tool.name"
GEN_AI_TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
GEN_AI_TOOL_CALL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
GEN_AI_TOOL_CALL_RESULT: Final = "gen_ai.tool.call.result"
GEN_AI_INFERENCE_DETAILS_EVENT: Final = "gen_ai.client.inference.operation.details"
GEN_AI_OPERATION_EXCEPTION_EVENT: Final = "gen_ai.client.operation.exception"

# GenAI conventions: usage.
GEN_AI_USAGE_INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
GEN_AI_USAGE_OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
GEN_AI_TOKEN_TYPE: Final = "gen_ai.token.type"

# The evaluation event that leaves, and its attributes.
GEN_AI_EVALUATION_RESULT_EVENT: Final = "gen_ai.evaluation.result"
GEN_AI_EVALUATION_NAME: Final = "gen_ai.evaluation.name"
GEN_AI_EVALUATION_SCORE_VALUE: Final = "gen_ai.evaluation.score.value"
GEN_AI_EVALUATION_SCORE_LABEL: Final = "gen_ai.evaluation.score.label"
GEN_AI_EVALUATION_EXPLANATION: Final = "gen_ai.evaluation.explanation"
AGENTEVAL_SUBJECT: Final = "agenteval.subject"
AGENTEVAL_METHOD: Final = "agenteval.evaluation.method"
AGENTEVAL_STATUS: Final = "agenteval.status"
AGENTEVAL_PART: Final = "agenteval.part"
AGENTEVAL_COVERAGE: Final = "agenteval.evaluation.coverage"
AGENTEVAL_THRESHOLD: Final = "agenteval.evaluation.threshold"
AGENTEVAL_REVISION: Final = "agenteval.evaluation.revision"
AGENTEVAL_EVALUATOR_VERSION: Final = "agenteval.evaluator.version"
AGENTEVAL_EVALUATOR_MODEL: Final = "agenteval.evaluator.model"
AGENTEVAL_SERVICE_NAME: Final = "agenteval.service.name"
AGENTEVAL_SERVICE_VERSION: Final = "agenteval.service.version"
AGENTEVAL_DEPLOYMENT_ENVIRONMENT: Final = "agenteval.deployment.environment.name"
AGENTEVAL_EVENT_ID: Final = "agenteval.event.id"
AGENTEVAL_FINDING_KIND: Final = "agenteval.finding.kind"
AGENTEVAL_FINDING_SEVERITY: Final = "agenteval.finding.severity"
AGENTEVAL_WORST: Final = "agenteval.worst"
AGENTEVAL_LOOP_KIND: Final = "agenteval.loop.kind"
AGENTEVAL_LOOP_MODE: Final = "agenteval.loop.mode"
AGENTEVAL_JUDGE_QUESTION: Final = "agenteval.judge.question"
AGENTEVAL_JUDGE_BUDGET: Final = "agenteval.judge.budget"
AGENTEVAL_RESULT: Final = "agenteval.result"
AGENTEVAL_RELIABILITY_METRIC: Final = "agenteval.reliability.metric"
AGENTEVAL_PROBLEM_STATE: Final = "agenteval.problem.state"
AGENTEVAL_PROBLEM_SEVERITY: Final = "agenteval.problem.severity"
AGENTEVAL_ALARM_ID: Final = "agenteval.alarm.id"
AGENTEVAL_ALARM_KIND: Final = "agenteval.alarm.kind"
AGENTEVAL_ALARM_SEVERITY: Final = "agenteval.alarm.severity"
AGENTEVAL_ALARM_OWNER: Final = "agenteval.alarm.owner"
AGENTEVAL_ALARM_TITLE: Final = "agenteval.alarm.title"
AGENTEVAL_ALARM_EVIDENCE: Final = "agenteval.alarm.evidence"
AGENTEVAL_OBJECTIVE: Final = "agenteval.objective"
AGENTEVAL_ESTIMATOR: Final = "agenteval.estimator"
AGENTEVAL_TENANT: Final = "agenteval.tenant"
