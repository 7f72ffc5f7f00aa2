"""The outcome of a tool call: whether it worked, failed, found nothing, was refused or cancelled, or still waits.

Frameworks, shells, HTTP clients, clouds and people word outcomes in their own forms. The forms of texts are rows of
`call_forms.toml`, the fields of objects are the tables below, each with where it comes from. What no table knows is a
result: the call worked.

A result may rightly speak of errors: a file, a log, a page, a job that was asked about. So the result of a tool that
returns content is a failure only if its form leaves no doubt, and an object that repeats an argument of the call
describes the thing that was asked about. Everything is bounded, and takes time in proportion to what is looked at.
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

from otel_agenteval.detectors.call_envelopes import unwrapped
from otel_agenteval.detectors.tool_names import ToolName, tool_name
from otel_agenteval.model import CallOutcome, Json

MOST: Final = 600
"""Characters at the beginning of a text, and at its end, that are looked at. As many values of an object are."""
SHORT: Final = 400
"""Characters that a text has at most if it is an error message as a whole. A longer one may be content."""


class OutcomeReading(NamedTuple):
    """What came of a call, what tells so, and the words of the error or the state, if there are any."""

    outcome: CallOutcome
    told_by: str | None = None
    words: str | None = None

    @property
    def error(self) -> str | None:
        """The error of a call that failed; None for any other outcome."""
        return (self.words or "error") if self.outcome is CallOutcome.FAILED else None


UNRECORDED: Final = OutcomeReading(CallOutcome.UNKNOWN)
RESULT: Final = OutcomeReading(CallOutcome.WORKED, "result")
EMPTY: Final = OutcomeReading(CallOutcome.NOTHING, "empty result")


def outcome_of(tool: str, arguments: Json, result: Json) -> OutcomeReading:
    """Return what a result says of a call of `tool`. Never raises, whatever it is given."""
    if result is None:
        return UNRECORDED
    value, says_failed = unwrapped(result)
    if says_failed:
        return _failure(first_text(value), "field isError")
    if isinstance(value, str):
        return _of_text(tool, arguments, value)
    if isinstance(value, dict):
        return _of_object(tool, arguments, value)
    if value in ([], None):
        return EMPTY
    return _of_list(value) if isinstance(value, list) else RESULT


# --- objects: fields, without separators and in lower case -----------------------------------------------------------

Fields = Mapping[str, Json]

_ERRORS: Final[Mapping[str, str]] = {
    "error": "JSON-RPC 2.0, Google ADK, OpenAI, Stripe, most REST services",
    "errors": "JSON:API, GraphQL",
    "errormessage": "AWS Lambda, SOAP bridges",
    "errormessages": "Jira",
    "errmsg": "MongoDB, WeChat",
    "errordescription": "OAuth 2.0 (RFC 6749)",
    "errordetails": "Google APIs",
    "exception": "Java services, Salesforce",
    "exceptionmessage": "ASP.NET",
    "traceback": "Jupyter, Celery",
    "stacktrace": "Java services",
    "fault": "SOAP, Apigee",
    "faultstring": "SOAP 1.1",
    "nonfielderrors": "Django REST framework",
    "validationerrors": "FluentValidation",
    "fielderrors": "Spring",
    "toolerror": "bridges of LlamaIndex and Semantic Kernel",
    "lasterror": "job queues",
    **dict.fromkeys(
        ("fehler", "erreur", "errore", "erro", "fout", "fel", "feil", "virhe", "blad", "błąd", "chyba", "hata", "hiba"),
        "services in other languages",
    ),
    **dict.fromkeys(("ошибка", "错误", "錯誤", "エラー", "오류", "خطأ"), "services in other languages"),
}
"""Fields that hold an error, and whose form it is."""
_SAYS_NO_ERROR: Final = frozenset(("", "0", "false", "n/a", "nil", "no error", "none", "null", "ok", "success"))
_WORKED_IF: Final[Mapping[str, bool]] = {
    **dict.fromkeys(("success", "successful", "succeeded", "ok", "issuccess", "issuccessful"), True),
    **dict.fromkeys(("sucesso", "éxito", "exito", "succès", "succes", "successo", "erfolg", "erfolgreich"), True),
    **dict.fromkeys(("başarılı", "sukces", "úspěch", "успех", "успешно", "成功", "성공"), True),
    **dict.fromkeys(("iserror", "haserror", "haserrors", "failed", "isfailure", "failure"), False),
}
"""Fields that say by true or false whether the call worked."""
_REFUSED_IF: Final = ("blocked", "denied", "rejected", "refused")
"""Fields by which guardrails say that they did not let a call happen."""
_EXIT_CODES: Final = frozenset(
    ("exitcode", "exitstatus", "returncode", "retcode", "rc", "exit", "processexitcode", "exitvalue", "returnvalue")
)
_HTTP_CODES: Final = ("statuscode", "httpstatus", "httpcode", "httpstatuscode", "responsecode")
_OF_RESPONSES: Final = frozenset(
    ("body", "headers", "title", "detail", "type", "message", "error", "errors", "reason", "msg")
)
_CODES: Final = ("code", "cod", "errcode", "errorcode", "errno", "errornumber")
_STATUSES: Final = ("status", "state", "outcome", "result", "resulttype", "type", "level")
_STATES_OF_THINGS: Final = ("status", "state")
_MESSAGES: Final = (
    *("error", "errormessage", "message", "errmsg", "msg", "detail", "details", "description", "errordescription"),
    *("exception", "reason", "title", "stderr", "output", "faultstring", "errors", "body", "text", "content"),
    *("mensagem", "mensaje", "messaggio", "meldung", "nachricht", "bericht", "komunikat", "mesaj", "сообщение"),
    *("消息", "信息", "メッセージ", "메시지", "رسالة"),
)
"""Fields that hold the words of an error, the best first."""
_STREAMS: Final = ("stderr", "error", "message", "output", "stdout", "result", "content", "text")
_SHOWN: Final = ("stdout", "output", "result", "content", "text", "response")
_ABOUT_THE_CALL: Final = ("metadata", "meta", "execution", "process", "status", "info", "details")
"""Objects beside the output that may hold its exit code."""
_OF_REPORTS: Final = ["requestid", "traceid", "trace", "logid", "errorid", "timestamp", "path", "success", "ok", "hint"]
_REPORTS: Final = frozenset((*_MESSAGES, *_CODES, *_STATUSES, *_OF_REPORTS))
"""Fields that tell about a call; all others are data."""
_ERROR_CODE: Final = re.compile(
    r"error|exception|invalid|denied|not_?found|forbidden|unauthori[sz]ed|expired|exceeded|unavailable|failed|throttl"
    r"|^E[A-Z]{4,}$|^(?!00)\d\d[0-9A-Z]{3}$|^PGRST",  # errno, SQLSTATE, PostgREST
    re.IGNORECASE,
)
_DENIES: Final = re.compile(
    r"\b(?:not|no|can't|cannot|could not|couldn't|unable|failed|invalid|missing|required|denied|expired|exceeded|error"
    r"|forbidden|unauthori[sz]ed|unknown|unsupported|wrong|incorrect|unavailable|rejected)\b",
    re.IGNORECASE,
)
_FEW: Final = 4
"""Fields that the report of a call has at most. An object with more is a thing, and its state that of the thing."""
_PROBES: Final = frozenset(("probe", "ping", "monitor", "status", "head"))


class _Object(NamedTuple):
    """The result of a call that is an object. `describes`: it repeats an argument, so it is the thing asked about."""

    name: ToolName
    tool: str
    arguments: Json
    fields: Fields
    describes: bool

    @property
    def looks(self) -> bool:
        """True if the tool reads or searches."""
        return self.name.reads or self.name.searches


def _of_object(tool: str, arguments: Json, result: Mapping[str, Json]) -> OutcomeReading:
    fields = {_plain(key): value for key, value in list(result.items())[:100]}
    parsed = _Object(tool_name(tool), tool, arguments, fields, _repeats_an_argument(arguments, result))
    return next((reading for read in _EXTRACTORS if (reading := read(parsed)) is not None), RESULT)


def _by_exit_code(call: _Object) -> OutcomeReading | None:
    inner = (value for key in _ABOUT_THE_CALL if isinstance(value := call.fields.get(key), dict))
    for fields in (call.fields, *({_plain(key): item for key, item in list(value.items())[:50]} for value in inner)):
        for key in _EXIT_CODES & fields.keys():
            if (code := _whole_number(fields[key])) is not None:
                is_silent = not any(
                    isinstance(text := call.fields.get(stream), str) and text.strip() for stream in _STREAMS
                )
                return _of_exit_code(code, call.arguments, _message(call.fields, _STREAMS), is_silent=is_silent)
    return None


def _by_error(call: _Object) -> OutcomeReading | None:
    """Read a field for errors. The result of a tool that is about errors may have one, too."""
    if not _words("about_errors").isdisjoint(call.name.words):
        return None
    for key in _ERRORS:
        # What a tool finds wrong with what it looked at is its verdict.
        is_verdict = key == "errors" and call.name.judges
        # An error message beside other data is that of the thing that was read, such as a job.
        has_own = call.describes and not call.fields.keys().isdisjoint(_STATES_OF_THINGS)
        is_of_thing = call.looks and (has_own if key == "error" else _has_data(call.fields, but=_ERRORS))
        if key in call.fields and not (is_verdict or is_of_thing) and _holds_error(call.fields[key], call.fields):
            return _failure(_message(call.fields), f"field {key}")
    # FastAPI has them under `detail`.
    if isinstance(details := call.fields.get("detail"), list) and details and not call.name.judges:
        return _of_list(details)
    if (inner := _errors_inside(call.fields)) is not None:
        return OutcomeReading(CallOutcome.FAILED, f"field {inner[0]}", inner[1])
    return None


def _by_flag(call: _Object) -> OutcomeReading | None:
    if call.name.judges:
        return None
    if not call.looks and not call.describes and any(call.fields.get(key) is True for key in _REFUSED_IF):
        return OutcomeReading(CallOutcome.REFUSED, "field blocked", _message(call.fields))
    for key, good in _WORKED_IF.items():
        state = _truth(call.fields.get(key))
        if state is not None and state is not good and not (key == "failed" and call.describes):
            return _failure(_message(call.fields), f"field {key}")
    return None


def _by_http_status(call: _Object) -> OutcomeReading | None:
    if call.name.judges or not _PROBES.isdisjoint(call.name.words):
        return None
    for key in (*_HTTP_CODES, "status", "code"):
        code = _whole_number(call.fields.get(key))
        if code is not None and 200 <= code <= 299 and "body" in call.fields:
            return OutcomeReading(CallOutcome.WORKED, f"HTTP status {code}")
        # A bare `status` or `code` needs something beside it that a response of HTTP has.
        if code is None or not 400 <= code <= 599 or not (key in _HTTP_CODES or _OF_RESPONSES & call.fields.keys()):
            continue
        if call.describes and not {"error", "message"} & call.fields.keys():
            return None
        words = _message(call.fields)
        return OutcomeReading(
            CallOutcome.FAILED, f"HTTP status {code}", f"{code} {words}" if words else f"HTTP status {code}"
        )
    return None


def _by_state(call: _Object) -> OutcomeReading | None:
    for key in _STATUSES:
        value = call.fields.get(key)
        if isinstance(value, dict):
            value = value.get("state")  # A2A
        if not isinstance(value, str) or len(value) > 32:
            continue
        outcome = _states().get(_plain(value))
        if outcome is None or (call.name.judges and outcome is not CallOutcome.WAITING):
            continue
        is_report = len(call.fields) <= _FEW and not call.describes
        if outcome is CallOutcome.FAILED and call.looks and not _is_failed_look(call.fields, value):
            is_report = False
        is_handle = outcome is CallOutcome.WAITING and len(call.fields) <= 2 * _FEW and _is_handle(call.fields)
        is_kubernetes = call.fields.get("kind") == "Status"
        if is_report or ((is_handle or is_kubernetes) and not call.describes):
            return OutcomeReading(outcome, f"field {key}", _message(call.fields))
    return None


def _by_code(call: _Object) -> OutcomeReading | None:
    """Read `{"code": 40001, "msg": ..., "data": null}`: a code that is no success, words, and no data."""
    words = None if _has_data(call.fields, but=_CODES) else _message(call.fields, (*_MESSAGES, *_CODES))
    if words is None or words.strip().lower() in _SAYS_NO_ERROR:
        return None
    for key in _CODES:
        value = call.fields.get(key)
        code = _whole_number(value)
        is_error = isinstance(value, str) and (key.startswith("err") or _ERROR_CODE.search(value) is not None)
        if is_error or (code is not None and code not in (0, 1, 200, 201, 202, 204)):
            return OutcomeReading(CallOutcome.FAILED, f"field {key}", words)
    return None


def _by_message(call: _Object) -> OutcomeReading | None:
    """Read an object that has nothing but a text, and perhaps a state or a code."""
    is_state = call.looks and not call.fields.keys().isdisjoint(_STATUSES)
    if call.describes or is_state or len(call.fields) > _FEW - 1 or _has_data(call.fields):
        return None
    if (text := _message(call.fields)) is None:
        return None
    reading = _of_text(call.tool, call.arguments, text)
    if reading.outcome is CallOutcome.WORKED and call.fields.keys() <= _REPORTS and _DENIES.search(text[:MOST]):
        return (
            OutcomeReading(CallOutcome.FAILED, "message", text) if call.fields.keys() & {"detail", "message"} else None
        )
    return None if reading.outcome is CallOutcome.WORKED else reading


def _by_emptiness(call: _Object) -> OutcomeReading | None:
    """Find that all lists are empty and all counts are 0."""
    has_empty, has_full = _lists_in(call.fields)
    if has_full:
        return None
    counts = [value for key, value in call.fields.items() if key in _words("counts") and isinstance(value, int)]
    has_only_nothing = not any(call.fields.values()) and (
        [] in call.fields.values() or (call.looks and 0 in call.fields.values())
    )
    is_empty = has_only_nothing or (has_empty and (call.looks or len(call.fields) <= _FEW))
    return EMPTY if not call.fields or is_empty or (call.looks and counts and not any(counts)) else None


def _by_output(call: _Object) -> OutcomeReading | None:
    """Read what a program printed, if its exit code is not known."""
    if len(call.fields) > _FEW or (text := _message(call.fields, _SHOWN)) is None:
        return None
    reading = _of_text(call.tool, call.arguments, text)
    return None if reading.outcome in (CallOutcome.WORKED, CallOutcome.NOTHING, CallOutcome.WAITING) else reading


_EXTRACTORS: Final[Sequence[Callable[[_Object], OutcomeReading | None]]] = (
    *(_by_exit_code, _by_error, _by_flag, _by_http_status, _by_state, _by_code, _by_message, _by_emptiness),
    _by_output,
)
"""In the order of trust."""


def _of_list(items: list[Json]) -> OutcomeReading:
    """Read a list: that of Salesforce, Zod and Pydantic holds errors, each with a code or a place, and words."""
    first = items[0]
    if len(items) > _FEW or not isinstance(first, dict):
        return RESULT
    fields = {_plain(key): value for key, value in list(first.items())[:50]}
    words = _message(fields)
    has_place = bool(fields.keys() & {"path", "loc"}) and bool(fields.keys() & {"code", "type"})
    has_code = any(key.startswith("err") for key in fields) and not _has_data(fields, but={"fields"})
    is_error = first.get("is_error") is True or first.get("isError") is True
    if is_error or (words is not None and (has_place or has_code)):
        return OutcomeReading(CallOutcome.FAILED, "list of errors", words)
    return RESULT


def _failure(words: str | None, told_by: str) -> OutcomeReading:
    """Return a failure, or what its words say instead: that somebody refused, cancelled, or has to answer first."""
    for form, pattern in _forms().begins:
        is_other = form.is_certain and form.outcome is not CallOutcome.FAILED
        if words is not None and is_other and pattern.match(words[:MOST]):
            return OutcomeReading(form.outcome, told_by, words)
    return OutcomeReading(CallOutcome.FAILED, told_by, words)


def _plain(key: str) -> str:
    return _plain_key(key) if len(key) <= 64 else key[:64]


@lru_cache(maxsize=4096)
def _plain_key(key: str) -> str:
    return "".join(letter for letter in key.lower() if letter.isalnum())


def _holds_error(value: Json, fields: Fields = {}) -> bool:  # noqa: B006
    """Return whether the value of a field for errors is one. A number may be a count or a measure, such as an error
    rate: it is an error if it is a code of three digits, or words of it stand in another of `fields`."""
    if isinstance(value, str):
        return value.strip().lower() not in _SAYS_NO_ERROR
    if isinstance(value, dict):
        # `{"code": 0}` and `{"message": ""}` are no errors.
        return any(_holds_error(item, {"message": "inside"}) for item in list(value.values())[:50])
    if isinstance(value, list):
        return any(_holds_error(item) for item in value[:50])
    if isinstance(value, bool):
        return value
    return isinstance(value, int) and (value >= 100 or (value != 0 and _message(fields) is not None))


def _errors_inside(fields: Fields) -> tuple[str, str | None] | None:
    """Return the name and the words of a list of errors that is not at the top, such as `userErrors` of GraphQL."""
    pending = [(value, 3) for value in fields.values()]
    for _ in range(MOST):
        if not pending:
            break
        value, depth = pending.pop()
        if not isinstance(value, dict) or not depth:
            continue
        for key, inner in list(value.items())[:50]:
            name = _plain(key)
            is_list = isinstance(inner, list) and bool(inner) and isinstance(inner[0], dict)
            if is_list and name.endswith("errors") and name != "errors":
                return name, first_text(inner)
            pending.append((inner, depth - 1))
    return None


def _lists_in(fields: Fields) -> tuple[bool, bool]:
    """Return whether an object has an empty list of answers, at any depth, and whether it has a list that is not
    empty."""
    pending = [(key, value, 3) for key, value in fields.items()]
    has_empty = False
    for _ in range(MOST):
        if not pending:
            break
        key, value, depth = pending.pop()
        if isinstance(value, list):
            if value:
                return has_empty, True
            is_about_errors = key in _ERRORS or key.endswith(("errors", "warnings"))
            is_of_answers = len(fields) == 1 or key in _words("answers") or key.endswith("s")
            has_empty = has_empty or (not is_about_errors and is_of_answers)
        elif isinstance(value, dict) and depth:
            pending += [(_plain(name), item, depth - 1) for name, item in list(value.items())[:50]]
    return has_empty, False


def _truth(value: Json) -> bool | None:
    if isinstance(value, str):
        return {"true": True, "yes": True, "false": False, "no": False}.get(value.strip().lower())
    return bool(value) if isinstance(value, int | float) and value in (0, 1) else None


def _whole_number(value: Json) -> int | None:
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,10}", value.strip()):
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _is_failed_look(fields: Fields, state: Json) -> bool:
    """Return whether an object with a state is a report of a tool that reads or searches, and not what it read. Only
    two forms are beyond doubt: that of Google ADK, and an error with its message."""
    return fields.keys() == {"status", "errormessage"} or (
        fields.keys() == {"status", "message"} and str(state).lower() == "error"
    )


def _is_handle(fields: Fields) -> bool:
    """Return whether an object is what is given for work that goes on: an id to ask with, a place in a queue."""
    return any(key.endswith(("id", "url", "token", "position", "eta", "after")) for key in fields)


def _has_data(fields: Fields, but: Iterable[str] = ()) -> bool:
    return any(
        value not in (None, "", [], {}) for key, value in fields.items() if key not in _REPORTS and key not in but
    )


def _message(fields: Fields, keys: Sequence[str] = _MESSAGES) -> str | None:
    return next((text for key in keys if (text := first_text(fields.get(key))) is not None), None)


def first_text(value: Json, depth: int = 3) -> str | None:
    """Return the first words in a value, those of a field for messages before others. None if it has no words."""
    if isinstance(value, str):
        return value.strip() or None
    if depth and isinstance(value, dict):
        fields = {_plain(key): item for key, item in list(value.items())[:50]}
        value = [fields[key] for key in (*_MESSAGES, *fields) if key in fields]
    if depth and isinstance(value, list):
        return next((text for item in value[:80] if (text := first_text(item, depth - 1)) is not None), None)
    return None


def _repeats_an_argument(arguments: Json, result: Mapping[str, Json]) -> bool:
    """Return whether an object has a value that the call was given."""
    if not isinstance(arguments, dict):
        return False
    identities = {repr(value) for value in list(arguments.values())[:20] if _identifies(value)}
    if not identities:
        return False
    values = (value for key, value in list(result.items())[:50] if _plain(key) not in _REPORTS)
    return any(_identifies(value) and repr(value) in identities for value in values)


def _identifies(value: Json) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool) and value != ""


# --- exit codes ------------------------------------------------------------------------------------------------------

_JUDGING_SUBCOMMANDS: Final = re.compile(
    r"\b(?:git\s+(?:diff|grep|merge-base|ls-files|show-ref|rev-parse)|go\s+(?:test|vet)|cargo\s+(?:test|clippy|check)"
    r"|(?:npm|pnpm|yarn)\s+(?:run\s+)?(?:test|lint|outdated)|make\s+(?:test|check|lint)|dotnet\s+test|terraform\s+plan"
    r"|python3?\s+-m\s+(?:pytest|unittest|mypy|doctest)|mvn\s+(?:-\S+\s+)*(?:test|verify)|gradlew?\s+(?:test|check)"
    r"|kubectl\s+(?:diff|auth)|docker\s+inspect)\b"
)
_COMMANDS: Final = ("command", "cmd", "bash_command", "shell_command", "script", "code", "input", "args", "argv")


def _of_exit_code(code: int, arguments: Json, words: str | None, *, is_silent: bool) -> OutcomeReading:
    """Read an exit code. 1 is a verdict of commands that judge; of unknown ones, if nothing was printed."""
    if code == 0:
        return OutcomeReading(CallOutcome.WORKED, "exit code 0")
    command = _command(arguments)
    is_verdict = code == 1 and (is_silent if command is None else _may_judge(command))
    return OutcomeReading(CallOutcome.VERDICT if is_verdict else CallOutcome.FAILED, f"exit code {code}", words)


def _command(arguments: Json) -> str | None:
    """Return the command line that a call was given."""
    if isinstance(arguments, str):
        return arguments
    for value in map(arguments.get, _COMMANDS) if isinstance(arguments, dict) else ():
        if isinstance(value, str) and value.strip():
            return value
        if isinstance(value, list) and value:
            return " ".join(item for item in value[:50] if isinstance(item, str))
    return None


def _may_judge(command: str) -> bool:
    """Return whether the last command of a line says something by its exit code."""
    line = command.strip()[-MOST:]
    if _JUDGING_SUBCOMMANDS.search(line):
        return True
    words = (re.split(r"&&|\|\||[|;\n]", line)[-1] or line).split()
    while words and (words[0] in _words("runners") or ("=" in words[0] and not words[0].startswith("["))):
        words.pop(0)
    return bool(words) and words[0].strip("\"'").rpartition("/")[2] in _words("judging_commands")


# --- texts -----------------------------------------------------------------------------------------------------------

_BEFORE: Final = (
    r"(?:\[[\w.-]+(?: for [^\]\n]{0,200})?\] result:)?"  # Cline, Roo Code
    r"[\s\"'`*#>\-•]*(?:(?:oops|whoops|uh oh|sorry|hmm|unfortunately|message|output|response|result|stderr|observation"
    r"|detail)s?\b[\s:!,.\-]{1,3})?"
)
"""What may stand before the first clause of a text."""
_PARTS: Final = {
    "{lead}": r"(?:[^\W\d]+[ '’,]+){0,5}?",
    "{end}": r"\s*(?:[:：!！\-–—(,，。\n]|$)",
    "{subject}": r"(?:(?:the|this|an?|your|tool|function|action|command|code|script|request|operation|api|http|server"
    r"|execution|call|query)\s+){0,4}",
}
_EXIT_AT_END: Final = re.compile(
    r"(?:\[?\(?<?(?:the )?(?:command|process|program|script|execution)?\b[\w ]{0,30}?"
    r"\b(?:exit(?:ed)?|finished|completed|terminated|return(?:ed)?)\b[\w ]{0,25}?\b(?:code|status)\b"
    r"\s*[:=>]?\s*(-?\d{1,5})"
    r"|\b(?:exit[_ ]?(?:code|status)|return[_ ]?code|rc)\W{0,3}(-?\d{1,5})\b|\bexit status (\d{1,3})\b"
    r"|<(?:exit_?code|returncode)>(-?\d{1,5})<)\W*(?:</?\w+>\W*)*$",
    re.IGNORECASE,
)
_EXIT_AT_START: Final = re.compile(
    # Codex puts an id and the time before it.
    r"(?:chunk id:[^\n]{1,40}\n)?(?:wall time:[^\n]{1,40}\n)?"
    r"[\s\[(<\"']*(?:(?:error|command|process|program|script):?\s+)?(?:exit(?:ed)?|finished|returned)?\s*(?:with )?"
    r"(?:exit|return)?[_ ]?(?:code|status|exitcode|returncode)>?\W{0,3}(-?\d{1,5})\b(?!\s*[%.]?\d)",
    re.IGNORECASE,
)
_STATES_CODE: Final = re.compile(r"code|status|rc\b", re.IGNORECASE)
_LOG_LINE: Final = re.compile(
    r"^\s*(?:\[?\d{4}-\d\d-\d\d[T ]|\[?\d\d:\d\d:\d\d"
    r"|(?:error|warn(?:ing)?|info|debug|critical|fatal|trace|notice)\b\s*[:\[\]|-])",
    re.IGNORECASE | re.MULTILINE,
)
_ALL_ERRORS: Final = re.compile(r"(?:(?:error|fatal)\b\s*:[^\n]*(?:\n|$)){2,}", re.IGNORECASE)
"""Errors line by line, as those of pip."""
_TABLE: Final = re.compile(r"[^\n]{1,300}\n[ |+:=]*-{2}[-+|:= ]*\n")
_NO_ERRORS: Final = re.compile(
    r"\W*(?:no|0|zero)\s+(?:\w+\s+)?(?:errors?|failures?|problems?|issues?|warnings?|faults?|exceptions?|conflicts?)\b",
    re.IGNORECASE,
)
_ERROR_LINE: Final = re.compile(
    r"(?:[^\n]{0,200}\n){1,8}?(?:\s{0,8}(?:uncaught )?(?:\w+\.)*\w{0,40}(?:error|exception)\b: "
    r"|[\w./\\-]{1,80}:\d+:(?:\d+:)? (?:fatal )?error: |error(?:\[\w+\])?(?:: | in )|make(?:\[\d+\])?: \*\*\* )",
    re.IGNORECASE,
)
"""A line of an interpreter that names an exception, below its place in the code; a line of a compiler, of `make`."""


class _TextForm(NamedTuple):
    """A row of `call_forms.toml`."""

    outcome: CallOutcome
    source: str
    is_certain: bool
    is_of_acts: bool


class _Forms(NamedTuple):
    """The rows of `call_forms.toml`, compiled."""

    begins: Sequence[tuple[_TextForm, re.Pattern[str]]]
    nothing: re.Pattern[str]
    missing: re.Pattern[str]
    gate: Sequence[str]
    error_word: re.Pattern[str]


@cache
def _table() -> Mapping[str, Any]:
    """Read `call_forms.toml`: once, when the first result is read. An agent without tools never needs it."""
    return tomllib.loads(files(__package__).joinpath("call_forms.toml").read_text(encoding="utf-8"))


@cache
def _words(name: str) -> frozenset[str]:
    """Return a set of words of the table."""
    return frozenset(_table()["words"][name].split())


@cache
def _states() -> Mapping[str, CallOutcome]:
    """Return the outcome that a word in a field such as `status` stands for."""
    return {word: CallOutcome(outcome) for outcome, words in _table()["states"].items() for word in words.split()}


@cache
def _forms() -> _Forms:
    table = _table()
    words = "|".join(table["error_words"].split("\n")[:-1])
    patterns = {**_PARTS, "{error}": f"(?:{words})"}

    def compiled(row: Mapping[str, str], before: str = "") -> re.Pattern[str]:
        text = row.get("after", "") + "(?:" + "|".join(row["begins"].split("\n")[:-1]) + ")"
        for name, pattern in patterns.items():
            text = text.replace(name, pattern)
        return re.compile(before + text, re.IGNORECASE | re.DOTALL)

    return _Forms(
        begins=[
            (
                _TextForm(
                    *(CallOutcome(row["outcome"]), row["source"]),
                    *(row.get("is_certain", False), row.get("is_of_acts", False)),
                ),
                compiled(row, _BEFORE),
            )
            for row in table["form"]
        ],
        nothing=compiled(table["nothing"], r"\W*(?:検索|関連する|相关|검색 )?"),
        missing=compiled(table["missing"]),
        gate=_shortest(table["gate"]["words"].split("\n")[:-1]),
        error_word=re.compile(
            rf"{words}|\blogs?\b|\.log\b|bug|crash|incident|troubleshoot|\b[45]\d\d\b", re.IGNORECASE
        ),
    )


def _shortest(words: Sequence[str]) -> list[str]:
    """Return the words without those that another one is a part of: what has these has that one."""
    return [word for word in words if not any(other != word and other in word for other in words)]


def _of_text(tool: str, arguments: Json, text: str) -> OutcomeReading:
    start = text[:MOST]
    if not start.strip():
        return EMPTY if _looks(tool) else RESULT
    code = _exit_code(start, text[-MOST:])
    if code is not None and (code != 0 or _runs_code(tool)):
        return _of_exit_code(code, arguments, _beside_exit_code(text), is_silent=False)
    forms = _forms()
    name = tool_name(tool)
    is_value = _is_word(start) and (name.reads or name.judges)
    if is_value or not may_have_form(start) or _NO_ERRORS.match(start):
        return RESULT
    if len(text) <= SHORT and not _runs_code(tool) and forms.nothing.match(start):
        return OutcomeReading(CallOutcome.NOTHING, "words", text.strip())
    return _by_form(tool, arguments, text) or _by_error_line(tool, arguments, start) or RESULT


_STATUS_CODE: Final = re.compile(r"[45]\d\d")


def may_have_form(start: str) -> bool:
    """Return whether a text has a word of any form. Looking for these takes a tenth of the time of the forms."""
    if not start.isascii():
        return True
    lowered = start.lower()
    # A plain loop: a generator would take twice as long.
    for word in _forms().gate:
        if word in lowered:
            return True
    return _STATUS_CODE.search(start) is not None


def _by_form(tool: str, arguments: Json, text: str) -> OutcomeReading | None:
    """Return what the first form says that the text begins with."""
    start, forms = text[:MOST], _forms()
    is_content = _returns_content(tool, arguments)
    # Content of several lines is not an error message.
    is_log = _is_log(start) and (is_content or _command(arguments) is None or not _ALL_ERRORS.fullmatch(start))
    is_doubtful = len(text) > MOST or is_log or _is_table(start) or (is_content and not _is_message(text))
    asks_for_errors = is_content and _is_about_errors(tool, arguments)
    for form, pattern in forms.begins:
        if (is_doubtful and not form.is_certain) or (is_content and form.is_of_acts):
            continue
        if asks_for_errors and form.outcome is CallOutcome.FAILED and not form.source.startswith("exit code"):
            continue
        if pattern.match(start) is None:
            continue
        outcome = form.outcome
        is_absence = form.source == "sentences of systems" and forms.missing.search(start) is not None
        if is_absence and tool_name(tool).searches:
            outcome = CallOutcome.NOTHING
        return OutcomeReading(outcome, f"words ({form.source})", text.strip())
    return None


def _by_error_line(tool: str, arguments: Json, start: str) -> OutcomeReading | None:
    if not _runs_code(tool) or _returns_content(tool, arguments) or _is_log(start) or not _ERROR_LINE.match(start):
        return None
    return OutcomeReading(CallOutcome.FAILED, "words (interpreters)", start.strip())


def _is_log(start: str) -> bool:
    return len(_LOG_LINE.findall(start)) > 1


def _is_table(start: str) -> bool:
    """Return whether a text is a table as `psql` and Markdown draw it: a line of dashes below the names of columns."""
    return _TABLE.match(start) is not None


def _is_word(text: str) -> bool:
    """Return whether a text is one word, as a value is."""
    return text.strip().isalpha() and text.isascii()


def _is_message(text: str) -> bool:
    """Return whether the result of a tool that returns content may be an error instead: short, and one paragraph."""
    return len(text.strip()) <= SHORT and text.strip().count("\n") <= 1


def _exit_code(start: str, end: str) -> int | None:
    """Return the exit code that a text states at its end, else at its beginning."""
    last = end.rstrip()[-200:]
    if _STATES_CODE.search(last) and (match := _EXIT_AT_END.search(last)):
        return int(next(group for group in match.groups() if group is not None))
    if (match := _EXIT_AT_START.match(start)) is not None:
        code = int(match[1])
        # Three digits are the status of HTTP, unless they are called an exit code.
        return code if not 100 <= code <= 599 or "exit" in match[0].lower() else None
    return None


def _beside_exit_code(text: str) -> str:
    """Return the words beside an exit code: the last line that the command printed."""
    lines = [line.strip() for line in text[-2 * MOST :].splitlines() if line.strip()]
    printed = [line for line in lines if not _EXIT_AT_START.match(line) and not _EXIT_AT_END.search(line[-200:])]
    return printed[-1] if printed else text.strip()[:MOST]


# --- tools -----------------------------------------------------------------------------------------------------------

_SHOWS: Final = re.compile(
    r"(?:sudo\s+)?(?:cat|head|tail|less|more|bat|grep|rg|journalctl|docker\s+logs|kubectl\s+logs|git\s+(?:log|show|diff)"
    r"|sed\s+-n|awk|zcat|xxd|strings|echo|printf)\b"
)
"""Commands that show what others wrote."""


@lru_cache(maxsize=512)
def _runs_code(tool: str) -> bool:
    return not _words("runs_code").isdisjoint(tool_name(tool).words)


@lru_cache(maxsize=512)
def _looks(tool: str) -> bool:
    name = tool_name(tool)
    return (name.reads or name.searches) and not _runs_code(tool)


def _returns_content(tool: str, arguments: Json) -> bool:
    """Return whether a call returns what others wrote: a file, a page, a log, search results."""
    if not _runs_code(tool):
        words = tool_name(tool).words
        acts = not _words("acts").isdisjoint(words[:1])
        return _looks(tool) or (not acts and not _words("returns_content").isdisjoint(words))
    command = _command(arguments)
    return command is not None and _SHOWS.match(command.strip()[:MOST]) is not None


def _is_about_errors(tool: str, arguments: Json) -> bool:
    """Return whether a call asks for something about errors."""
    if _is_named_after_errors(tool):
        return True
    error_word = _forms().error_word
    texts = arguments.values() if isinstance(arguments, dict) else (arguments,)
    return any(isinstance(text, str) and error_word.search(text[:MOST]) is not None for text in list(texts)[:20])


@lru_cache(maxsize=512)
def _is_named_after_errors(tool: str) -> bool:
    return _forms().error_word.search(" ".join(tool_name(tool).words)) is not None
