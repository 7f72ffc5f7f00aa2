"""Print the questions to the judge, the agreement of its scores with people, its drift, and pass rates."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from rich.table import Table
from rich.text import Text

from agenteval_collector.cli.terminal import console, content, table
from agenteval_collector.serve.api.answers import Interval, Listing
from agenteval_collector.serve.api.figure_documents import AgreementDocument, DriftDocument, QualityDocument
from agenteval_collector.serve.api.trace_documents import ExchangeDocument, SessionDocument, TraceDocument
from agenteval_collector.serve.web.formats import (
    agent_words,
    believed,
    moment,
    money,
    number,
    oneline,
    p_value,
    rate_notes,
    seconds,
)

_FIGURES = {
    "kappa": "kappa",
    "sensitivity": "sensitivity",
    "specificity": "specificity",
    "spearman": "spearman",
    "pearson": "pearson",
    "mean_absolute_difference": "difference",
}
_SHOWN = ("kappa", "sensitivity", "specificity", "pearson")
"""The figures that the table has room for; `--json` has all."""
_WIDTH = 20
"""Width in characters of the bar for rates from 0 to 1."""
_Text: TypeAlias = Literal["instructions", "data", "reply", "problem"]
_TEXTS: Mapping[str, _Text] = {"told": "instructions", "data": "data", "reply": "reply", "problem": "problem"}


def show_judgements(
    subject: TraceDocument | SessionDocument, exchanges: Sequence[ExchangeDocument], *, full: bool
) -> None:
    """Print each question to the judge with its reply. Texts are cut unless `full` is True."""
    out = console()
    if not exchanges:
        if any(outcome["method"] == "llm" and outcome["status"] == "scored" for outcome in subject["outcomes"]):
            # The judge has scored it, so there were questions once.
            out.print(Text("What the judge was asked about it is not kept any more.", "dim"))
        return
    requests = sum(not exchange["cached"] for exchange in exchanges)
    out.print()
    out.print(f"Requests to the judge: {requests}; answers known from earlier ones: {len(exchanges) - requests}.")
    for exchange in exchanges:
        out.print()
        head = f"{exchange['question']} (version {exchange['version']})"
        out.print(content(head, "bold"), content(_facts(exchange), "dim"))
        texts = Table.grid(padding=(0, 2))
        texts.add_column(width=7)
        texts.add_column(overflow="fold")
        for what, key in _TEXTS.items():
            if (whole := exchange[key]) is not None:
                text = whole if full else oneline(whole)
                texts.add_row(Text(what, "dim"), content(text, "red" if key == "problem" else "", lines=True))
        out.print(texts)


def show_agreement(items: Sequence[AgreementDocument]) -> None:
    """Print a table of evaluators with their figures. Below it, print who labelled, and why figures are undefined."""
    out = console()
    if not items:
        out.print("Nothing to compare: no score has a label. Give some: `agenteval label TRACE NAME VALUE`.")
        out.print("A label counts once its trace has a score of that NAME; most scores take a judge (docs/judge.md).")
        return
    figures = ("labels", *_SHOWN, "scores over time", "labels over time")
    evaluators = table("evaluator", "labels by", *figures, right=figures)
    alike = Counter((item["name"], item["source"]) for item in items)
    rows = [_row(item, alike[item["name"], item["source"]] > 1) for item in items]
    for item, row in zip(items, rows, strict=True):
        evaluators.add_row(
            content(row),
            content(item["source"]),
            str(item["labels"]),
            *(_figure(item, name) for name in _SHOWN),
            _drift(item, "mean_score"),
            _drift(item, "mean_label"),
        )
    out.print(evaluators)
    for item in items:
        labellers = ", ".join(
            f"{labeller['author'] or item['source']} {labeller['labels']}" for labeller in item["labelled_by"]
        )
        out.print(content(f"{_full_name(item)} was labelled by: {labellers}", "dim"))
    for item, row in zip(items, rows, strict=True):
        without: dict[str, list[str]] = {}
        for name, reason in item["reasons"].items():
            without.setdefault(reason, []).append(_FIGURES[name])
        for reason, names in sorted(without.items()):
            out.print(content(f"{row}, labels by {item['source']}: no {', '.join(names)}: {reason}", "dim"))


def show_drifts(items: Sequence[DriftDocument]) -> None:
    """Print a table of evaluators, and below it the traces that changed between pass and fail."""
    out = console()
    if not any(item["traces"] for item in items):
        out.print("No judge was asked again about a trace yet. With a judge, that happens daily (judge.canaries).")
        return
    numbers = ("traces", "higher", "lower", "flips", "p")
    evaluators = table("evaluator", "model", "before", *numbers, "", right=numbers)
    for item in items:
        evaluators.add_row(
            content(item["name"]),
            content(f"{item['model']}, version {item['version']}"),
            content(item["was"] or "–"),
            str(item["traces"]),
            str(item["higher"]),
            str(item["lower"]),
            str(len(item["flips"])),
            p_value(item["p_value"]),
            Text("drifted", "red") if item["drifted"] else Text(""),
        )
    out.print(evaluators)
    flips = table("flipped", "trace", "before", "after", "reason now", right=("before", "after"))
    for item in items:
        for flip in item["flips"]:
            scores = number(flip["before"]), number(flip["after"])
            flips.add_row(content(item["name"]), content(flip["trace_id"]), *scores, content(oneline(flip["reason"])))
    if flips.row_count:
        out.print()
        out.print(flips)


def _facts(exchange: ExchangeDocument) -> str:
    facts = [exchange["model"], moment(exchange["asked_at"])]
    if exchange["cached"]:
        facts.append("known from an earlier request")
    elif exchange["seconds"] is not None:
        facts.append(seconds(exchange["seconds"]))
    if exchange["input_tokens"] is not None and exchange["output_tokens"] is not None:
        facts.append(f"{exchange['input_tokens']} + {exchange['output_tokens']} tokens")
    if exchange["usd"] is not None:
        facts.append(money(exchange["usd"]))
    return ", ".join(facts)


def _row(item: AgreementDocument, alike: bool) -> str:
    """Return the name of a row: with the evaluator's version and model if another row has the same name."""
    return _full_name(item) if alike else item["name"]


