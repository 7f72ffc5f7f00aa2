"""Results as real services and tools word them: the same told again, with all that differs from call to call, and real
progress in the same form.

Each form gives the result of the `n`-th call. `same` tells the same whatever `n` is. `moving` tells something else each
time. The fields are those of the services' documentation.
"""

# ruff: noqa: E501

import hashlib
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Result = Callable[[int], Any]


@dataclass(frozen=True, slots=True)
class ApiForm:
    """A tool whose arguments are `asked(n)` if they are to be new each time, else `asked(0)`."""

    name: str
    tool: str
    asked: Callable[[int], Any]
    same: Result
    moving: Result

    def told(self, result: Result, n: int, *, is_new: bool) -> Any:
        """The result of call `n`, with `asked(0)` in the place of its own question unless that `is_new`."""
        written = json.dumps(result(n))
        return json.loads(written if is_new else written.replace(_query(n), _query(0)))


def _chance(n: int, salt: str = "") -> random.Random:
    return random.Random(f"{n}{salt}")


def _hex(n: int, digits: int, salt: str = "") -> str:
    return hashlib.sha256(f"{n}{salt}".encode()).hexdigest()[:digits]


def _uuid(n: int, salt: str = "") -> str:
    text = _hex(n, 32, salt)
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:]}"


def _clock(n: int, seconds: int = 7) -> str:
    at = 36000 + n * seconds
    return f"{at // 3600:02d}:{at // 60 % 60:02d}:{at % 60:02d}"


def _iso(n: int) -> str:
    return f"2026-11-22T{_clock(n)}.{_chance(n, 'ms').randrange(1000):03d}Z"


def _ms(n: int, low: int = 2, high: int = 40) -> int:
    return _chance(n, "took").randrange(low, high)


def _epoch(n: int) -> int:
    return 1795341600 + 9 * n


def _query(n: int) -> str:
    words = ("reset pin", "pin reset code", "how to reset a pin", "change the pin code", "forgot my pin", "new pin code",
             "pin code lost", "recover the pin")  # fmt: skip
    return words[n % len(words)]


NOUNS = ("apple", "bridge", "candle", "dragon", "engine", "forest", "garden", "harbour", "island", "jacket", "kettle",
         "ladder", "mirror", "needle", "orchard", "pencil")  # fmt: skip


def _noun(n: int) -> str:
    return NOUNS[n % len(NOUNS)]


def _elasticsearch(n: int, hits: list[Any], total: int) -> Any:
    return {
        "took": _ms(n),
        "timed_out": False,
        "_shards": {"total": 5, "successful": 5, "skipped": 0, "failed": 0},
        "hits": {"total": {"value": total, "relation": "eq"}, "max_score": None if not hits else 1.0, "hits": hits},
    }


def _tavily(n: int, query: str, results: list[Any]) -> Any:
    return {
        "query": query,
        "follow_up_questions": None,
        "answer": None,
        "images": [],
        "results": results,
        "response_time": round(_ms(n) / 17, 2),
        "request_id": _uuid(n),
    }


def _mcp(text: str, n: int) -> Any:
    return {
        "content": [{"type": "text", "text": text}],
        "isError": False,
        "_meta": {"requestId": _uuid(n), "ts": _epoch(n)},
    }


def _page(n: int) -> str:
    return (
        f"Guide to the {_noun(n)}: everything a reader may want to know about a {_noun(n + 3)} and its {_noun(n + 5)}."
    )


ARTICLE = (
    "To change the code of your card open the app, choose Cards, then Security, and follow the steps on the screen. "
    "The new code is valid at once. If the app asks for the old code and you do not know it, call us."
)

