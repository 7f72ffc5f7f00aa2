"""A model server to test agents against, over real HTTP and without a key: it knows the weather in two cities.

It speaks OpenAI's chat completions (streamed too) and responses, and Anthropic's messages. The model asks for
`get_weather` with the city that the user asked about last. Once it has the result, it answers with one sentence:
through the tool `final_answer` where the agent offers that, else as text.

    python -m tests.support.model_server
    OPENAI_BASE_URL=http://127.0.0.1:PORT/v1 OPENAI_API_KEY=none python examples/frameworks/openai_agent.py
"""

import json
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self, TypeAlias
from uuid import uuid4

Json: TypeAlias = dict[str, Any]

ANSWERS = {"Paris": "It is sunny in Paris.", "Atlantis": "There is no weather for Atlantis."}
"""What the model says of each city once `get_weather` has answered or failed."""

_ASKED = re.compile(rf"({'|'.join(ANSWERS)})\?")


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model says: a text, or a request for one tool with its arguments."""

    city: str
    text: str = ""
    tool: str | None = None
    arguments: Mapping[str, str] = field(default_factory=dict)
    call_id: str = ""


def reply_to(request: Mapping[str, Any]) -> Reply:
    """Decide from the conversation alone, so that agents may ask at the same time. Raises ValueError if it asks
    about none."""
    messages = request.get("messages") or request.get("input") or []
    messages = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
    city, was_called = _question(request, messages)
    call_id = f"call_{uuid4().hex}"
    if not was_called:
        return Reply(city, tool="get_weather", arguments={"city": city}, call_id=call_id)
    if "final_answer" in json.dumps(request.get("tools", ())):
        return Reply(city, tool="final_answer", arguments={"answer": ANSWERS[city]}, call_id=call_id)
    return Reply(city, ANSWERS[city])


def _question(request: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> tuple[str, bool]:
    """Return the city that the user asked about last, and whether the tool was called since."""
    for since, message in enumerate(reversed(messages)):
        if message.get("role") == "user":
            *_, city, rest = [None, *_ASKED.split(json.dumps(message.get("content")))]
            if city:
                # smolagents tells of a tool's error behind the question, in the same message.
                return city, since > 0 or "Error" in rest
    # The server keeps the conversation: what was asked before stands in the id of our response.
    if previous := request.get("previous_response_id"):
        return previous.split("_")[1], True
    raise ValueError(f"the user asks about none of {', '.join(ANSWERS)}")


def completion(request: Mapping[str, Any], reply: Reply) -> Json:
    """`POST /chat/completions`"""
    message: Json = {"role": "assistant", "content": reply.text or None}
    if reply.tool:
        function = {"name": reply.tool, "arguments": json.dumps(reply.arguments)}
        message["tool_calls"] = [{"id": reply.call_id, "type": "function", "function": function}]
    finish = "tool_calls" if reply.tool else "stop"
    return {
        "id": f"chatcmpl-{uuid4().hex}",
        "object": "chat.completion",
        "created": 0,
        "model": request.get("model"),
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25},
    }


def completion_events(request: Mapping[str, Any], reply: Reply) -> Iterable[Json]:
    """The same, streamed: the reply in one chunk, how it ended in another, the usage in a third."""
    whole = completion(request, reply)
    choice, usage = whole.pop("choices")[0], whole.pop("usage")
    chunk = {**whole, "object": "chat.completion.chunk"}
    calls = [{"index": 0, **call} for call in choice["message"].pop("tool_calls", ())]
    delta = {**choice["message"], "tool_calls": calls} if calls else choice["message"]
    yield {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]}
    yield {**chunk, "choices": [], "usage": usage}


def response(request: Mapping[str, Any], reply: Reply) -> Json:
    """`POST /responses`"""
    if reply.tool:
        item: Json = {"type": "function_call", "id": f"fc_{reply.call_id}", "call_id": reply.call_id}
        item |= {"name": reply.tool, "arguments": json.dumps(reply.arguments), "status": "completed"}
    else:
        part = {"type": "output_text", "text": reply.text, "annotations": []}
        item = {
            "type": "message",
            "id": f"msg_{uuid4().hex}",
            "role": "assistant",
            "status": "completed",
            "content": [part],
        }
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    return {
        "id": f"resp_{reply.city}_{uuid4().hex}",
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "model": request.get("model"),
        "output": [item],
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
        "usage": {"input_tokens": 20, "output_tokens": 5, "total_tokens": 25, **details},
    }


def message(request: Mapping[str, Any], reply: Reply) -> Json:
    """`POST /messages`"""
    block: Json = {"type": "text", "text": reply.text}
    if reply.tool:
        block = {"type": "tool_use", "id": reply.call_id, "name": reply.tool, "input": reply.arguments}
    return {
        "id": f"msg_{uuid4().hex}",
        "type": "message",
        "role": "assistant",
        "model": request.get("model"),
        "content": [block],
        "stop_reason": "tool_use" if reply.tool else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 20, "output_tokens": 5},
    }


_SPOKEN = {"/chat/completions": completion, "/responses": response, "/messages": message}


class _Handler(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        pass

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        path = self.path.partition("?")[0].removeprefix("/v1")
        speak = _SPOKEN.get(path)
        if speak is None:
            self._send(404, json.dumps({"error": {"message": f"no such path: {self.path}"}}))
            return
        try:
            reply = reply_to(request)
        except ValueError as error:
            self._send(400, json.dumps({"error": {"message": str(error)}}))
            return
        if request.get("stream"):
            if speak is not completion:
                self._send(400, json.dumps({"error": {"message": "only chat completions are streamed here"}}))
                return
            events = [json.dumps(event) for event in completion_events(request, reply)]
            self._send(200, "".join(f"data: {event}\n\n" for event in [*events, "[DONE]"]), "text/event-stream")
        else:
            self._send(200, json.dumps(speak(request, reply)))

    def _send(self, status: int, text: str, sort: str = "application/json") -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", sort)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class ModelServer:
    """The server on a thread, on a free port of this machine; a context manager."""

    def __init__(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="model-server")

    @property
    def url(self) -> str:
        """Its address without `/v1`."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join(timeout=10)
        self._server.server_close()


if __name__ == "__main__":
    with ModelServer() as server:
        print(f"{server.url}/v1", flush=True)
        threading.Event().wait()
