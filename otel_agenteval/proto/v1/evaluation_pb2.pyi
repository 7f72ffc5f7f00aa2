from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DeleteRequest(_message.Message):
    __slots__ = ["author", "before_unix_nano", "deletion_id", "session_id", "user_id"]
    AUTHOR_FIELD_NUMBER: _ClassVar[int]
    BEFORE_UNIX_NANO_FIELD_NUMBER: _ClassVar[int]
    DELETION_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    USER_ID_FIELD_NUMBER: _ClassVar[int]
    author: str
    before_unix_nano: int
    deletion_id: str
    session_id: str
    user_id: str
    def __init__(self, session_id: _Optional[str] = ..., user_id: _Optional[str] = ..., before_unix_nano: _Optional[int] = ..., deletion_id: _Optional[str] = ..., author: _Optional[str] = ...) -> None: ...

class Document(_message.Message):
    __slots__ = ["json"]
    JSON_FIELD_NUMBER: _ClassVar[int]
    json: bytes
    def __init__(self, json: _Optional[bytes] = ...) -> None: ...

class EndSessionRequest(_message.Message):
    __slots__ = ["session_id"]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    def __init__(self, session_id: _Optional[str] = ...) -> None: ...

class EndSessionResponse(_message.Message):
    __slots__ = ["known"]
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    known: bool
    def __init__(self, known: bool = ...) -> None: ...

class Finding(_message.Message):
    __slots__ = ["agent", "found_at_unix_nano", "kind", "metadata_json", "mode", "reason", "session_id", "severity", "span_id", "tool", "trace_id", "turn"]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    FOUND_AT_UNIX_NANO_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    METADATA_JSON_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    SEVERITY_FIELD_NUMBER: _ClassVar[int]
    SPAN_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    agent: str
    found_at_unix_nano: int
    kind: str
    metadata_json: bytes
    mode: str
    reason: str
    session_id: str
    severity: str
    span_id: str
    tool: str
    trace_id: str
    turn: int
    def __init__(self, kind: _Optional[str] = ..., severity: _Optional[str] = ..., mode: _Optional[str] = ..., session_id: _Optional[str] = ..., trace_id: _Optional[str] = ..., span_id: _Optional[str] = ..., turn: _Optional[int] = ..., agent: _Optional[str] = ..., tool: _Optional[str] = ..., reason: _Optional[str] = ..., found_at_unix_nano: _Optional[int] = ..., metadata_json: _Optional[bytes] = ...) -> None: ...

class JudgeTracesRequest(_message.Message):
    __slots__ = ["failed_since_unix_nano", "session_ids", "trace_ids"]
    FAILED_SINCE_UNIX_NANO_FIELD_NUMBER: _ClassVar[int]
    SESSION_IDS_FIELD_NUMBER: _ClassVar[int]
    TRACE_IDS_FIELD_NUMBER: _ClassVar[int]
    failed_since_unix_nano: int
    session_ids: _containers.RepeatedScalarFieldContainer[str]
    trace_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, trace_ids: _Optional[_Iterable[str]] = ..., failed_since_unix_nano: _Optional[int] = ..., session_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class JudgeTracesResponse(_message.Message):
    __slots__ = ["more", "traces"]
    MORE_FIELD_NUMBER: _ClassVar[int]
    TRACES_FIELD_NUMBER: _ClassVar[int]
    more: bool
    traces: int
    def __init__(self, traces: _Optional[int] = ..., more: bool = ...) -> None: ...

class LabelSessionRequest(_message.Message):
    __slots__ = ["author", "drawn", "name", "note", "session_id", "value"]
    AUTHOR_FIELD_NUMBER: _ClassVar[int]
    DRAWN_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    author: str
    drawn: bool
    name: str
    note: str
    session_id: str
    value: float
    def __init__(self, session_id: _Optional[str] = ..., name: _Optional[str] = ..., value: _Optional[float] = ..., author: _Optional[str] = ..., note: _Optional[str] = ..., drawn: bool = ...) -> None: ...