TUNED = (
    ApiForm(
        "Elasticsearch, nothing found", "search_index", lambda n: {"index": "docs", "query": _query(n)},
        lambda n: _elasticsearch(n, [], 0),
        lambda n: _elasticsearch(n, [{"_id": _hex(n, 12), "_score": 1.2, "_source": {"title": _page(n)}}], n + 1),
    ),
    ApiForm(
        "Tavily, the same page", "tavily_search", lambda n: {"query": _query(n)},
        lambda n: _tavily(n, _query(n), [{"title": "Card help", "url": "https://bank.example/help", "content": ARTICLE, "score": 0.87}]),
        lambda n: _tavily(n, _query(n), [{"title": _noun(n), "url": f"https://{_noun(n)}.example", "content": _page(n), "score": 0.8}]),
    ),
    ApiForm(
        "MCP content list", "docs_search", lambda n: {"q": _query(n)},
        lambda n: _mcp(ARTICLE, n), lambda n: _mcp(_page(n), n),
    ),
    ApiForm(
        "JSON-RPC", "wiki_search", lambda n: {"text": _query(n)},
        lambda n: {"jsonrpc": "2.0", "id": n + 17, "result": {"pages": [{"title": "Card", "text": ARTICLE}]}},
        lambda n: {"jsonrpc": "2.0", "id": n + 17, "result": {"pages": [{"title": _noun(n), "text": _page(n)}]}},
    ),
    ApiForm(
        "webpack build log", "run_build", lambda n: {"flags": _query(n)},
        lambda n: f"[{_clock(n)}] Compiling...\n[{_clock(n, 9)}] ERROR in ./src/app.tsx 12:5\nTS2304: Cannot find name 'Foo'.\nwebpack 5.88.2 compiled with 1 error in {_ms(n, 900, 4000)} ms",
        lambda n: f"[{_clock(n)}] Compiling...\n[{_clock(n, 9)}] ERROR in ./src/{_noun(n)}.tsx 12:5\nTS2304: Cannot find name '{_noun(n + 1)}'.\nwebpack 5.88.2 compiled with {20 - n} errors in {_ms(n, 900, 4000)} ms",
    ),
    ApiForm(
        "npm install", "npm", lambda n: {"args": _query(n)},
        lambda n: f"npm ERR! code ERESOLVE\nnpm ERR! ERESOLVE unable to resolve dependency tree\nnpm ERR! Found: react@18.2.0\nnpm ERR! A complete log of this run can be found in: /root/.npm/_logs/2026-11-22T{_clock(n).replace(':', '_')}_{_ms(n, 100, 999)}Z-debug-0.log",
        lambda n: f"added {30 + 7 * n} packages, and audited {90 + 8 * n} packages in {_ms(n)}s\n\nfound 0 vulnerabilities\n{_page(n)}",
    ),
    ApiForm(
        "pytest", "run_tests", lambda n: {"options": _query(n)},
        lambda n: f"============ test session starts ============\ncollected 10 items\n\ntests/test_tax.py F.........\n\nE   assert 19 == 20\n============ 1 failed, 9 passed in {_ms(n) / 100:.2f}s ============",
        lambda n: f"============ test session starts ============\ncollected 30 items\n\ntests/test_tax.py FF........\n\n============ {20 - n} failed, {10 + n} passed in {_ms(n) / 100:.2f}s ============",
    ),
    ApiForm(
        "Slack search", "slack_search_messages", lambda n: {"query": _query(n)},
        lambda n: {"ok": True, "query": _query(n), "messages": {"total": 0, "matches": []}, "response_metadata": {"request_id": _hex(n, 10)}},
        lambda n: {"ok": True, "query": _query(n), "messages": {"total": n + 1, "matches": [{"text": _page(n), "ts": f"{_epoch(n)}.000200"}]}},
    ),
    ApiForm(
        "Serper", "google_search", lambda n: {"q": _query(n)},
        lambda n: {"searchParameters": {"q": _query(n), "type": "search", "engine": "google"}, "organic": [{"title": "Card help", "link": "https://bank.example", "snippet": ARTICLE, "position": 1}], "credits": 1},
        lambda n: {"searchParameters": {"q": _query(n), "type": "search", "engine": "google"}, "organic": [{"title": _noun(n), "link": f"https://{_noun(n)}.example", "snippet": _page(n), "position": 1}], "credits": 1},
    ),
    ApiForm(
        "SQL rows with a footer", "search_rows", lambda n: {"sql": f"select name, total from orders where note like '%{_query(n)}%'"},
        lambda n: f" name | total\n------+-------\n Ann  |    12\n Bob  |     7\n(2 rows)\n\nTime: {_ms(n)}.{_ms(n)} ms",
        lambda n: f" name | total\n------+-------\n {_noun(n)}  |    {n * 7}\n {_noun(n + 4)}  |     {n * 3}\n(2 rows)\n\nTime: {_ms(n)}.{_ms(n)} ms",
    ),
    ApiForm(
        "GitHub search", "search_issues", lambda n: {"q": _query(n)},
        lambda n: {"total_count": 0, "incomplete_results": False, "items": [], "rate_limit": {"remaining": 29 - n, "reset": _epoch(n)}},
        lambda n: {"total_count": 3, "incomplete_results": False, "items": [{"number": 100 + n, "title": _page(n), "created_at": _iso(n)}], "rate_limit": {"remaining": 29 - n}},
    ),
    ApiForm(
        "Jira search", "jira_search", lambda n: {"jql": f'text ~ "{_query(n)}"'},
        lambda n: {"expand": "schema,names", "startAt": 0, "maxResults": 50, "total": 0, "issues": [], "requestId": _uuid(n)},
        lambda n: {"expand": "schema,names", "startAt": 0, "maxResults": 50, "total": 1, "issues": [{"key": f"OPS-{n}", "fields": {"summary": _page(n)}}]},
    ),
    ApiForm(
        "browser snapshot", "browser_find", lambda n: {"text": _query(n)},
        lambda n: f"### Page state\n- Page URL: https://shop.example/cart\n- Page Title: Cart\n- Page Snapshot:\n```yaml\n- banner [ref=e{n * 40 + 3}]:\n  - link \"Home\" [ref=e{n * 40 + 4}]\n- main [ref=e{n * 40 + 9}]:\n  - heading \"Your cart is empty\" [level=1] [ref=e{n * 40 + 11}]\n  - button \"Continue shopping\" [ref=e{n * 40 + 12}]\n```",
        lambda n: f"### Page state\n- Page URL: https://shop.example/{_noun(n)}\n- Page Title: {_noun(n)}\n- Page Snapshot:\n```yaml\n- banner [ref=e{n * 40 + 3}]:\n- main [ref=e{n * 40 + 9}]:\n  - heading \"{_page(n)}\" [level=1] [ref=e{n * 40 + 11}]\n```",
    ),
    ApiForm(
        "shell with a prompt", "terminal_search", lambda n: {"command": f"grep -rn '{_query(n)}' ."},
        lambda n: f"\x1b[32muser@host\x1b[0m:~/app [{_clock(n)}]$ grep\n./docs/help.md:4: call us to change the code of your card, the branch is open from nine to five\nuser@host:~/app [{_clock(n, 8)}]$ ",
        lambda n: f"\x1b[32muser@host\x1b[0m:~/app [{_clock(n)}]$ grep\n./docs/{_noun(n)}.md:{n + 3}: {_page(n)}\nuser@host:~/app [{_clock(n, 8)}]$ ",
    ),
    ApiForm(
        "weather", "search_weather", lambda n: {"place": _query(n)},
        lambda n: {"location": {"name": "Porto", "localtime": f"2026-11-22 {_clock(n)[:5]}", "localtime_epoch": _epoch(n)}, "current": {"last_updated": f"2026-11-22 {_clock(n)[:5]}", "temp_c": 14.0, "condition": {"text": "Light rain"}, "wind_kph": 11.2}},
        lambda n: {"location": {"name": _noun(n), "localtime": f"2026-11-22 {_clock(n)[:5]}", "localtime_epoch": _epoch(n)}, "current": {"last_updated": f"2026-11-22 {_clock(n)[:5]}", "temp_c": 14.0 + n, "condition": {"text": _page(n)}}},
    ),
    ApiForm(
        "vector store", "retrieve_documents", lambda n: {"query": _query(n), "k": 3},
        lambda n: {"matches": [{"id": "doc-12#4", "score": 0.8312, "metadata": {"text": ARTICLE}}], "namespace": "", "usage": {"readUnits": 6}, "latencyMs": _ms(n)},
        lambda n: {"matches": [{"id": f"doc-{n}#4", "score": 0.8312 - n / 50, "metadata": {"text": _page(n)}}], "namespace": "", "usage": {"readUnits": 6}, "latencyMs": _ms(n)},
    ),
)  # fmt: skip

