"""A realistic workload: conversations of a customer-service agent, recorded or generated, as GenAI spans.

A `Conversation` comes from a tau-bench file (`taubench.read`) or from the generator (`generator.generate`), and
leaves through a tracer provider (`replay.replay`) or as OTLP requests (`otlp.requests`).
"""