def _full_name(item: AgreementDocument) -> str:
    return f"{item['name']} ({item['method']}, version {item['evaluator_version']}, {item['model'] or 'no model'})"


def _figure(item: AgreementDocument, name: str) -> Text:
    value = item["metrics"][name]
    if value is None:
        return Text("–", "dim")
    low, high = item["intervals"].get(name, (value, value))
    return Text(f"{number(value)} [{number(low)}, {number(high)}]")


def _drift(item: AgreementDocument, key: Literal["mean_score", "mean_label"]) -> str:
    """Return the mean over the older half and the mean over the newer half."""
    older, newer = item["older"], item["newer"]
    return "–" if older is None or newer is None else f"{number(older[key])} → {number(newer[key])}"


def show_quality(page: Listing[QualityDocument]) -> None:
    """Print a table of pass rates with a bar for each interval. Below it, print the notes on each row."""
    out = console()
    if not page["items"]:
        out.print("No rates: no judge has scored a trace that was drawn at random, or none by that filter.")
        return
    figures = ("rate", "95 %", "at any time", "judged", "labels", "sensitivity", "specificity")
    rates = table("evaluator", "agent", "version", *figures[:3], "", "by", *figures[3:], right=figures)
    for item in page["items"]:
        rates.add_row(
            content(item["name"]),
            content(agent_words(item["agent"], item["service"]), "" if item["agent"] else "dim"),
            content(item["version"] or "–"),
            number(item["estimate"]),
            _range(item["interval"]),
            _range(item["sequence"]),
            Text(interval_bar(item), "cyan"),
            believed(item["estimator"]),
            str(item["judged"]),
            str(item["labelled"]),
            _with_interval(item["sensitivity"], item["sensitivity_interval"]),
            _with_interval(item["specificity"], item["specificity_interval"]),
        )
    out.print(rates)
    if any(item["sequence"] for item in page["items"]):
        out.print(Text("95 %: for one look. At any time: holds however often you look while labels come in.", "dim"))
    for item in page["items"]:
        if notes := rate_notes(item):
            row = f"{item['name']}, {agent_words(item['agent'], item['service'])} {item['version'] or ''}".rstrip()
            out.print(content(f"{row}: {'; '.join(notes)}.", "dim"))


def _range(interval: Interval | None) -> str:
    return "–" if interval is None else "–".join(map(number, interval))


def interval_bar(item: QualityDocument) -> str:
    """Draw the estimate as a dot on its interval, in the range from 0 to 1."""
    if item["estimate"] is None:
        return ""
    low, high = map(_column, item["interval"] or (item["estimate"],) * 2)
    line = "".join("━" if low <= at <= high else "·" for at in range(_WIDTH))
    at = _column(item["estimate"])
    return f"{line[:at]}●{line[at + 1 :]}"


def _column(rate: float) -> int:
    # A rate of 1 lies in the last column, not behind it.
    return min(_WIDTH - 1, int(rate * _WIDTH))


def _with_interval(value: float | None, interval: Interval | None) -> str:
    if value is None or interval is None:
        return "–"
    low, high = interval
    return f"{number(value)} [{number(low)}, {number(high)}]"