HELD_BACK = (
    ApiForm(
        "Algolia", "algolia_search", lambda n: {"query": _query(n)},
        lambda n: {"hits": [], "nbHits": 0, "page": 0, "nbPages": 0, "hitsPerPage": 20, "query": _query(n), "params": f"query={_query(n)}", "processingTimeMS": _ms(n), "serverTimeMS": _ms(n + 1)},
        lambda n: {"hits": [{"objectID": f"{n}", "name": _page(n)}], "nbHits": 1, "query": _query(n), "processingTimeMS": _ms(n)},
    ),
    ApiForm(
        "headers before a body", "http_search", lambda n: {"url": f"https://api.example/find?text={_query(n)}"},
        lambda n: f"HTTP/1.1 200 OK\nDate: Sun, 22 Nov 2026 {_clock(n)} GMT\nX-Request-Id: {_uuid(n)}\nCF-RAY: {_hex(n, 16)}-LIS\nContent-Type: text/plain\n\n{ARTICLE}",
        lambda n: f"HTTP/1.1 200 OK\nDate: Sun, 22 Nov 2026 {_clock(n)} GMT\nX-Request-Id: {_uuid(n)}\nContent-Type: text/plain\n\n{_page(n)}",
    ),
    ApiForm(
        "GraphQL", "graphql_search", lambda n: {"query": "query($t: String) { search(t: $t) { text } }", "variables": {"t": _query(n)}},
        lambda n: {"data": {"search": [{"text": ARTICLE}]}, "extensions": {"tracing": {"startTime": _iso(n), "endTime": _iso(n + 1), "duration": _ms(n) * 100000}, "requestId": _hex(n, 20)}},
        lambda n: {"data": {"search": [{"text": _page(n)}]}, "extensions": {"tracing": {"startTime": _iso(n), "duration": _ms(n) * 100000}}},
    ),
    ApiForm(
        "Stripe list", "search_charges", lambda n: {"query": f"metadata['note']:'{_query(n)}'"},
        lambda n: {"object": "search_result", "data": [], "has_more": False, "next_page": None, "total_count": 0, "url": "/v1/charges/search", "request_id": f"req_{_hex(n, 14)}"},
        lambda n: {"object": "search_result", "data": [{"id": f"ch_{_hex(n, 20)}", "amount": 100 * n, "description": _page(n)}], "has_more": False},
    ),
    ApiForm(
        "cargo build", "cargo_check", lambda n: {"args": _query(n)},
        lambda n: f"   Compiling app v0.1.0 (/work)\nerror[E0425]: cannot find value `total` in this scope\n --> src/main.rs:14:9\nerror: could not compile `app` (bin \"app\") due to 1 previous error\nbuild took {_ms(n) / 10:.1f}s, pid {4000 + n * 13}",
        lambda n: f"   Compiling app v0.1.0 (/work)\nerror[E0425]: cannot find value `{_noun(n)}` in this scope\n --> src/{_noun(n + 2)}.rs:{n}:9\nerror: could not compile `app` (bin \"app\") due to {15 - n} previous errors",
    ),
    ApiForm(
        "OCR of a screen", "find_on_screen", lambda n: {"what": _query(n)},
        lambda n: _noisy(f"Welcome back, please choose one of the options below to go on with your order. Delivery is free from thirty euros. {ARTICLE} Terms and conditions apply, see the notes at the end of the page for all the details of this offer.", n),
        lambda n: f"Chapter {n}. {_page(n)} {_page(n + 7)} {_page(n + 9)} {_page(n + 2)} {_page(n + 11)}",
    ),
    ApiForm(
        "Solr", "solr_search", lambda n: {"q": _query(n)},
        lambda n: {"responseHeader": {"status": 0, "QTime": _ms(n), "params": {"q": _query(n), "_": str(_epoch(n) * 1000)}}, "response": {"numFound": 0, "start": 0, "docs": []}},
        lambda n: {"responseHeader": {"status": 0, "QTime": _ms(n)}, "response": {"numFound": 1, "start": 0, "docs": [{"title": _page(n)}]}},
    ),
    ApiForm(
        "CloudWatch logs", "filter_log_events", lambda n: {"pattern": _query(n)},
        lambda n: {"events": [], "searchedLogStreams": [], "ResponseMetadata": {"RequestId": _uuid(n), "HTTPStatusCode": 200, "HTTPHeaders": {"date": f"Sun, 22 Nov 2026 {_clock(n)} GMT", "x-amzn-requestid": _uuid(n)}, "RetryAttempts": 0}},
        lambda n: {"events": [{"timestamp": _epoch(n), "message": _page(n)}], "ResponseMetadata": {"RequestId": _uuid(n)}},
    ),
    ApiForm(
        "docker compose", "compose_up", lambda n: {"profile": _query(n)},
        lambda n: f" Container app-db-1  Starting\n Container app-db-1  Started {_ms(n) / 10:.1f}s\nError response from daemon: driver failed programming external connectivity on endpoint app-web-1 ({_hex(n, 64)}): Bind for 0.0.0.0:8080 failed: port is already allocated",
        lambda n: f" Container app-{_noun(n)}-1  Started {_ms(n) / 10:.1f}s\n{_page(n)}",
    ),
    ApiForm(
        "MCP with JSON inside", "kb_lookup", lambda n: {"question": _query(n)},
        lambda n: [{"type": "text", "text": json.dumps({"answer": ARTICLE, "trace_id": _hex(n, 32), "elapsed_ms": _ms(n), "generated_at": _iso(n)})}],
        lambda n: [{"type": "text", "text": json.dumps({"answer": _page(n), "trace_id": _hex(n, 32), "elapsed_ms": _ms(n)})}],
    ),
    ApiForm(
        "Notion search", "notion_search", lambda n: {"query": _query(n)},
        lambda n: {"object": "list", "results": [], "next_cursor": None, "has_more": False, "type": "page_or_database", "page_or_database": {}, "request_id": _uuid(n)},
        lambda n: {"object": "list", "results": [{"object": "page", "id": _uuid(n), "title": _page(n)}], "request_id": _uuid(n, "r")},
    ),
    ApiForm(
        "Prometheus", "search_metrics", lambda n: {"query": f"rate(http_requests_total{{note='{_query(n)}'}}[5m])"},
        lambda n: {"status": "success", "data": {"resultType": "vector", "result": []}, "stats": {"timings": {"evalTotalTime": _ms(n) / 1e5}}},
        lambda n: {"status": "success", "data": {"resultType": "vector", "result": [{"metric": {"job": _noun(n)}, "value": [_epoch(n), str(n * 3)]}]}},
    ),
    ApiForm(
        "kubectl table", "kubectl_find", lambda n: {"selector": _query(n)},
        lambda n: f"NAME                    READY   STATUS             RESTARTS      AGE\nweb-7d4b9c6f5d-x2x9k    0/1     CrashLoopBackOff   5 ({20 + n * 7}s ago)   {6 + n}m{_ms(n, 10, 59)}s\ndb-0                    1/1     Running            0             3d",
        lambda n: f"NAME                    READY   STATUS             RESTARTS      AGE\n{_noun(n)}-7d4b9c6f5d-x2x9k    {n}/9     {_noun(n + 2)}   0   {6 + n}m",
    ),
    ApiForm(
        "Python log", "search_log", lambda n: {"grep": _query(n)},
        lambda n: f"{_iso(n)} INFO  worker-{n % 3} start\n{_iso(n + 1)} WARNING worker-{n % 3} the queue is full and nobody takes anything out of it\n{_iso(n + 2)} INFO  worker-{n % 3} stop after {_ms(n)}ms",
        lambda n: f"{_iso(n)} INFO  worker-1 start\n{_iso(n + 1)} WARNING worker-1 {_page(n)}\n{_iso(n + 2)} INFO  worker-1 stop after {_ms(n)}ms",
    ),
)  # fmt: skip


