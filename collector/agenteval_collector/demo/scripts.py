"""The conversations of the sample agents: one that goes well, one that is stuck, one whose tools fail, a long one."""

from agenteval_collector.demo.agents import Call, Exchange, Script

_STUCK = (
    "I understand you would like a refund for order 7731. Unfortunately I cannot process this refund request "
    "right now. Please check your order number and try again."
)

SCRIPTS = (
    Script(
        agent="weather-guide",
        session="demo-good",
        about="answers what it is asked",
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
        about="has tools that fail",
        exchanges=(
            Exchange(
                "How many blue chairs do we have in stock?",
                "I could not look up the stock of blue chairs: the inventory service did not answer.",
                (
                    Call("query_stock", {"item": "blue chair"}, error="connection to inventory refused"),
                    Call("query_stock", {"item": "blue chair"}, error="connection to inventory refused"),
                ),
            ),
            Exchange(
                "Then order twenty more blue chairs.",
                "The order for twenty blue chairs was not accepted, the supplier's system reported a timeout.",
                (Call("create_order", {"item": "blue chair", "count": 20}, error="supplier timed out after 30 s"),),
            ),
        ),
    ),
    Script(
        agent="travel-desk",
        session="demo-conversation",
        about="a conversation of several turns",
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
                (Call("book", {"flight": "TP531"}, '{"confirmation": "QX7K2"}'),),
            ),
            Exchange(
                "How do I get from Lisbon airport to the city?",
                "From Lisbon airport the red metro line takes you to the city in about 25 minutes for 1.80 euros.",
            ),
            Exchange(
                "Can I take my bicycle on the metro in Lisbon?",
                "On the Lisbon metro you can take a bicycle at weekends and after 20:00, two in each train.",
                (Call("search_rules", {"topic": "bicycle on metro"}, '{"weekend": true, "after": "20:00"}'),),
            ),
        ),
    ),
)
