"""A judge over the OpenAI protocol. It may be hosted, or served by Ollama, vLLM, LiteLLM and the like."""

import asyncio
import logging
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlsplit

import openai
from opentelemetry import context as context_api

from agenteval_collector.judge.client.completions import Form, parameters, plainer, read, refuses_format
from agenteval_collector.judge.client.failures import never_left, refusal, unreachable
from agenteval_collector.judge.client.http import JudgeHttpClient
from agenteval_collector.judge.client.usage import believed
from agenteval_collector.judge.ports import (
    OPENAI,
    JudgeReply,
    JudgeRequest,
    JudgeUnavailable,
    NoAnswer,
    Reserve,
)
from agenteval_collector.model.judge_jobs import Spend
from agenteval_collector.runtime.clock import Clock
from otel_agenteval.sending.throttle import ThrottledLog

logger = logging.getLogger(__name__)

RETRIES: Final = 2
"""Attempts beyond the first if a failure may pass."""
FIRST_PAUSE: Final = 0.5
"""Seconds before the first of these attempts, less up to a quarter by chance. Each further pause is twice as long."""
LONGEST_PAUSE: Final = 10.0
"""Seconds of the longest pause that an endpoint is given here. If it asks for more, the whole queue pauses."""
IMPLAUSIBLE: Final = (
    "%s reports a usage for %s that does not fit what was sent and received; the budget counts its own estimate instead"
)
_LISTS_NOTHING: Final = (404, 405, 501)
"""Statuses of an endpoint that is up but has no list of models."""
_SHOWN: Final = 5
"""The number of models that are named if the model that is asked for is not among them."""


class OpenAIJudge:
    """One endpoint, which is asked through the chat completions of the openai client.

    A request is sent again after a failure that may pass, `retries` times. `base_url` None means OpenAI's own
    endpoint. `api_key` None sends `none`. Only proxies and certificates are taken from the environment. `timeout`
    (seconds) holds for each HTTP request. `concurrency` is the number of requests under way at once. `requested` is
    called for each request that ends, with its model and the type of its error, if any.

    A form that the endpoint refuses (strict schema, JSON mode, temperature) is replaced by a plainer one. That form is
    remembered for the model. Missing content and cut-off JSON give an empty text, which the caller finds malformed. A
    wrong key, an empty account and a response that is no completion raise JudgeUnavailable, as they can be repaired.
    """

    def __init__(
        self,
        *,
        base_url: str | None,
        api_key: str | None,
        timeout: float,
        concurrency: int,
        clock: Clock,
        requested: Callable[[str, str | None], None],
        retries: int = RETRIES,
    ) -> None:
        """Connect to nothing yet. Raises ValueError for an unusable `base_url`."""
        url, key = base_url or OPENAI, api_key or "none"
        self._host = _host(url)
        self._client = openai.AsyncOpenAI(
            base_url=url,
            api_key=key,
            timeout=None,
            # Each attempt is reserved and settled, which happens here. So the attempts are made here too.
            max_retries=0,
            http_client=JudgeHttpClient(host=self._host, api_key=key),
        )
        self._timeout = timeout
        self._retries = retries
        self._clock = clock
        self._requested = requested
        self._places = asyncio.Semaphore(concurrency)
        self._forms: dict[str, Form] = {}
        self._log = ThrottledLog(logger, clock.monotonic)

    async def ask(self, request: JudgeRequest, reserve: Reserve) -> JudgeReply:
        """Ask the endpoint. Raises JudgeUnavailable, NoAnswer, and the errors of `reserve`."""
        try:
            # The place is kept through the pauses between attempts. So an endpoint that asks for a pause gets fewer
            # requests.
            async with self._places:
                return await self._answer(request, reserve)
        except NoAnswer as refused:
            self._log.warning(refused.error_type, "the judge refuses, what it was asked fails: %s", refused)
            raise

    async def trouble(self, model: str) -> str | None:
        """Return why the endpoint would not answer for this model. Return None if nothing speaks against it.

        This costs nothing. The endpoint is asked once for its models, and not to judge.
        """
        try:
            async with asyncio.timeout(self._timeout):
                listed = await self._client.get("/models", cast_to=object)
        except TimeoutError:
            return str(self._late())
        except openai.APIStatusError as error:
            return None if error.status_code in _LISTS_NOTHING else str(refusal(self._host, error))
        except openai.APIConnectionError as error:
            return str(self._beneath(error))
        except (ValueError, RecursionError):
            return None
        names = _names(listed)
        if names and model not in names:
            return f"{self._host} does not have {model!r}, but {', '.join(names[:_SHOWN])}; check judge.model"
        return None

    async def close(self) -> None:
        """Close the connections; safe to call twice."""
        await self._client.close()

    async def _answer(self, request: JudgeRequest, reserve: Reserve) -> JudgeReply:
        """Ask until there is an answer: in a plainer form if the endpoint refuses one, again if a failure may pass.

        If the endpoint takes no form, its first refusal is raised.
        """
        form = known_form = self._forms.get(request.model, Form())
        refused: JudgeUnavailable | NoAnswer | None = None
        failures = 0
        started = self._clock.monotonic()
        while True:
            try:
                reply = await self._attempt(request, form, reserve)
                break
            except openai.APIStatusError as error:
                problem, body = refusal(self._host, error), error.response.text
                if next_form := plainer(form, error.status_code, body):
                    form, refused = next_form, refused or problem
                    continue
                if isinstance(problem, NoAnswer):
                    # From None, as the error's own text repeats the endpoint's, which may hold a key or a trace.
                    raise (refused or problem) from None
                if problem.lasting or refuses_format(error.status_code, body):
                    raise problem from None
            except JudgeUnavailable as error:
                if error.error_type != "connection_error":
                    raise
                problem = error
            failures += 1
            pause = _pause(problem, failures)
            if failures > self._retries or pause > LONGEST_PAUSE:
                raise problem from None
            await asyncio.sleep(pause)
        if form != known_form:
            # The form is remembered only after an answer. Had every form been refused, the form would not be the cause.
            self._forms[request.model] = form
            logger.info("%s takes requests to %s only in this form: %s", self._host, request.model, form)
        if reply.declined is not None:
            is_refusal = reply.declined == "refusal"
            what = "the model declined to answer" if is_refusal else f"{self._host} filtered the answer to"
            raise NoAnswer(reply.declined, f"{what} {request.name}")
        temperature = request.temperature if form.temperature else None
        return replace(reply, temperature=temperature, seconds=self._clock.monotonic() - started)

    async def _attempt(self, request: JudgeRequest, form: Form, reserve: Reserve) -> JudgeReply:
        """Reserve one HTTP request, send it, and settle it by what it used. Broken JSON gives a reply without a text.

        Raises openai.APIStatusError, JudgeUnavailable, and the errors of `reserve`. If the request may have left
        without an answer, also by a cancellation, the estimate stands.
        """
        settle = await reserve(request)
        used: Spend | None = None
        try:
            reply = believed(await self._exchange(request, form), request)
            used = _used(reply)
        except openai.APIStatusError as error:
            used = Spend(requests=1)
            self._requested(request.model, str(error.status_code))
            raise
        except openai.APIConnectionError as error:
            used = Spend() if never_left(error) else None
            problem = self._beneath(error)
            self._requested(request.model, problem.error_type)
            raise problem from error
        except JudgeUnavailable as error:
            self._requested(request.model, error.error_type)
            raise
        finally:
            settle(used)
        self._requested(request.model, None)
        if reply.usage == "implausible":
            self._log.warning(reply.usage, IMPLAUSIBLE, self._host, request.model)
        return reply

    async def _exchange(self, request: JudgeRequest, form: Form) -> JudgeReply:
        sent = parameters(request, form, sent_model(request.model, self._host))
        try:
            with _uninstrumented():
                async with asyncio.timeout(self._timeout):
                    reply = read(await self._client.chat.completions.create(**sent), request.model)
        except TimeoutError:
            raise self._late() from None
        except (ValueError, RecursionError):
            return JudgeReply(model=request.model)
        if reply is None:
            message = f"{self._host} answers with something else than a chat completion; check judge.base_url"
            raise JudgeUnavailable("no_completion", message)
        return reply

    def _late(self) -> JudgeUnavailable:
        # A timeout is not tried again, as the next attempt would take as long.
        return JudgeUnavailable("timeout", f"{self._host}: no answer within {self._timeout:g} s")

    def _beneath(self, error: openai.APIConnectionError) -> JudgeUnavailable:
        """Return the error that is the cause. The openai client wraps the errors of its HTTP client."""
        if isinstance(error.__cause__, JudgeUnavailable):
            return error.__cause__
        return unreachable(self._host, error.__cause__ or error)


