"""Reading telemetry: spans and log records of any GenAI instrumentation go in, one `Trace` comes out.

`reader.read_trace` reads whole traces. `dialects/` has a module for each vocabulary of attributes, which says what one
span means; how spans make turns is decided once for all of them. Agents' names (`agents`), questions (`questions`) and
the reader beside the agent (`otel_agenteval.loops.light_reader`) use the same dialects.

Nothing is imported here, since an agent's process needs no more than the dialects.
"""