class LabelSessionResponse(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class LabelTraceRequest(_message.Message):
    __slots__ = ["author", "drawn", "name", "note", "trace_id", "value"]
    AUTHOR_FIELD_NUMBER: _ClassVar[int]
    DRAWN_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    author: str
    drawn: bool
    name: str
    note: str
    trace_id: str
    value: float
    def __init__(self, trace_id: _Optional[str] = ..., name: _Optional[str] = ..., value: _Optional[float] = ..., author: _Optional[str] = ..., note: _Optional[str] = ..., drawn: bool = ...) -> None: ...

class LabelTraceResponse(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class MuteProblemRequest(_message.Message):
    __slots__ = ["author", "problem_id", "until_unix_nano"]
    AUTHOR_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_ID_FIELD_NUMBER: _ClassVar[int]
    UNTIL_UNIX_NANO_FIELD_NUMBER: _ClassVar[int]
    author: str
    problem_id: str
    until_unix_nano: int
    def __init__(self, problem_id: _Optional[str] = ..., until_unix_nano: _Optional[int] = ..., author: _Optional[str] = ...) -> None: ...

class MuteProblemResponse(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class Outcome(_message.Message):
    __slots__ = ["coverage", "error_type", "evaluated_at_unix_nano", "evaluator_version", "metadata_json", "method", "model", "name", "part", "reason", "revision", "score", "session_id", "span_id", "status", "subject", "subject_id", "success", "threshold", "trace_id"]
    COVERAGE_FIELD_NUMBER: _ClassVar[int]
    ERROR_TYPE_FIELD_NUMBER: _ClassVar[int]
    EVALUATED_AT_UNIX_NANO_FIELD_NUMBER: _ClassVar[int]
    EVALUATOR_VERSION_FIELD_NUMBER: _ClassVar[int]
    METADATA_JSON_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    SPAN_ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_ID_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    coverage: float
    error_type: str
    evaluated_at_unix_nano: int
    evaluator_version: str
    metadata_json: bytes
    method: str
    model: str
    name: str
    part: str
    reason: str
    revision: int
    score: float
    session_id: str
    span_id: str
    status: str
    subject: str
    subject_id: str
    success: bool
    threshold: float
    trace_id: str
    def __init__(self, name: _Optional[str] = ..., subject: _Optional[str] = ..., subject_id: _Optional[str] = ..., session_id: _Optional[str] = ..., trace_id: _Optional[str] = ..., span_id: _Optional[str] = ..., status: _Optional[str] = ..., score: _Optional[float] = ..., success: bool = ..., threshold: _Optional[float] = ..., reason: _Optional[str] = ..., method: _Optional[str] = ..., coverage: _Optional[float] = ..., evaluator_version: _Optional[str] = ..., revision: _Optional[int] = ..., evaluated_at_unix_nano: _Optional[int] = ..., part: _Optional[str] = ..., model: _Optional[str] = ..., error_type: _Optional[str] = ..., metadata_json: _Optional[bytes] = ...) -> None: ...

class ReportFeedbackRequest(_message.Message):
    __slots__ = ["author", "name", "note", "session_id", "trace_id", "value"]
    AUTHOR_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    author: str
    name: str
    note: str
    session_id: str
    trace_id: str
    value: float
    def __init__(self, trace_id: _Optional[str] = ..., session_id: _Optional[str] = ..., name: _Optional[str] = ..., value: _Optional[float] = ..., author: _Optional[str] = ..., note: _Optional[str] = ...) -> None: ...

class ReportFeedbackResponse(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class ReportRunRequest(_message.Message):
    __slots__ = ["agent", "condition", "confidence", "reported_at_unix_nano", "run_id", "service_version", "session_id", "success", "task_id"]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    CONDITION_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    REPORTED_AT_UNIX_NANO_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    SERVICE_VERSION_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    agent: str
    condition: str
    confidence: float
    reported_at_unix_nano: int
    run_id: str
    service_version: str
    session_id: str
    success: bool
    task_id: str
    def __init__(self, task_id: _Optional[str] = ..., run_id: _Optional[str] = ..., condition: _Optional[str] = ..., success: bool = ..., confidence: _Optional[float] = ..., session_id: _Optional[str] = ..., agent: _Optional[str] = ..., service_version: _Optional[str] = ..., reported_at_unix_nano: _Optional[int] = ...) -> None: ...

class ReportRunResponse(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class ReportStartsRequest(_message.Message):
    __slots__ = ["all_open", "findings", "process_id", "service", "starts"]
    ALL_OPEN_FIELD_NUMBER: _ClassVar[int]
    FINDINGS_FIELD_NUMBER: _ClassVar[int]
    PROCESS_ID_FIELD_NUMBER: _ClassVar[int]
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    STARTS_FIELD_NUMBER: _ClassVar[int]
    all_open: bool
    findings: _containers.RepeatedCompositeFieldContainer[Finding]
    process_id: str
    service: str
    starts: _containers.RepeatedCompositeFieldContainer[SpanStart]
    def __init__(self, process_id: _Optional[str] = ..., service: _Optional[str] = ..., starts: _Optional[_Iterable[_Union[SpanStart, _Mapping]]] = ..., findings: _Optional[_Iterable[_Union[Finding, _Mapping]]] = ..., all_open: bool = ...) -> None: ...

class ReportStartsResponse(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class ResolveProblemRequest(_message.Message):
    __slots__ = ["author", "problem_id"]
    AUTHOR_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_ID_FIELD_NUMBER: _ClassVar[int]
    author: str
    problem_id: str
    def __init__(self, problem_id: _Optional[str] = ..., author: _Optional[str] = ...) -> None: ...

class ResolveProblemResponse(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class SpanStart(_message.Message):
    __slots__ = ["agent", "kind", "name", "parent_span_id", "session_id", "span_id", "started_at_unix_nano", "trace_id"]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARENT_SPAN_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    SPAN_ID_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_UNIX_NANO_FIELD_NUMBER: _ClassVar[int]
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    agent: str
    kind: str
    name: str
    parent_span_id: str
    session_id: str
    span_id: str
    started_at_unix_nano: int
    trace_id: str
    def __init__(self, trace_id: _Optional[str] = ..., span_id: _Optional[str] = ..., parent_span_id: _Optional[str] = ..., name: _Optional[str] = ..., kind: _Optional[str] = ..., session_id: _Optional[str] = ..., agent: _Optional[str] = ..., started_at_unix_nano: _Optional[int] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ["missed_seconds", "names", "process_id", "session_id"]
    MISSED_SECONDS_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    PROCESS_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    missed_seconds: float
    names: _containers.RepeatedScalarFieldContainer[str]
    process_id: str
    session_id: str
    def __init__(self, session_id: _Optional[str] = ..., names: _Optional[_Iterable[str]] = ..., process_id: _Optional[str] = ..., missed_seconds: _Optional[float] = ...) -> None: ...

class WatchResponse(_message.Message):
    __slots__ = ["finding", "lost", "outcome"]
    FINDING_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    finding: Finding
    lost: int
    outcome: Outcome
    def __init__(self, outcome: _Optional[_Union[Outcome, _Mapping]] = ..., finding: _Optional[_Union[Finding, _Mapping]] = ..., lost: _Optional[int] = ...) -> None: ...
