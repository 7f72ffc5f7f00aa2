"""One HTTP request to an endpoint of the OpenAI protocol: a completion, or why there is none."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import openai
from opentelemetry import context as context_api

from agenteval_collector.judge.client.completion import Completion, NoCompletion, parameters
from agenteval_collector.judge.client.failures import Failed, connection_problem, failure
from agenteval_collector.judge.client.http import MAX_BODY_BYTES, BodyTooLarge, Departure, JudgeHttpClient, departure
from agenteval_collector.judge.client.lessons import Form
from agenteval_collector.judge.client.port import JudgeRefused, JudgeRequest
from agenteval_collector.runtime.clock import Clock


class Endpoint:
    """At `url`; `timeout` is in seconds and holds for a whole request. Raises ValueError for an unusable `url`."""

    def __init__(self, url: str, *, api_key: str, timeout: float, clock: Clock) -> None:
        self.host = _host(url)
        self._timeout = timeout
        self._clock = clock
        self._client = openai.AsyncOpenAI(
            base_url=url,
            api_key=api_key,
            timeout=timeout,
            max_retries=0,
            http_client=JudgeHttpClient(api_key=api_key, timeout=timeout),
        )

    async def complete(self, request: JudgeRequest, form: Form, departing: Departure) -> Completion:
        """What the endpoint answers. Raises Failed, Unfit, JudgeRefused; `departing` tells whether anything left."""
        departure.set(departing)
        sent = parameters(request, form, sent_model(request.model, self.host))
        try:
            with _uninstrumented():
                async with asyncio.timeout(self._timeout):
                    response = await self._client.chat.completions.with_raw_response.create(**sent)
        except (TimeoutError, openai.APITimeoutError) as error:
            raise Failed("timeout", f"{self.host}: no answer within {self._timeout:g} s") from error
        except openai.APIStatusError as error:
            # From None: the error's own text repeats the endpoint's, which may hold a key or parts of the trace.
            answer = error.response
            raise failure(self.host, error.status_code, answer.headers, answer.text, form, self._clock.now()) from None
        except (BodyTooLarge, openai.APIConnectionError) as error:
            # Older openai clients wrap whatever comes from the HTTP client.
            cause = error.__cause__ or error
            if isinstance(cause, BodyTooLarge):
                message = f"{self.host}: the answer has more than {MAX_BODY_BYTES} bytes; check judge.base_url"
                raise JudgeRefused("answer_too_large", message) from error
            message = f"{self.host}: {connection_problem(cause)}; check judge.base_url and whether it is up"
            raise Failed("connection_error", message) from error
        try:
            return Completion.read(response.content)
        except NoCompletion as error:
            if error.status is not None:
                text = response.content.decode(errors="replace")
                raise failure(self.host, error.status, response.headers, text, form, self._clock.now()) from None
            message = f"{self.host} answers with {error} instead of a chat completion; check judge.base_url"
            raise Failed("no_completion", message, passing=False) from None

    async def close(self) -> None:
        """Close the connections; safe to call twice."""
        await self._client.close()


def _host(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        # Whatever else it holds may be secret.
        shown = "it" if "@" in url else repr(url.partition("?")[0])
        raise ValueError(f"{shown} is no http or https address, such as http://127.0.0.1:11434/v1")
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
