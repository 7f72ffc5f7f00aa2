"""The mutants. Each is looked for by its text in both packages, so it survives a move of its module."""

from typing import Final, NamedTuple


class Mutant(NamedTuple):
    """A defect, in words; the text that has it once replaced; the test that fails for it.

    `original` must stand in one module, and there once.
    """

    name: str
    original: str
    replacement: str
    test: str


MUTANTS: Final = (
    # What belongs to a key.
    Mutant(
        "a key that may only write hears of traces of another",
        'self.sender in map(sender_of, participants.processes_of(entry.trace_id or ""))',
        "bool(participants)",
        "tests/integration/test_two_keys.py::test_a_watcher_hears_of_its_own_traces_whatever_ids_others_send",
    ),
    Mutant(
        "a key that may only write ends every session",
        "if sender and sender not in map(sender_of, self.reports.processes_in(session_id)):",
        "if False:",
        "tests/unit/test_gate_in.py::test_an_end_is_that_of_a_session_that_has_spans_of_the_key",
    ),
    Mutant(
        "a request is of the key that it names itself",
        "self.log.append(kind, body + stamp)",
        "self.log.append(kind, stamp + body)",
        "tests/integration/test_two_keys.py::test_a_request_that_names_another_sender_is_still_that_of_its_key",
    ),
    Mutant(
        "reports of a run outlive its traces",
        "for task_id, run_id in runs:",
        "for task_id, run_id in ():",
        "tests/integration/test_inventory_kept.py::test_a_deletion_leaves_nothing_in_any_column",
    ),
    Mutant(
        "a quota that was overdrawn is never paid back",
        "self._left + (now - self._at) * self._rate)",
        "self._left)",
        "tests/unit/test_quotas.py::test_who_has_sent_too_much_is_told_how_long_to_wait",
    ),
    # Evaluation.
    Mutant(
        "a revision that moved frees nothing behind its old place",
        "for key, window in self.windows.items()",
        "for key, window in [*self.windows.items()][-1:]",
        "tests/integration/test_session_aggregation.py::test_a_revision_that_starts_earlier_frees_those_that_it_stood_before",
    ),
    Mutant(
        "the effort of a revision is added to that of the one before",
        "effort=member.effort if stayed is None else member.effort - stayed.effort,",
        "effort=member.effort,",
        "tests/integration/test_unusual_effort.py::test_a_later_revision_of_a_trace_is_not_added_to_the_earlier_one",
    ),
    Mutant(
        "a revision that says the same keeps outcomes that the judge has not given",
        "if before is None or before.pending:",
        "if before is None:",
        "tests/integration/test_judged_outcomes.py::test_what_a_newer_revision_does_not_ask_any_more_is_gone_with_the_old_one",
    ),
    Mutant(
        "an outcome that no judge was asked about counts again with each revision",
        " | {*map(_identity, unasked)}",
        "",
        "tests/integration/test_store.py::test_what_no_judge_was_asked_is_shown_counted_once_and_replaced_by_what_it_says_later",
    ),
    Mutant(
        "an outcome that no judge was asked about is shown beside what the judge says later",
        "and (trace.trace_id, name) not in in_rows",
        "",
        "tests/integration/test_store.py::test_what_no_judge_was_asked_is_shown_counted_once_and_replaced_by_what_it_says_later",
    ),
    Mutant(
        "a letter that RE2 reads otherwise hides personal data",
        "if _DOTTED in text:",
        "if not text:",
        "tests/unit/test_redaction_finder.py::test_a_prefilter_reads_capitals_as_a_search_in_lower_case_does",
    ),
    Mutant(
        "a revision is compared with a part that has changed since",
        "if _content(spans, logs) != self.content:",
        "if False:",
        "tests/unit/test_reading_again.py::test_a_small_trace_is_read_again_to_tell_what_its_first_revision_said",
    ),
    Mutant(
        "a judgement counts for a newer revision",
        "if stored_place is None or stored_place.revision != first.revision:",
        "if stored_place is None:",
        "tests/integration/test_judged_outcomes.py::test_a_judgement_of_a_revision_that_is_past_is_dropped",
    ),
    Mutant(
        "a session in the queue is forgotten while items of it wait",
        "if self._last.get(owner) == turn:",
        "if owner in self._last:",
        "tests/unit/test_fair_queue.py::test_it_remembers_nobody_of_whom_nothing_waits",
    ),
    Mutant(
        "all items of a session are served in one round",
        "*(1 + self._last[owner] for owner",
        "*(self._last[owner] for owner",
        "tests/unit/test_fair_queue.py::test_who_comes_late_does_not_wait_for_all_of_another_one",
    ),
    # Sessions.
    Mutant(
        "more turns than the window holds are compared",
        "return turns[-TURNS:]",
        "return turns",
        "tests/unit/test_window.py::test_answers_before_a_place",
    ),
    Mutant(
        "a revision of the first trace in a window is left out",
        "self._first is None or member.place >= self._first:",
        "self._first is None or member.place > self._first:",
        "tests/unit/test_window.py::test_the_first_trace_that_is_kept_can_be_replaced",
    ),
    Mutant(
        "a session has its last agent",
        "self.first_agent is None or position < self.first_agent[0]",
        "self.first_agent is None or position > self.first_agent[0]",
        "tests/integration/test_session_aggregation.py::test_the_score_of_a_session_is_that_of_the_agent_that_came_first_in_time",
    ),
    Mutant(
        "a trace that was received earlier makes its session idle sooner",
        "idle_at if session is None else max(idle_at, session.idle_at)",
        "idle_at",
        "tests/unit/test_live_sessions.py::test_a_trace_that_was_received_earlier_makes_no_session_idle_sooner",
    ),
    Mutant(
        "a session ends later than its hold",
        "if over_at > now and",
        "if over_at >= now and",
        "tests/unit/test_endings.py::test_a_session_ends_when_the_hold_is_over",
    ),
    Mutant(
        "the higher of two bounds is the score",
        "_score(judged) < _score(best) else best",
        "_score(judged) > _score(best) else best",
        "tests/unit/test_upper_bound.py::test_a_judge_that_is_down_never_raises_a_score",
    ),
    Mutant(
        "a score that the judge has not given is taken for 0",
        "dict.fromkeys(awaited, 1.0)",
        "dict.fromkeys(awaited, 0.0)",
        "tests/unit/test_upper_bound.py::test_with_no_trace_judged_the_score_is_the_highest_that_the_judge_can_leave",
    ),
    # Conversations.
    Mutant(
        "a try after exactly a minute is none",
        "link.started_at <= latest.ended_at + RETRY",
        "link.started_at < latest.ended_at + RETRY",
        "tests/unit/test_conversations_stage.py::test_a_failed_first_call_is_tried_again_within_a_minute_of_its_end",
    ),
    Mutant(
        "of several parents the first is taken",
        "return earlier[0] if len(earlier) == 1 else None",
        "return earlier[0] if earlier else None",
        "tests/unit/test_conversations_stage.py::test_sessions_are_drawn_as_a_person_would",
    ),
    Mutant(
        "a trace goes on from one that names another session",
        "ender.place < link.place and _may_be_one(link, ender)",
        "ender.place < link.place",
        "tests/unit/test_conversations_stage.py::test_a_call_goes_on_from_none_that_names_another_session",
    ),
    Mutant(
        "a call without an answer makes the next try a fork",
        "rival.trace_id != link.trace_id and rival.answered)",
        "rival.trace_id != link.trace_id)",
        "tests/unit/test_conversations_stage.py::test_sessions_are_drawn_as_a_person_would",
    ),
    Mutant(
        "a trace that moves twice leaves a session in which the store does not have it",
        "move if earlier is None else replace(move, left=earlier.left)",
        "move",
        "tests/integration/test_conversations.py::test_sessions_are_the_same_whatever_order_the_traces_arrive_in",
    ),
    Mutant(
        "a second result replaces the first",
        "if at is None or not _is_open(calls[at]):",
        "if at is None:",
        "tests/unit/test_conversations_running_turns.py::test_results_complete_the_calls_of_the_turn",
    ),
    Mutant(
        "a trace that begins a turn belongs to the turn before",
        "if not turn_part.begins:",
        "if turn_part.begins:",
        "tests/integration/test_running_turns.py::test_a_loop_is_told_once_though_one_of_its_traces_comes_late",
    ),
    Mutant(
        "calls from before a turn are told in it",
        "if turn_part.begins or count >= MAX_CALLS:",
        "if count >= MAX_CALLS:",
        "tests/unit/test_conversations_running_turns.py::test_a_turn_is_put_together_from_its_parts",
    ),
    # Stores.
    Mutant(
        "exactly a week of silence makes a regression",
        "time - last > QUIET_FOR",
        "time - last >= QUIET_FOR",
        "tests/integration/test_problem_store.py::test_what_comes_back_after_a_week_is_a_regression_though_nobody_resolved_it",
    ),
    Mutant(
        "a problem was seen when its last finding of a trace was",
        'row_after["seen_at"] = min(row_after["seen_at"], row["seen_at"])',
        'row_after["seen_at"] = max(row_after["seen_at"], row["seen_at"])',
        "tests/integration/test_problem_store.py::test_a_thousand_equal_failures_are_one_problem_with_what_they_took",
    ),
    Mutant(
        "a page begins with the last row of the page before",
        "tuple_(*order) < decode_cursor(",
        "tuple_(*order) <= decode_cursor(",
        "tests/integration/test_store.py::test_pages_are_newest_first_and_stable_while_sessions_come",
    ),
    Mutant(
        "there is no second page",
        "limit(limit + 1)",
        "limit(limit)",
        "tests/integration/test_store.py::test_pages_are_newest_first_and_stable_while_sessions_come",
    ),
    Mutant(
        "a process that gave up all its sessions goes on writing",
        "if gone or not self._taken:",
        "if gone:",
        "tests/integration/test_sharing_traces.py::test_nothing_is_kept_after_another_process_took_over_until_it_is_taken_again",
    ),
    Mutant(
        "a revision deletes its own outcomes",
        "older = outcomes.c.revision < trace.revision",
        "older = outcomes.c.revision <= trace.revision",
        "tests/integration/test_store.py::test_a_later_revision_supersedes_and_another_version_or_method_stands_beside",
    ),
    Mutant(
        "what the judge used up in the current hour is free",
        'judge_ledger.c.hour >= bindparam("hour")',
        'judge_ledger.c.hour > bindparam("hour")',
        "tests/integration/test_store.py::test_what_the_judge_used_up_counts_from_its_hour_on",
    ),
    Mutant(
        "the oldest sessions of an agent are looked at",
        ".order_by(sessions.c.last_seen_at.desc())\n        .limit(newest)",
        ".order_by(sessions.c.last_seen_at)\n        .limit(newest)",
        "tests/integration/test_hit_rate.py::test_only_the_newest_sessions_are_looked_at",
    ),
    # The receiver.
    Mutant(
        "a span of exactly max_span_bytes is cut",
        "is_changed = len(raw) > limit",
        "is_changed = len(raw) >= limit",
        "tests/unit/test_receiver_checks.py::test_what_is_as_large_as_its_limit_is_kept_and_a_byte_more_is_not",
    ),
    Mutant(
        "a request of exactly max_request_bytes is refused",
        "if len(body) > limits.request:",
        "if len(body) >= limits.request:",
        "tests/unit/test_receiver_checks.py::test_what_is_as_large_as_its_limit_is_kept_and_a_byte_more_is_not",
    ),
    Mutant(
        "a trace id of zeros is taken",
        "len(trace_id) != 16 or trace_id == NO_TRACE",
        "len(trace_id) != 16",
        "tests/integration/test_receiver_grpc.py::test_bad_spans_are_rejected_one_by_one",
    ),
    Mutant(
        "scopes below our own are evaluated",
        '.name.partition(".")[0] in OWN_SCOPES',
        ".name in OWN_SCOPES",
        "tests/unit/test_receiver_checks.py::test_telemetry_of_our_own_scopes_and_of_those_below_is_dropped",
    ),
    Mutant(
        "resources behind a changed one are not checked",
        "any([_sift(resource, signal, limits.span, checked) for resource in frame.resources])",
        "any(_sift(resource, signal, limits.span, checked) for resource in frame.resources)",
        "tests/unit/test_receiver_checks.py::test_every_resource_and_scope_is_checked_also_behind_one_with_a_bad_span",
    ),
    Mutant(
        "scopes behind a changed one are not checked",
        "any([_sift_scope(scope, admitted, limit, checked) for scope in resource.scopes])",
        "any(_sift_scope(scope, admitted, limit, checked) for scope in resource.scopes)",
        "tests/unit/test_receiver_checks.py::test_every_resource_and_scope_is_checked_also_behind_one_with_a_bad_span",
    ),
    Mutant(
        "a caller gets less than three quarters",
        "held + size > TIMES_FREE * free",
        "held + size >= TIMES_FREE * free",
        "tests/unit/test_shares.py::test_a_caller_alone_gets_three_quarters",
    ),
    # Around them.
    Mutant(
        "a span of exactly max_buffer_bytes is dropped",
        "if size > self.max_bytes:",
        "if size >= self.max_bytes:",
        "tests/unit/test_intake.py::test_a_span_as_large_as_the_buffer_fits_into_it_alone",
    ),
    Mutant(
        "a pause of exactly 15 s is none",
        "step.started_at - before >= PATIENCE",
        "step.started_at - before > PATIENCE",
        "tests/unit/test_detectors_rules.py::test_an_agent_that_does_nothing_for_15_seconds_before_each_repetition_waits",
    ),
    Mutant(
        "exemplars are dropped from /metrics",
        "yield bounds[bucket], count, _exemplar(examples[bucket])",
        "yield bounds[bucket], count",
        "tests/unit/test_emit_instruments.py::test_a_scrape_as_openmetrics_has_an_example_with_the_ids_of_the_trace_and_the_span",
    ),
    # What a plan must not pass over.
    Mutant(
        "a tool by which a framework steers itself is a call of a plain trace",
        "if node is None or may_steer(request.name):",
        "if node is None:",
        "tests/unit/test_conventions_plain_traces.py::test_what_is_not_plain_is_read_the_same",
    ),
    Mutant(
        "two spans of one response are two calls of a plain trace",
        "len({*responses}) == len(responses) and ",
        "",
        "tests/unit/test_conventions_plain_traces.py::test_what_is_not_plain_is_read_the_same",
    ),
    Mutant(
        "no dialect looks at the values of a plain trace",
        "or any(dialect.recognises(span, ()) for dialect in _BY_VALUES)",
        "",
        "tests/unit/test_conventions_plain_traces.py::test_what_is_not_plain_is_read_the_same",
    ),
)