MORE = (
 ApiForm("OpenSearch aggs","opensearch_query",lambda n:{"body":{"query":{"match":{"t":_query(n)}}}},lambda n:{"took":_ms(n),"hits":{"total":{"value":0},"max_score":None,"hits":[]},"aggregations":{"by":{"buckets":[]}}},lambda n:{"took":_ms(n),"hits":{"total":{"value":1},"hits":[{"_id":_hex(n,9),"_source":{"t":_page(n)}}]}}),
 ApiForm("Meilisearch","meili_search",lambda n:{"q":_query(n)},lambda n:{"hits":[],"query":_query(n),"processingTimeMs":_ms(n),"limit":20,"offset":0,"estimatedTotalHits":0},lambda n:{"hits":[{"id":n,"title":_page(n)}],"query":_query(n),"processingTimeMs":_ms(n),"estimatedTotalHits":1}),
 ApiForm("Typesense","typesense_search",lambda n:{"q":_query(n)},lambda n:{"facet_counts":[],"found":0,"hits":[],"out_of":1200,"page":1,"request_params":{"collection_name":"docs","q":_query(n)},"search_cutoff":False,"search_time_ms":_ms(n)},lambda n:{"found":1,"hits":[{"document":{"t":_page(n)}}],"search_time_ms":_ms(n)}),
 ApiForm("Brave web","brave_web_search",lambda n:{"q":_query(n)},lambda n:{"type":"search","query":{"original":_query(n),"spellcheck_off":False},"web":{"type":"search","results":[{"title":"Card help","url":"https://bank.example/h","description":ARTICLE,"page_age":_iso(n)}]}},lambda n:{"type":"search","query":{"original":_query(n)},"web":{"results":[{"title":_noun(n),"url":f"https://{_noun(n)}.example","description":_page(n)}]}}),
 ApiForm("Exa","exa_search",lambda n:{"query":_query(n)},lambda n:{"requestId":_hex(n,32),"autopromptString":_query(n),"resolvedSearchType":"neural","results":[{"id":"https://bank.example/h","title":"Card help","url":"https://bank.example/h","text":ARTICLE,"score":0.81}],"costDollars":{"total":0.005}},lambda n:{"requestId":_hex(n,32),"results":[{"id":f"https://{_noun(n)}.example","title":_noun(n),"text":_page(n)}]}),
 ApiForm("Bing","bing_search",lambda n:{"q":_query(n)},lambda n:{"_type":"SearchResponse","queryContext":{"originalQuery":_query(n)},"webPages":{"webSearchUrl":f"https://www.bing.com/search?q={_query(n)}","totalEstimatedMatches":1,"value":[{"id":"https://api.bing.microsoft.com/api/v7/#WebPages.0","name":"Card help","url":"https://bank.example/h","snippet":ARTICLE,"dateLastCrawled":_iso(n)}]}},lambda n:{"_type":"SearchResponse","queryContext":{"originalQuery":_query(n)},"webPages":{"value":[{"name":_noun(n),"url":f"https://{_noun(n)}.example","snippet":_page(n)}]}}),
 ApiForm("Confluence CQL","confluence_search",lambda n:{"cql":f'text ~ "{_query(n)}"'},lambda n:{"results":[],"start":0,"limit":25,"size":0,"totalSize":0,"cqlQuery":f'text ~ "{_query(n)}"',"searchDuration":_ms(n),"_links":{"base":"https://x.example/wiki","context":"/wiki"}},lambda n:{"results":[{"content":{"id":str(n),"title":_page(n)}}],"size":1,"totalSize":1,"searchDuration":_ms(n)}),
 ApiForm("Salesforce SOQL","soql_query",lambda n:{"q":f"SELECT Id FROM Case WHERE Subject LIKE '%{_query(n)}%'"},lambda n:{"totalSize":0,"done":True,"records":[]},lambda n:{"totalSize":1,"done":True,"records":[{"Id":_hex(n,18),"Subject":_page(n)}]}),
 ApiForm("Zendesk search","zendesk_search",lambda n:{"query":_query(n)},lambda n:{"results":[],"facets":None,"next_page":None,"previous_page":None,"count":0},lambda n:{"results":[{"id":n,"subject":_page(n)}],"count":1}),
 ApiForm("LangChain documents repr","retriever",lambda n:{"query":_query(n)},lambda n:f"[Document(id='{_uuid(3)}', metadata={{'source': 'help.md', 'relevance_score': {0.8+_ms(n)/10000:.4f}}}, page_content='{ARTICLE}')]",lambda n:f"[Document(id='{_uuid(n)}', metadata={{'source': '{_noun(n)}.md'}}, page_content='{_page(n)}')]"),
 ApiForm("curl -i","shell",lambda n:{"command":f"curl -si 'https://api.example/find?q={_query(n)}'"},lambda n:f"HTTP/2 404\r\ndate: Sun, 22 Nov 2026 {_clock(n)} GMT\r\ncontent-type: application/json\r\nx-request-id: {_uuid(n)}\r\ncf-ray: {_hex(n,16)}-LIS\r\n\r\n{{\"error\":\"not found\"}}",lambda n:f"HTTP/2 200\r\ndate: Sun, 22 Nov 2026 {_clock(n)} GMT\r\n\r\n{{\"name\":\"{_page(n)}\"}}"),
 ApiForm("curl progress","bash",lambda n:{"command":f"curl https://x.example/{_query(n)}"},lambda n:f"  % Total    % Received % Xferd  Average Speed   Time    Time     Time  Current\n                                 Dload  Upload   Total   Spent    Left  Speed\n100   {_ms(n)}  100   {_ms(n)}    0     0   {_ms(n)*7}      0 --:--:-- --:--:-- --:--:--   {_ms(n)*7}\n<html><body>{ARTICLE}</body></html>",lambda n:f"  % Total    % Received % Xferd\n100   {_ms(n)}\n<html><body>{_page(n)} {_page(n+4)}</body></html>"),
 ApiForm("gradle","run_gradle",lambda n:{"task":_query(n)},lambda n:f"> Task :compileJava FAILED\n/src/App.java:12: error: cannot find symbol\n  symbol: class Foo\n1 error\nFAILURE: Build failed with an exception.\nBUILD FAILED in {_ms(n)}s\n1 actionable task: 1 executed",lambda n:f"> Task :{_noun(n)} FAILED\n/src/{_noun(n)}.java:{n}: error: cannot find symbol {_noun(n+2)}\nBUILD FAILED in {_ms(n)}s"),
 ApiForm("jest","npm_test",lambda n:{"pattern":_query(n)},lambda n:f"FAIL src/tax.test.js ({_ms(n)/10:.3f} s)\n  ● adds\n    expect(received).toBe(expected)\n    Expected: 20\n    Received: 19\nTests:       1 failed, 9 passed, 10 total\nTime:        {_ms(n)/10:.3f} s",lambda n:f"FAIL src/{_noun(n)}.test.js\n  ● {_page(n)}\nTests:       {20-n} failed, {n} passed, 20 total"),
 ApiForm("psql error","psql",lambda n:{"sql":f"select * from {_query(n).replace(' ','_')}"},lambda n:f'ERROR:  relation "{_query(n).replace(" ","_")}" does not exist\nLINE 1: select * from {_query(n).replace(" ","_")}\n                      ^',lambda n:f" name\n------\n {_noun(n)}\n(1 row)\n\nTime: {_ms(n)}.2 ms"),
 ApiForm("BigQuery job","bigquery_query",lambda n:{"sql":f"select 1 from d.t where note='{_query(n)}'"},lambda n:{"kind":"bigquery#queryResponse","jobReference":{"projectId":"p","jobId":f"job_{_hex(n,28)}"},"totalRows":"0","totalBytesProcessed":"1024","jobComplete":True,"cacheHit":bool(n%2)},lambda n:{"jobReference":{"jobId":f"job_{_hex(n,28)}"},"totalRows":"1","rows":[{"f":[{"v":_page(n)}]}],"jobComplete":True}),
 ApiForm("DynamoDB scan","dynamodb_scan",lambda n:{"filter":_query(n)},lambda n:{"Items":[],"Count":0,"ScannedCount":44,"ResponseMetadata":{"RequestId":_hex(n,52).upper(),"HTTPStatusCode":200,"HTTPHeaders":{"date":f"Sun, 22 Nov 2026 {_clock(n)} GMT","x-amz-crc32":str(_ms(n)*7919)},"RetryAttempts":0}},lambda n:{"Items":[{"t":{"S":_page(n)}}],"Count":1,"ScannedCount":44}),
 ApiForm("Kubernetes events","kubectl_get_events",lambda n:{"selector":_query(n)},lambda n:f"LAST SEEN   TYPE      REASON    OBJECT       MESSAGE\n{n+2}m{_ms(n)%60}s      Warning   BackOff   pod/web-0    Back-off restarting failed container\n{n+9}m         Normal    Pulled    pod/web-0    Container image already present on machine",lambda n:f"LAST SEEN   TYPE   REASON   OBJECT   MESSAGE\n{n}m   Normal   Pulled   pod/{_noun(n)}   {_page(n)}"),
 ApiForm("Gmail list","gmail_search",lambda n:{"q":_query(n)},lambda n:{"resultSizeEstimate":0},lambda n:{"messages":[{"id":_hex(n,16),"threadId":_hex(n,16),"snippet":_page(n)}],"resultSizeEstimate":1}),
 ApiForm("Google Places","places_search",lambda n:{"query":_query(n)},lambda n:{"html_attributions":[],"results":[],"status":"ZERO_RESULTS"},lambda n:{"html_attributions":[],"results":[{"name":_noun(n),"formatted_address":_page(n)}],"status":"OK"}),
 ApiForm("Wikipedia","wikipedia",lambda n:{"title":_query(n)},lambda n:f"Could not find [{_query(n)}]. Similar: ['Card security code', 'Personal identification number', 'Payment card', 'Bank card'].",lambda n:f"{_page(n)} {_page(n+5)}"),
 ApiForm("AX tree","browser_get_text",lambda n:{"find":_query(n)},lambda n:f"[{n*30+1}] RootWebArea 'Cart'\n\t[{n*30+5}] link 'Home'\n\t[{n*30+6}] link 'Sale'\n\t[{n*30+9}] heading 'Your cart is empty'\n\t[{n*30+14}] button 'Continue shopping'\n\t[{n*30+15}] StaticText 'Delivery is free from thirty euros'",lambda n:f"[{n*30+1}] RootWebArea '{_noun(n)}'\n\t[{n*30+5}] heading '{_page(n)}'\n\t[{n*30+6}] link '{_noun(n+5)}'"),
 ApiForm("XML SOAP","soap_find",lambda n:{"text":_query(n)},lambda n:f"<?xml version='1.0'?><soap:Envelope><soap:Header><MessageID>urn:uuid:{_uuid(n)}</MessageID><Timestamp>{_iso(n)}</Timestamp></soap:Header><soap:Body><FindResponse><Item><Text>{ARTICLE}</Text></Item></FindResponse></soap:Body></soap:Envelope>",lambda n:f"<?xml version='1.0'?><soap:Envelope><soap:Header><MessageID>urn:uuid:{_uuid(n)}</MessageID></soap:Header><soap:Body><FindResponse><Item><Text>{_page(n)}</Text></Item></FindResponse></soap:Body></soap:Envelope>"),
 ApiForm("terraform plan","terraform",lambda n:{"args":_query(n)},lambda n:f"aws_s3_bucket.b: Refreshing state... [id=b-77]\n╷\n│ Error: Unsupported argument\n│   on main.tf line 4, in resource \"aws_s3_bucket\" \"b\":\n│    4:   acl_mode = \"private\"\n╵\nReleasing state lock. Lock id {_uuid(n)} after {_ms(n)}s",lambda n:f"aws_{_noun(n)}.b: Refreshing state...\nPlan: {n} to add, 0 to change. {_page(n)}"),
 ApiForm("yfinance","stock_news_search",lambda n:{"q":_query(n)},lambda n:{"explains":[],"count":0,"quotes":[],"news":[],"totalTime":_ms(n),"timeTakenForQuotes":_ms(n+1),"timeTakenForNews":0},lambda n:{"count":1,"news":[{"title":_page(n)}],"totalTime":_ms(n)}),
)  # fmt: skip


def _noisy(text: str, n: int) -> str:
    """A text as it is read from a picture: some letters are read wrongly, other ones each time."""
    chance, letters = _chance(n, "ocr"), list(text)
    for _ in range(len(letters) // 60):
        letters[chance.randrange(len(letters))] = chance.choice("il1|oO0ec")
    return "".join(letters)
