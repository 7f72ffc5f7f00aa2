"""Believe the token counts of a reply only if they can be right.

The endpoint alone counts the tokens, and the budget rests on its counts. An endpoint that reports 0 would never meet a
bound; one that reports millions would use up a day with one request. So each count has a least and a most, from the
bytes that were sent and received.
"""

import json
from dataclasses import replace
from typing import Final

from agenteval_collector.judge.ports import JudgeReply, JudgeRequest

_MOST_BYTES_PER_TOKEN: Final = 16
"""More than the thriftiest tokenizers put into a token on average. OpenAI's o200k_base has 4 to 5 for English and 9
for Hindi."""
_TEMPLATE: Final = 1024
"""Tokens that an endpoint may add to the messages: a chat template, a short prompt of its own."""
_MOST_OUTPUT: Final = 131_072
"""Tokens of one reply, with the thoughts before it. A request names no lower bound, as endpoints do not
agree on its name; no model that is published writes more."""


def believed(reply: JudgeReply, request: JudgeRequest) -> JudgeReply:
    """Return the reply without token counts that cannot be right, and with `usage`, which says whether it had any.

    Messages take a token per 16 bytes at least. With the schema, which an endpoint may write out, they take a token
    per byte at most, as tokenizers fall back to bytes.
    """
    unknown = replace(reply, input_tokens=None, output_tokens=None)
    if reply.input_tokens is None or reply.output_tokens is None:
        return replace(unknown, usage="missing")
    messages = sum(_bytes(message.text) for message in request.messages)
    schema = _bytes(json.dumps(request.schema, default=dict))
    is_input = messages / _MOST_BYTES_PER_TOKEN <= reply.input_tokens <= messages + 2 * schema + _TEMPLATE
    is_output = _bytes(reply.text) / _MOST_BYTES_PER_TOKEN <= reply.output_tokens <= _MOST_OUTPUT
    return replace(reply, usage="reported") if is_input and is_output else replace(unknown, usage="implausible")


def _bytes(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))
