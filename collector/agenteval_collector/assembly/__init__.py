"""Assembly: requests come in, in the order of the log. Complete traces go on to the evaluation, spans to live
detection."""