def _pause(problem: JudgeUnavailable, failures: int) -> float:
    """Return the seconds before the next attempt: those that the endpoint asks for, or ours."""
    if problem.retry_after is not None:
        return problem.retry_after
    return FIRST_PAUSE * 2.0 ** (failures - 1) * random.uniform(0.75, 1)


def _used(reply: JudgeReply) -> Spend | None:
    """Return what a reply used. Return None if it does not say."""
    if reply.input_tokens is None or reply.output_tokens is None:
        return None
    return Spend(requests=1, input_tokens=reply.input_tokens, output_tokens=reply.output_tokens)


def _names(listed: Any) -> list[str]:
    """Return the names in a list of models. Return none if the list has no known form."""
    items = listed.get("data") if isinstance(listed, dict) else None
    return [str(item["id"])[:100] for item in items or [] if isinstance(item, dict) and "id" in item]


def sent_model(name: str, host: str) -> str:
    """Return the name that `host` has for the model.

    OpenAI's own names have no `openai/` in front. Routers like LiteLLM need the prefix.
    """
    hostname = host.partition(":")[0]
    own = hostname == "api.openai.com" or hostname.endswith(".api.openai.com")
    return name.removeprefix("openai/") if own else name


def _host(url: str) -> str:
    address = urlsplit(url)
    if address.scheme not in ("http", "https") or not address.hostname:
        # The rest of the URL may hold secrets, so the message does not show it.
        url_words = "it" if "@" in url else repr(url.partition("?")[0])
        raise ValueError(f"{url_words} is no http or https address, such as http://127.0.0.1:11434/v1")
    if address.username or address.password:
        raise ValueError("it holds a user or a password; give the key as judge.api_key")
    return address.netloc


@contextmanager
def _uninstrumented() -> Iterator[None]:
    """Keep instrumentations from making spans.

    The OpenTelemetry API knows one key for that. Older instrumentations know another one.
    """
    context = context_api.set_value("suppress_instrumentation", True)
    token = context_api.attach(context_api.set_value(context_api._SUPPRESS_INSTRUMENTATION_KEY, True, context))
    try:
        yield
    finally:
        context_api.detach(token)
