"""A judge over the OpenAI protocol: hosted, or served by Ollama, vLLM, LiteLLM and the like."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NoReturn
from urllib.parse import urlsplit

import openai
from opentelemetry import context as context_api
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt

from agenteval_collector.clock import Clock
from agenteval_collector.judges import failures
from agenteval_collector.judges.circuit import FIRST_REST, Circuit, CircuitOpen, Permit
from agenteval_collector.judges.completion import Completion, parameters
from agenteval_collector.judges.http import MAX_BODY_BYTES, BodyTooLarge, JudgeHttpClient
from agenteval_collector.judges.lessons import Form, Lessons, plainer
from agenteval_collector.judges.port import (
    JudgeRefused,
    JudgeReply,
    JudgeRequest,
    JudgeUnavailable,
    Spending,
)
from agenteval_collector.judges.retry_after import retry_after

logger = logging.getLogger(__name__)

OPENAI = "https://api.openai.com/v1"
RETRIES = 3
"""Of one request, after failures that may pass."""
LONGEST_WAIT = 60.0
"""Seconds that an endpoint may ask for between two attempts; where it asks for more, the caller is told instead."""
_FIRST_PAUSE = 1.0
"""Seconds, at most, before the first retry; doubles."""


class _Failed(JudgeUnavailable):
    """One attempt without an answer; `wish` is the Retry-After that came with it, in seconds."""

    def __init__(self, error_type: str, message: str, *, wish: float | None = None) -> None:
        super().__init__(error_type, message, retry_after=FIRST_REST if wish is None else wish, sent=True)
        self.wish = wish


class _Unfit(Exception):
    """The endpoint refuses the form of the request; `plainer` is the next to try."""

    def __init__(self, plainer: Form) -> None:
        super().__init__(f"next as {plainer}")
        self.plainer = plainer


@dataclass(slots=True)
class _Call:
    """One `ask`: how it is put at present, and whether anything of it has left."""

    request: JudgeRequest
    form: Form
    sent: bool = False


class OpenAIJudge:
    """One endpoint, asked through `chat.completions`.

    `base_url` None is OpenAI's own; `api_key` None sends `none`, for endpoints that ask for no key. Of the environment
    only proxies and certificates are heeded. A model named `openai/NAME` is sent as `NAME` to api.openai.com, and as it
    is to every other endpoint, because routers like LiteLLM need the prefix. `timeout` is in seconds and holds for a
    whole HTTP request, `concurrency` is how many are under way at once. A request that fails in passing is sent up to
    RETRIES times again; see `circuit` for an endpoint that is down. The form that an endpoint refuses (strict schema,
    JSON mode, temperature) is replaced by a plainer one, see `lessons`.

    An empty text is a reply like another, for the caller to find malformed: of an answer without choices or content, or
    a JSON object that is no completion. A model's refusal to answer and a content filter's raise JudgeRefused.
    """

    def __init__(
        self,
        *,
        base_url: str | None,
        api_key: str | None,
        timeout: float,
        concurrency: int,
        spending: Spending,
        clock: Clock,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`sleep` waits between attempts, `chance` draws from [0, 1). Raises ValueError for an unusable `base_url`."""
        url = base_url or OPENAI
        self._host = _host(url)
        self._timeout = timeout
        self._spending = spending
        self._clock = clock
        self._sleep = sleep
        self._chance = chance
        self._places = asyncio.Semaphore(concurrency)
        self._circuit = Circuit(clock)
        self._news = asyncio.Event()
        self._lessons = Lessons(clock)
        self._met: set[str] = set()
        self._meeting = asyncio.Lock()
        key = api_key or "none"
        self._client = openai.AsyncOpenAI(
            base_url=url,
            api_key=key,
            timeout=timeout,
            max_retries=0,
            http_client=JudgeHttpClient(api_key=key, timeout=timeout),
        )

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        """The reply. Raises JudgeUnavailable, JudgeRefused, and what `Spending.reserve` raises."""
        if request.model not in self._met:
            # The first request to a model goes alone: what it learns of the form, all others would pay for as well.
            async with self._meeting:
                if request.model not in self._met:
                    try:
                        return await self._ask(request)
                    finally:
                        self._met.add(request.model)
        return await self._ask(request)

    async def _ask(self, request: JudgeRequest) -> JudgeReply:
        known = self._lessons.form(request.model)
        call = _Call(request, known)
        with _uninstrumented():
            reply = await self._fitting(call)
        # Learnt only now: had the plainest form been refused too, the form would not have been what was wrong.
        if call.form != known:
            self._lessons.learn(request.model, call.form)
            logger.info("%s takes requests to %s only in this form: %s", self._host, request.model, call.form)
        return reply

    async def close(self) -> None:
        """Close the connections; safe to call twice."""
        await self._client.close()

    async def _fitting(self, call: _Call) -> JudgeReply:
        retrying = AsyncRetrying(
            sleep=self._sleep,
            stop=stop_after_attempt(1 + RETRIES),
            wait=self._pause,
            retry=retry_if_exception(_may_pass),
            reraise=True,
        )
        while True:
            try:
                reply: JudgeReply = await retrying(self._attempt, call)
            except _Unfit as unfit:
                call.form = unfit.plainer
            else:
                return reply

    def _pause(self, state: RetryCallState) -> float:
        """Seconds: exponential with full jitter, or a little more than the endpoint wished."""
        failed = state.outcome.exception() if state.outcome else None
        if isinstance(failed, _Failed) and failed.wish is not None:
            return failed.wish + self._chance() * _FIRST_PAUSE
        return self._chance() * _FIRST_PAUSE * 2.0 ** (state.attempt_number - 1)

    async def _attempt(self, call: _Call) -> JudgeReply:
        async with self._places:
            permit = await self._admitted(call)
            try:
                reply = await self._accounted(call)
            except _Failed as failed:
                self._circuit.failed(permit, failed.wish)
                raise
            except (JudgeRefused, _Unfit):
                self._circuit.succeeded(permit)
                raise
            else:
                self._circuit.succeeded(permit)
                return reply
            finally:
                self._circuit.abandoned(permit)
                self._news.set()
                self._news = asyncio.Event()

    async def _admitted(self, call: _Call) -> Permit:
        """Leave to send. While another request probes the endpoint this one waits for what comes of that: were it
        turned away, whoever asks both would drop the probe too, and the circuit would never close."""
        while True:
            try:
                return self._circuit.admit()
            except CircuitOpen as rest:
                if not rest.probing:
                    why = f"{self._host}: {rest}"
                    raise JudgeUnavailable("circuit_open", why, retry_after=rest.retry_after, sent=call.sent) from None
            await self._news.wait()

    async def _accounted(self, call: _Call) -> JudgeReply:
        self._spending.reserve(call.request)
        call.sent = True
        started = self._clock.monotonic()
        reply: JudgeReply | None = None
        try:
            completion = await self._exchange(call)
            reply = JudgeReply(
                text=completion.text,
                model=completion.model or call.request.model,
                temperature=call.request.temperature if call.form.temperature else None,
                input_tokens=completion.input_tokens,
                output_tokens=completion.output_tokens,
                seconds=self._clock.monotonic() - started,
            )
        finally:
            self._spending.settle(call.request, reply)
        if completion.refused:
            raise JudgeRefused("refusal", f"{reply.model} declined to answer {call.request.name}")
        if completion.filtered:
            raise JudgeRefused("content_filter", f"{self._host} filtered the answer to {call.request.name}")
        return reply

    async def _exchange(self, call: _Call) -> Completion:
        """One HTTP request. Raises _Failed, _Unfit, JudgeRefused."""
        sent = parameters(call.request, call.form, sent_model(call.request.model, self._host))
        try:
            async with asyncio.timeout(self._timeout):
                response = await self._client.chat.completions.with_raw_response.create(**sent)
        except (TimeoutError, openai.APITimeoutError) as error:
            raise _Failed("timeout", f"{self._host}: no answer within {self._timeout:g} s") from error
        except openai.APIStatusError as error:
            self._raise_for_status(error, call)
        except (BodyTooLarge, openai.APIConnectionError) as error:
            # Older openai clients wrap whatever comes from the HTTP client.
            cause = error.__cause__ or error
            if isinstance(cause, BodyTooLarge):
                message = f"{self._host}: the answer has more than {MAX_BODY_BYTES} bytes; check judge.base_url"
                raise JudgeRefused("answer_too_large", message) from error
            message = f"{self._host}: {type(cause).__name__}; check judge.base_url and whether it is up"
            raise _Failed("connection_error", message) from error
        try:
            return Completion.read(response.content)
        except ValueError as error:
            if "json" in response.headers.get("content-type", ""):
                return Completion()
            message = f"{self._host} answers with something else than a chat completion; check judge.base_url"
            raise JudgeRefused("no_completion", message) from error

    def _raise_for_status(self, error: openai.APIStatusError, call: _Call) -> NoReturn:
        # From None: the error's own text repeats the endpoint's, which may hold a key or parts of the trace.
        status, body = error.status_code, error.response.text
        said = f"{self._host}: status {status}" + (f" ({code})" if (code := failures.code(body)) else "")
        if failures.retryable(status):
            wish = retry_after(error.response.headers, self._clock.now())
            raise _Failed(str(status), said, wish=wish) from None
        if form := plainer(call.form, status, body):
            raise _Unfit(form) from None
        raise JudgeRefused(str(status), f"{said}: {failures.advice(status)}") from None


def _may_pass(error: BaseException) -> bool:
    return isinstance(error, _Failed) and (error.wish or 0.0) <= LONGEST_WAIT


def _host(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{parts.scheme}://{parts.hostname or ''} is no http or https address")
    if parts.username or parts.password:
        raise ValueError("it holds a user or a password; give the key as judge.api_key")
    return parts.netloc


def sent_model(name: str, host: str) -> str:
    """What the endpoint at `host` (and port) calls the model: without `openai/` at OpenAI's own, else the same."""
    hostname = host.partition(":")[0]
    own = hostname == "api.openai.com" or hostname.endswith(".api.openai.com")
    return name.removeprefix("openai/") if own else name


@contextmanager
def _uninstrumented() -> Iterator[None]:
    """Within it no instrumentation makes spans: the API knows that by one key, older instrumentations by another."""
    context = context_api.set_value("suppress_instrumentation", True)
    token = context_api.attach(context_api.set_value(context_api._SUPPRESS_INSTRUMENTATION_KEY, True, context))
    try:
        yield
    finally:
        context_api.detach(token)
