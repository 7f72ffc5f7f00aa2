"""The conversations of the sample agents: one that goes well, one that is stuck, one whose tools fail, a long one.

All but the first have something to be found without a judge, of every severity.
"""

from collections.abc import Mapping
from typing import Any

from agenteval_collector.demo.agents import Call, Exchange, Script

_TEXT = {"type": "string"}
_COUNT = {"type": "integer", "minimum": 1}


def _arguments(**properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a tool that takes just these."""
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


_STUCK = (
    "I understand you would like a refund for order 7731. Unfortunately I cannot process this refund request "
    "right now. Please check your order number and try again."
)

SCRIPTS = (
    Script(
        agent="weather-guide",
        session="demo-good",
        about="answers what it is asked",
        tools={"get_weather": _arguments(city=_TEXT)},
        exchanges=(
            Exchange(
                "What is the weather in Lisbon tomorrow?",
                "Tomorrow the weather in Lisbon is sunny, 24 degrees, with a light wind from the sea.",
                (Call("get_weather", {"city": "Lisbon"}, '{"condition": "sunny", "temp_c": 24}'),),
            ),
            Exchange(
                "And what is the weather in Oslo?",
                "The weather in Oslo tomorrow: rain in the morning, 9 degrees, dry by the evening.",
                (Call("get_weather", {"city": "Oslo"}, '{"condition": "rain", "temp_c": 9}'),),
            ),
            Exchange(
                "Which of the two cities is better for a picnic?",
                "For a picnic the better of the two cities is Lisbon: it stays sunny there all day.",
            ),
        ),
    ),
    Script(
        agent="refund-desk",
        session="demo-stuck",
        about="gets stuck repeating itself",
        tools={"get_order": _arguments(order_id=_TEXT), "refund": _arguments(order_id=_TEXT)},
        exchanges=(
            Exchange(
                "I want a refund for order 7731.",
                _STUCK,
                (Call("get_order", {"order_id": "7731"}, '{"status": "delivered", "total_eur": 59}'),),
            ),
            Exchange("The order number is right. Please refund order 7731.", _STUCK),
            Exchange("You said that already. What do you need from me for the refund?", _STUCK),
            Exchange("Please let me talk to a person.", _STUCK),
        ),
    ),
    Script(
        agent="stock-keeper",
        session="demo-failing-tools",
        about="has tools that fail, uses one wrongly, and breaks down",
        tools={
            "query_stock": _arguments(item=_TEXT),
            "create_order": _arguments(item=_TEXT, count=_COUNT),
            "notify_warehouse": _arguments(order=_TEXT),
        },
        exchanges=(
            Exchange(
                "How many blue chairs do we have in stock?",
                "I could not look up the stock of blue chairs: the inventory service did not answer.",
                (
                    Call("query_stock", {"item": "blue chair"}, error="connection to inventory refused"),
                    Call("query_stock", {"item": "chair, blue"}, error="connection to inventory refused"),
                    Call("query_stock", {"item": "chair"}, error="connection to inventory refused"),
                ),
            ),
            Exchange(
                "Then order twenty more blue chairs.",
                "The order for twenty blue chairs was probably not accepted. It seems the supplier wants a number.",
                (Call("create_order", {"item": "blue chair", "count": "twenty"}, error="count is not a number"),),
                plan="1. Create the order of blue chairs. 2. Notify the warehouse of the order.",
            ),
            Exchange("Then tell the warehouse.", error="the model did not answer within 60 s"),
        ),
    ),
    Script(
        agent="travel-desk",
        session="demo-conversation",
        about="a conversation of several turns",
        tools={
            "search_flights": _arguments(origin=_TEXT, destination=_TEXT, day=_TEXT),
            "reserve": _arguments(flight=_TEXT, passengers=_COUNT),
            "book": _arguments(flight=_TEXT, voucher=_TEXT),
            "mail_tickets": _arguments(confirmation=_TEXT),
            "search_rules": _arguments(topic=_TEXT),
        },
        exchanges=(
            Exchange(
                "I need a flight from Berlin to Lisbon on Friday.",
                "There are two flights from Berlin to Lisbon on Friday: TP531 at 09:40 for 149 euros and "
                "FR1140 at 18:05 for 96 euros.",
                (
                    Call(
                        "search_flights",
                        {"origin": "BER", "destination": "LIS", "day": "Friday"},
                        '[{"id": "TP531", "price_eur": 149}, {"id": "FR1140", "price_eur": 96}]',
                    ),
                ),
            ),
            Exchange(
                "The morning flight, for two people, please.",
                "The morning flight TP531 is reserved for two people, 298 euros in total. Shall I book it?",
                (Call("reserve", {"flight": "TP531", "passengers": 2}, '{"total_eur": 298}'),),
            ),
            Exchange(
                "Yes, book the flight.",
                "Your flight is booked. The confirmation is QX7K2, and the tickets are in your mail.",
                (
                    Call("book", {"flight": "TP531", "voucher": "SUMMER-2041"}, '{"confirmation": "QX7K2"}'),
                    Call("mail_tickets", {"confirmation": "QX7K2"}, "sent"),
                ),
                plan="1. Book flight TP531. 2. Mail the tickets.",
            ),
            Exchange(
                "How do I get from Lisbon airport to the city?",
                "From Lisbon airport the red metro line takes you to the city in about 25 minutes for 1.80 euros. "
                "You can also take the",
                finish="length",
            ),
            Exchange(
                "Can I take my bicycle on the metro in Lisbon?",
                "On the Lisbon metro you can take a bicycle at weekends and after 20:00, two in each train.",
                (Call("search_rules", {"topic": "bicycle on metro"}, '{"weekend": true, "after": "20:00"}'),),
            ),
        ),
    ),
)
