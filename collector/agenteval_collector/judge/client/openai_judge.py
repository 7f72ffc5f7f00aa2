"""A judge over the OpenAI protocol. It may be hosted, or served by Ollama, vLLM, LiteLLM and the like."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

import openai
from opentelemetry import context as context_api

from agenteval_collector.judge.client.completions import Form, parameters, plainer, read
from agenteval_collector.judge.client.failures import refusal, unreachable
from agenteval_collector.judge.client.http import JudgeHttpClient, RequestAttempts, current_attempts
from agenteval_collector.judge.client.usage import believed
from agenteval_collector.judge.ports import (
    OPENAI,
    JudgeError,
    JudgeReply,
    JudgeRequest,
    JudgeUnavailable,
    NoAnswer,
    OverBudget,
    Reserve,
)
from agenteval_collector.model.judge_jobs import Spend
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.errors import RetryableError
from otel_agenteval.sending.throttle import ThrottledLog

logger = logging.getLogger(__name__)

RETRIES: Final = 2
"""Attempts beyond the first that the openai client makes if a failure may pass, with its own pauses."""
IMPLAUSIBLE: Final = (
    "%s reports a usage for %s that does not fit what was sent and received; the budget counts its own estimate instead"
)
_LISTS_NOTHING: Final = (404, 405, 501)
"""Statuses of an endpoint that is up but has no list of models."""
_SHOWN: Final = 5
"""The number of models that are named if the model that is asked for is not among them."""


class OpenAIJudge:
    """One endpoint, which is asked through the chat completions of the openai client.

    The openai client sends a request again after a failure that may pass. `base_url` None means OpenAI's own endpoint.
    `api_key` None sends `none`. Only proxies and certificates are taken from the environment. `timeout` (seconds)
    holds for each HTTP request. `concurrency` is the number of requests under way at once. `requested` is called for
    each request that ends, with its model and the type of its error, if any.

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
            # The client's own timeouts are for single reads. An endpoint that sends a byte now and then would never
            # reach one.
            timeout=None,
            max_retries=retries,
            http_client=JudgeHttpClient(host=self._host, api_key=key, timeout=timeout),
        )
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
                return await self._in_form(request, reserve)
        except NoAnswer as refused:
            self._log.warning(refused.error_type, "the judge refuses, what it was asked fails: %s", refused)
            raise

    async def trouble(self, model: str) -> str | None:
        """Return why the endpoint would not answer for this model. Return None if nothing speaks against it.

        This costs nothing. The endpoint is asked once for its models, and not to judge.
        """
        try:
            listed = await self._client.with_options(max_retries=0).get("/models", cast_to=object)
        except openai.APIStatusError as error:
            return None if error.status_code in _LISTS_NOTHING else str(refusal(self._host, error))
        except openai.APIConnectionError as error:
            return str(self._beneath(error))
        except (JudgeUnavailable, ValueError, RecursionError) as error:
            return str(error) if isinstance(error, JudgeUnavailable) else None
        names = _names(listed)
        if names and model not in names:
            return f"{self._host} does not have {model!r}, but {', '.join(names[:_SHOWN])}; check judge.model"
        return None

    async def close(self) -> None:
        """Close the connections; safe to call twice."""
        await self._client.close()

    async def _in_form(self, request: JudgeRequest, reserve: Reserve) -> JudgeReply:
        """Ask in the richest form that the endpoint takes. If it takes no form, raise its first refusal."""
        form = known_form = self._forms.get(request.model, Form())
        first: JudgeError | None = None
        while True:
            started = self._clock.monotonic()
            try:
                reply = await self._send(
                    RequestAttempts(request, reserve, partial(self._requested, request.model)), form
                )
                break
            except openai.APIStatusError as error:
                problem = refusal(self._host, error)
                first = first or problem
                next_form = plainer(form, error.status_code, error.response.text)
                if next_form is None:
                    # From None, as the error's own text repeats the endpoint's, which may hold a key or a trace.
                    raise (first if isinstance(problem, NoAnswer) else problem) from None
                form = next_form
        if form != known_form:
            # The form is remembered only after an answer. Had every form been refused, the form would not be the cause.
            self._forms[request.model] = form
            logger.info("%s takes requests to %s only in this form: %s", self._host, request.model, form)
        if reply.declined is not None:
            refused = reply.declined == "refusal"
            what = "the model declined to answer" if refused else f"{self._host} filtered the answer to"
            raise NoAnswer(reply.declined, f"{what} {request.name}")
        temperature = request.temperature if form.temperature else None
        return replace(reply, temperature=temperature, seconds=self._clock.monotonic() - started)

    async def _send(self, attempts: RequestAttempts, form: Form) -> JudgeReply:
        """Send the request in this form, and settle the attempt that was answered by its usage.

        Broken JSON gives a reply without a text.
        """
        asked_model = attempts.request.model
        sent = parameters(attempts.request, form, sent_model(asked_model, self._host))
        token = current_attempts.set(attempts)
        reply: JudgeReply | None = None
        try:
            with _uninstrumented():
                reply = read(await self._client.chat.completions.create(**sent), asked_model)
        except openai.APIConnectionError as error:
            raise self._beneath(error) from error
        except (ValueError, RecursionError):
            reply = JudgeReply(model=asked_model)
        finally:
            current_attempts.reset(token)
            if reply is not None:
                reply = believed(reply, attempts.request)
            if attempts.settle is not None:
                attempts.settle(_used(reply))
                attempts.ended(None if reply else "no_completion")
        if reply is None:
            message = f"{self._host} answers with something else than a chat completion; check judge.base_url"
            raise JudgeUnavailable("no_completion", message)
        if reply.usage == "implausible":
            self._log.warning(reply.usage, IMPLAUSIBLE, self._host, asked_model)
        return reply

    def _beneath(self, error: openai.APIConnectionError) -> Exception:
        """Return the error that is the cause. Older openai clients wrap the errors of their HTTP client."""
        if isinstance(error.__cause__, JudgeError | OverBudget | RetryableError):
            return error.__cause__
        return unreachable(self._host, error.__cause__ or error)


def _used(reply: JudgeReply | None) -> Spend | None:
    """Return what a reply used. Return None if it does not say."""
    if reply is None or reply.input_tokens is None or reply.output_tokens is None:
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
