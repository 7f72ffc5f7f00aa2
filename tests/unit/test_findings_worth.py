"""The figures on what findings are worth."""

from benchmarks.findings_worth import look, table
from benchmarks.workload.conversation import Call, Conversation, Step, Turn


def conversation(number: int, result: str, *, success: bool) -> Conversation:
    asks = Step(text=None, calls=(Call(call_id="1", name="get_order", arguments="{}", result=result),))
    return Conversation(
        session_id=f"s-{number}",
        task_id=str(number),
        run_id="0",
        success=success,
        turns=(Turn(question="Where is it?", steps=(asks, Step(text="Here."))),),
    )


def test_conversations_with_a_finding_are_compared_with_those_without() -> None:
    conversations = [conversation(number, "Error: not found", success=number > 2) for number in range(4)]
    conversations += [conversation(number, "found", success=number > 4) for number in range(4, 10)]
    lines = {line.split("|")[1].strip(): line for line in table([*look(conversations)])}
    assert lines["`tool_failed`"] == ("| `tool_failed` | 4 of 10 | 75% (30% to 95%) of 4 | 17% (3% to 56%) of 6 |")
    assert "| 0 of 10 | – |" in lines["`no_answer`"]
    assert "| 0 of 0 |" in lines["`unusual_effort`"]
