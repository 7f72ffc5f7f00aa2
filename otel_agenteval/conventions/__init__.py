"""Reading telemetry: spans and log records of any GenAI instrumentation go in, one `Trace` comes out.

`trace_reader.read_trace` reads whole traces; `dialects/` has a module for each vocabulary of attributes. Nothing is
imported here, since an agent's process needs no more than the dialects.
"""
