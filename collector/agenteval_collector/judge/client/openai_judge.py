"""A judge over the OpenAI protocol: hosted, or served by Ollama, vLLM, LiteLLM and the like."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt

from agenteval_collector.judge.client.circuit import Circuit, CircuitOpen, Permit
from agenteval_collector.judge.client.completion import Completion
from agenteval_collector.judge.client.endpoint import Endpoint
from agenteval_collector.judge.client.failures import Failed, Unfit
from agenteval_collector.judge.client.http import Departure
from agenteval_collector.judge.client.lessons import Form, Lessons
from agenteval_collector.judge.client.port import (
    JudgeError,
    JudgeRefused,
    JudgeReply,
    JudgeRequest,
    JudgeUnavailable,
    Spending,
    Trouble,
)
from agenteval_collector.runtime.clock import Clock
from otel_agenteval.sending.throttle import ThrottledLog

logger = logging.getLogger(__name__)

OPENAI = "https://api.openai.com/v1"
RETRIES = 3
"""Of one request, after failures that may pass."""
LONGEST_WAIT = 60.0
"""Seconds that an endpoint may ask for between two attempts; where it asks for more, the caller is told instead."""
_FIRST_PAUSE = 1.0
"""Seconds, at most, before the first retry; doubles."""


@dataclass(slots=True)
class _Call:
    """One `ask`: how it is put at present, whether plainer forms are worth a try, whether anything of it has left, and
    whether an attempt has failed."""

    request: JudgeRequest
    form: Form
    varies: bool
    sent: bool = False
    failed: bool = False


class _Declined(JudgeRefused):
    """An answer all the same: the form was taken."""


class OpenAIJudge:
    """One endpoint, asked through `chat.completions`.

    `base_url` None is OpenAI's own; `api_key` None sends `none`, for endpoints that ask for no key. Of the environment
    only proxies and certificates are heeded. A model named `openai/NAME` is sent as `NAME` to api.openai.com, and as it
    is to every other endpoint, because routers like LiteLLM need the prefix. `timeout` is in seconds and holds for a
    whole HTTP request, `concurrency` is how many are under way at once. A request that fails in passing is sent up to
    RETRIES times again; see `circuit` for an endpoint that is down. The form that an endpoint refuses (strict schema,
    JSON mode, temperature) is replaced by a plainer one, see `lessons`. `requested` is told of every HTTP request that
    came to its end: its model, and the error's type where there was one.

    An empty text is a reply like another, for the caller to find malformed: of a completion without a choice or
    content, or one that was cut off. A model's refusal to answer and a content filter's raise JudgeRefused. A wrong
    key, an empty account and a response that is no completion are outages: they can be repaired.
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
        requested: Callable[[str, str | None], None],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`sleep` waits between attempts, `chance` draws from [0, 1). Raises ValueError for an unusable `base_url`."""
        self._endpoint = Endpoint(base_url or OPENAI, api_key=api_key or "none", timeout=timeout, clock=clock)
        self._spending = spending
        self._clock = clock
        self._requested = requested
        self._sleep = sleep
        self._chance = chance
        self._places = asyncio.Semaphore(concurrency)
        self._circuit = Circuit(clock)
        self._news = asyncio.Event()
        self._lessons = Lessons(clock)
        self._met: dict[str, asyncio.Event] = {}
        self._log = ThrottledLog(logger, clock.monotonic)

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        """The reply. Raises JudgeUnavailable, JudgeRefused, and what `Spending.reserve` raises."""
        met = self._met.get(request.model)
        if met is not None:
            await met.wait()
            return await self._ask(request)
        # The first request to a model goes alone: what it learns of the form, all others would pay for as well.
        met = self._met[request.model] = asyncio.Event()
        try:
            return await self._ask(request)
        finally:
            met.set()

    async def _ask(self, request: JudgeRequest) -> JudgeReply:
        known = self._lessons.form(request.model)
        call = _Call(request, known, varies=self._lessons.varies(request.model))
        try:
            reply = await self._fitting(call)
        except _Declined:
            self._lessons.answered(request.model, call.form)
            raise
        except JudgeRefused as refused:
            self._log.warning(refused.error_type, "the judge refuses, what it was asked fails: %s", refused)
            raise
        # Learnt only now: had the plainest form been refused too, the form would not have been what was wrong.
        self._lessons.answered(request.model, call.form)
        if call.form != known:
            logger.info("%s takes requests to %s only in this form: %s", self._endpoint.host, request.model, call.form)
        return reply

    @property
    def trouble(self) -> Trouble | None:
        """What is wrong with the endpoint; None since its last answer. From any thread."""
        return self._circuit.trouble

    async def close(self) -> None:
        """Close the connections; safe to call twice."""
        await self._endpoint.close()

    async def _fitting(self, call: _Call) -> JudgeReply:
        """The reply, in the richest form that is taken. Where none is, the first refusal counts."""
        first: JudgeError | None = None
        while True:
            try:
                return await self._persistent(call)
            except Unfit as unfit:
                first = first or unfit.error
                call.form = unfit.plainer
            except JudgeRefused as refused:
                if first is None or isinstance(refused, _Declined):
                    raise
                self._lessons.in_vain(call.request.model)
                raise JudgeRefused(first.error_type, str(first)) from None

    async def _persistent(self, call: _Call) -> JudgeReply:
        retrying = AsyncRetrying(
            sleep=self._sleep,
            stop=stop_after_attempt(1 + RETRIES),
            wait=self._pause,
            retry=retry_if_exception(_may_pass),
            reraise=True,
        )
        reply: JudgeReply = await retrying(self._attempt, call)
        return reply

    def _pause(self, state: RetryCallState) -> float:
        """Seconds: exponential with full jitter, or a little more than the endpoint wished."""
        failed = state.outcome.exception() if state.outcome else None
        if isinstance(failed, Failed) and failed.wish is not None:
            return failed.wish + self._chance() * _FIRST_PAUSE
        return self._chance() * _FIRST_PAUSE * 2.0 ** (state.attempt_number - 1)

    async def _attempt(self, call: _Call) -> JudgeReply:
        async with self._places:
            permit = await self._admitted(call)
            try:
                reply = await self._accounted(call)
            except Failed as failed:
                self._circuit.failed(permit, str(failed), failed.wish, first=not call.failed)
                call.failed = True
                # Nothing is to be learnt from an outage, so nobody waits for it.
                self._met[call.request.model].set()
                if not _may_pass(failed):
                    self._log.warning(
                        failed.error_type,
                        "the judge cannot be asked, next try in %.0f s: %s",
                        failed.retry_after,
                        failed,
                    )
                raise
            except JudgeRefused:
                self._circuit.succeeded(permit)
                raise
            except Unfit as unfit:
                if isinstance(unfit.error, JudgeRefused):
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
                    raise JudgeUnavailable(
                        "circuit_open", str(rest), retry_after=rest.retry_after, sent=call.sent
                    ) from None
            await self._news.wait()

    async def _accounted(self, call: _Call) -> JudgeReply:
        await self._spending.reserve(call.request)
        call.sent = True
        started = self._clock.monotonic()
        departing = Departure()
        reply: JudgeReply | None = None
        try:
            completion = await self._exchange(call, departing)
            reply = JudgeReply(
                text=completion.text,
                model=completion.model or call.request.model,
                temperature=call.request.temperature if call.form.temperature else None,
                input_tokens=completion.input_tokens,
                output_tokens=completion.output_tokens,
                seconds=self._clock.monotonic() - started,
            )
        finally:
            if not departing.left:
                self._spending.release(call.request)
            elif departing.rejected:
                self._spending.reject(call.request)
            else:
                self._spending.settle(call.request, reply)
        if completion.refused:
            raise _Declined("refusal", f"{reply.model} declined to answer {call.request.name}")
        if completion.filtered:
            raise _Declined("content_filter", f"{self._endpoint.host} filtered the answer to {call.request.name}")
        return reply

    async def _exchange(self, call: _Call, departing: Departure) -> Completion:
        """One HTTP request. Raises Failed, Unfit, JudgeRefused."""
        model = call.request.model
        try:
            completion = await self._endpoint.complete(call.request, call.form, departing)
        except Unfit as unfit:
            self._requested(model, unfit.error.error_type)
            if call.varies:
                raise
            raise unfit.error from None
        except JudgeError as error:
            self._requested(model, error.error_type)
            raise
        self._requested(model, None)
        return completion


def _may_pass(error: BaseException) -> bool:
    return isinstance(error, Failed) and error.passing and (error.wish or 0.0) <= LONGEST_WAIT
