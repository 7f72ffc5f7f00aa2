"""Results of 25 more services and tools, with fields that tell of the call under names that no list has.

Each is an envelope around what was looked for. One half was put aside before it was first looked at: `put_aside`.
"""

# ruff: noqa: E501

import random
from collections.abc import Callable
from typing import Any

from tests.support.api_forms import (
    ARTICLE,
    ApiForm,
    _chance,
    _clock,
    _epoch,
    _hex,
    _iso,
    _ms,
    _page,
    _query,
    _uuid,
)

Envelope = Callable[[int, str], Any]
SEED = 82


def _any(n: int, low: int, high: int, salt: str) -> int:
    return _chance(n, salt).randrange(low, high)


_ENVELOPES: dict[str, tuple[str, Envelope]] = {
    "Elasticsearch async": ("es_async_search", lambda n, text: {"id": _hex(n, 44), "is_running": False, "start_in_millis": _epoch(n) * 1000, "completion_in_millis": _epoch(n) * 1000 + _ms(n), "response": {"hits": {"hits": [{"_source": {"text": text}}]}}}),
    "Stripe with headers": ("stripe_find", lambda n, text: {"object": "list", "data": [{"object": "product", "description": text}], "lastResponse": {"requestId": f"req_{_hex(n, 14)}", "stripeShouldRetry": "false", "idempotent": _uuid(n)}}),
    "GitHub file search": ("github_code_search", lambda n, text: {"data": {"items": [{"path": "docs/help.md", "text": text}]}, "headers": {"x-github-request-id": f"{_hex(n, 4)}:{_hex(n, 6, 'a')}:{_hex(n, 7, 'b')}", "x-ratelimit-used": str(_any(n, 1, 30, "u"))}}),
    "Slack thread": ("slack_thread_search", lambda n, text: {"ok": True, "messages": [{"user": "U7", "text": text}], "cache_ts": _epoch(n), "pin_count": 0, "channel_actions_ts": None, "latest_updates": _hex(n, 16)}),
    "Jira issue": ("jira_text_search", lambda n, text: {"issues": [{"key": "HELP-7", "fields": {"description": text}}], "warningMessages": [], "sessionToken": _hex(n, 20), "serverNonce": _any(n, 10000, 99999, "n")}),
    "Kubernetes list": ("kube_search_configmaps", lambda n, text: {"kind": "List", "metadata": {"resourceVersion": str(_any(n, 1000000, 9999999, "rv")), "continue": ""}, "items": [{"data": {"help": text}}]}),
    "Tavily extract": ("tavily_extract_search", lambda n, text: {"results": [{"url": "https://bank.example/help", "raw_content": text}], "failed_results": [], "wall": _ms(n) / 31, "rid": _hex(n, 24)}),
    "Postgres plan": ("search_by_sql", lambda n, text: f" help\n------\n {text}\n(1 row)\n\n Planning: {_ms(n) / 90:.3f} Execution: {_ms(n, 50, 900) / 70:.3f} buffers hit={_any(n, 3, 900, 'b')}"),
    "MCP with a token": ("mcp_find", lambda n, text: {"content": [{"type": "text", "text": text}], "_meta": {"progressToken": _any(n, 100, 99999, "t"), "vendor/cost": _ms(n)}}),
    "S3 select": ("s3_find", lambda n, text: f"<?xml version='1.0'?><SelectResult><Record>{text}</Record><HostId>{_hex(n, 40)}</HostId><Stats scanned='{_any(n, 900, 99000, 's')}'/></SelectResult>"),
    "GraphQL with cost": ("shopify_search", lambda n, text: {"data": {"pages": [{"body": text}]}, "extensions": {"cost": {"requestedQueryCost": 4, "throttleStatus": {"currentlyAvailable": _any(n, 900, 1990, "c")}}}}),
    "JSON-RPC notified": ("rpc_find", lambda n, text: {"jsonrpc": "2.0", "id": _uuid(n), "result": {"docs": [text], "revision": _hex(n, 8)}}),
    "CLI with a summary": ("ripgrep_search", lambda n, text: f"docs/help.md\n12:{text}\n\n1 match, {_any(n, 10, 900, 'f')} files searched, {_any(n, 4000, 990000, 'b')} bytes, {_ms(n) / 7000:.6f} user {_ms(n) / 5000:.6f} sys"),
    "log with threads": ("log_search", lambda n, text: f"{_clock(n)}.{_ms(n, 100, 999)} [pool-{_any(n, 1, 20, 'p')}-thread-{_any(n, 1, 90, 't')}] WARN c.e.Help - {text}"),
    "HTML with a token": ("site_search", lambda n, text: f"<html><head><meta name='csrf-token' content='{_hex(n, 40)}'><script nonce='{_hex(n, 16, 's')}'></script></head><body data-render='{_any(n, 10, 900, 'r')}'><p>{text}</p></body></html>"),
    "Snowflake": ("snowflake_find", lambda n, text: {"statementHandle": _uuid(n), "createdOn": _epoch(n) * 1000, "data": [[text]], "stats": {"bytesScanned": _any(n, 900, 99000, "b")}}),
    "SerpApi": ("serp_search", lambda n, text: {"search_metadata": {"id": _hex(n, 24), "json_endpoint": f"https://serpapi.example/searches/{_hex(n, 16)}/{_hex(n, 24)}.json", "created_at": _iso(n), "total_time_taken": _ms(n) / 20}, "organic_results": [{"position": 1, "title": "Card help", "snippet": text}]}),
    "HubSpot": ("hubspot_search", lambda n, text: {"results": [{"properties": {"body": text}}], "correlate": _uuid(n), "budget": {"spent": _any(n, 1, 90, "s")}}),
    "Datadog": ("datadog_log_search", lambda n, text: {"data": [{"attributes": {"message": text}}], "meta": {"elapsed": _ms(n), "status": "done", "handle": _hex(n, 30)}}),
    "Loki": ("loki_search", lambda n, text: {"status": "success", "data": {"result": [{"stream": {"app": "help"}, "values": [["1795341600000000000", text]]}], "stats": {"summary": {"bytesProcessedPerSecond": _any(n, 9000, 990000, "b"), "queueShare": _ms(n) / 1e4}}}}),
    "Zendesk article": ("help_center_search", lambda n, text: {"results": [{"title": "Card help", "body": text, "vote_sum": 4}], "count": 1, "facets": None, "served": f"pod{_any(n, 1, 40, 'p')}", "edge": _hex(n, 10)}),
    "MongoDB": ("mongo_find", lambda n, text: {"cursor": {"firstBatch": [{"text": text}], "id": 0}, "ok": 1, "$clusterTime": {"clusterTime": {"$timestamp": {"t": _epoch(n), "i": _any(n, 1, 90, "i")}}, "signature": {"hash": _hex(n, 27)}}}),
    "ANSI table": ("catalog_search", lambda n, text: f"\x1b[1mHELP\x1b[0m\n\x1b[2m#{_any(n, 100, 9999, 'j')}\x1b[0m {text}\nload {_ms(n) / 10:.2f} mem {_any(n, 100, 900, 'm')}M"),
    "YAML": ("confluence_find", lambda n, text: f"page:\n  title: Card help\n  body: {text}\nrender:\n  node: {_hex(n, 6)}\n  millis: {_ms(n)}\n  warm: {str(bool(n % 2)).lower()}"),
    "protobuf text": ("grpc_find", lambda n, text: f'hit {{ title: "Card help" text: "{text}" }} shard: {_any(n, 1, 64, "s")} lease: "{_hex(n, 18)}" cpu_micros: {_any(n, 300, 90000, "c")}'),
}  # fmt: skip


def _form(name: str, tool: str, envelope: Envelope) -> ApiForm:
    return ApiForm(
        name,
        tool,
        lambda n: {"text": _query(n)},
        lambda n: envelope(n, ARTICLE),
        lambda n: envelope(n, _page(n) + " " + _page(n + 4)),
    )


UNLISTED = tuple(_form(name, tool, envelope) for name, (tool, envelope) in _ENVELOPES.items())
PUT_ASIDE = frozenset(random.Random(SEED).sample(sorted(_ENVELOPES), 12))
