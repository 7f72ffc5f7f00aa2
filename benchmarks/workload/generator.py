"""Generated conversations, modelled on 100 recorded ones.

The numbers come from tau-bench's airline domain: tasks 0-24, with four runs each by gpt-4o (sierra-research/tau-bench
59a200c, MIT licence). `python -m benchmarks.workload.measure FILE` prints them: 21 quantiles from least to greatest, or
counts by value. Texts are words of that domain without any meaning. They have the recorded lengths, and repeat one
another about as much as the recorded texts.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Final, TypeVar

from benchmarks.workload.conversation import Call, Conversation, Step, Turn
from benchmarks.workload.vocabulary import WORDS

RUNS_PER_TASK: Final = 4
SUCCESSES_OF_FOUR: Final = {0: 10, 1: 8, 2: 2, 3: 1, 4: 4}
TURNS: Final = (3, 5, 5, 6, 6, 6, 7, 7, 7, 7, 8, 8, 8, 9, 9, 9, 10, 11, 13, 15, 30)
CALLS_PER_TURN: Final = {0: 458, 1: 177, 2: 69, 3: 30, 4: 11, 5: 5, 6: 2, 7: 4, 8: 2, 10: 1, 11: 2, 26: 1}
ENDED_BY_TOOL: Final = 0.2
"""Share of the conversations. The others end with thanks that the agent does not answer."""
REMARKS: Final = 0.072
"""Share of the model calls that ask for a tool which also say something."""
FAILED_CALLS: Final = 0.101

# All lengths are in characters.
QUESTION: Final = (
    *(10, 34, 43, 52, 57, 63, 68, 72, 77, 83, 89),
    *(94, 100, 108, 117, 125, 135, 146, 160, 181, 318),
)
ANSWER: Final = (
    *(46, 115, 124, 137, 154, 174, 186, 204, 224, 244, 264),
    *(282, 315, 350, 393, 427, 458, 528, 598, 719, 1246),
)
ARGUMENTS: Final = (
    *(2, 27, 27, 27, 27, 27, 28, 31, 38, 56, 56),
    *(56, 56, 100, 184, 186, 203, 262, 300, 416, 936),
)
RESULT: Final = (
    *(0, 0, 2, 5, 6, 19, 40, 71, 316, 625, 629),
    *(665, 680, 700, 735, 771, 830, 888, 967, 1261, 8117),
)

TOOL_NAMES: Final = {
    "get_reservation_details": 134,
    "search_direct_flight": 92,
    "update_reservation_flights": 90,
    "calculate": 76,
    "get_user_details": 63,
    "think": 58,
    "book_reservation": 38,
    "search_onestop_flight": 29,
    "transfer_to_human_agents": 18,
    "update_reservation_baggages": 14,
    "cancel_reservation": 5,
    "list_all_airports": 2,
    "update_reservation_passengers": 1,
    "send_certificate": 1,
}

# 0.8 % of the turns have loop_detection below 0.2, and 4.5 % below 0.5. Only 662 of 860 answers have one before them to
# compare with; of these, that is 1.1 % and 5.9 %.
LOOPS: Final = 0.011
"""Share of the answers that repeat the one before, word for word."""
RESTATED: Final = 0.048
"""Share of the answers that restate the one before, with one word in five replaced."""
CHANGED_WORDS: Final = 0.2

TOPIC_WORDS: Final = 65
"""Number of words that one conversation uses. It is chosen so that the median of loop_detection is the recorded 0.85.
"""

T = TypeVar("T")


def generate(count: int, seed: int = 0) -> Iterator[Conversation]:
    """Yield `count` conversations, the same for the same seed. Four runs of a task follow one another."""
    for number in range(count):
        task, run = divmod(number, RUNS_PER_TASK)
        yield _conversation(seed, task, run)


def _conversation(seed: int, task: int, run: int) -> Conversation:
    successes = _choose(Random(f"{seed}/{task}"), SUCCESSES_OF_FOUR)
    random = Random(f"{seed}/{task}/{run}")
    return Conversation(
        session_id=f"generated-{seed}-{task}-{run}",
        task_id=f"{seed}-{task}",
        run_id=str(run),
        success=random.random() < successes / RUNS_PER_TASK,
        turns=tuple(_turns(random)),
    )


def _turns(random: Random) -> Iterator[Turn]:
    topic = random.sample(WORDS, TOPIC_WORDS)
    answer: str | None = None
    for _ in range(_length(random, TURNS) - 1):
        steps = [_asking(random, topic) for _ in range(_choose(random, CALLS_PER_TURN))]
        answer = _next_answer(random, topic, answer)
        yield Turn(question=_text(random, topic, _length(random, QUESTION)), steps=(*steps, Step(text=answer)))
    last = (_asking(random, topic, remark=False),) if random.random() < ENDED_BY_TOOL else ()
    yield Turn(question=_text(random, topic, _length(random, QUESTION)), steps=last)


def _next_answer(random: Random, topic: Sequence[str], before: str | None) -> str:
    kind = random.random()
    if before is None or kind >= LOOPS + RESTATED:
        return _text(random, topic, _length(random, ANSWER))
    if kind < LOOPS:
        return before
    return " ".join(random.choice(WORDS) if random.random() < CHANGED_WORDS else word for word in before.split())


def _asking(random: Random, topic: Sequence[str], *, remark: bool = True) -> Step:
    said = _text(random, topic, _length(random, ANSWER)) if remark and random.random() < REMARKS else None
    failed = random.random() < FAILED_CALLS
    call = Call(
        call_id=f"call_{random.getrandbits(96):024x}",
        name=_choose(random, TOOL_NAMES),
        arguments=_arguments(random, topic),
        result=f"Error: {_text(random, topic, 40)}" if failed else _result(random),
    )
    return Step(text=said, calls=(call,))


def _arguments(random: Random, topic: Sequence[str]) -> str:
    frame = '{"query": ""}'
    length = _length(random, ARGUMENTS) - len(frame)
    return json.dumps({"query": _text(random, topic, length)}) if length > 0 else "{}"


def _result(random: Random) -> str:
    """Return a result: a number if it is short, else records of flights, cut to `length`."""
    length = _length(random, RESULT)
    if length < 20:
        return "".join(random.choices("123456789", k=length))
    records: list[str] = []
    while sum(map(len, records)) < length:
        seats, price = random.randrange(20), random.randrange(50, 900)
        date = f"2024-05-{random.randrange(1, 32):02}"
        flight = {"flight_number": f"HAT{random.randrange(300):03}", "date": date, "price": price, "seats": seats}
        records.append(json.dumps(flight))
    return "[" + ", ".join(records)[: length - 2] + "]"


def _text(random: Random, words: Sequence[str], length: int) -> str:
    """Return words, dates and amounts of about `length` characters, in sentences of about a dozen."""
    parts: list[str] = []
    size = 0
    while size < length:
        word = random.choice(words)
        if random.random() < 0.08:
            word = f"${random.randrange(50, 900)}" if random.random() < 0.5 else f"May {random.randrange(1, 32)},"
        if random.random() < 0.08:
            word += "."
        parts.append(word.capitalize() if not parts or parts[-1].endswith(".") else word)
        size += len(word) + 1
    return " ".join(parts)


def _length(random: Random, quantiles: Sequence[int]) -> int:
    """Return a value between two neighbouring quantiles. Each pair of them is equally likely."""
    index = random.randrange(len(quantiles) - 1)
    return random.randint(quantiles[index], quantiles[index + 1])


def _choose(random: Random, counts: Mapping[T, int]) -> T:
    return random.choices(tuple(counts), weights=tuple(counts.values()))[0]
