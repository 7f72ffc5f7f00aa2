"""Merge and split problems by hand. What was merged or split stays so, for traces that come later, too."""

import json
from typing import Any, Final

from sqlalchemy import bindparam, delete, func, select, update

from agenteval_collector.model.problem import ALL_OTHERS, OTHER, ProblemKey
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.errors import InvalidRequest, NotFound
from agenteval_collector.stores.access import TenantConnection, TenantDatabase
from agenteval_collector.stores.problems import refresh_problems
from agenteval_collector.stores.rows import to_json
from agenteval_collector.stores.schema import own, problem_moves, problem_traces, problems

MOST_MOVES: Final = 1_000
"""The most problems that are merged into others or split."""
BATCH: Final = 200
"""The most traces whose problems change in one transaction. Other writers wait for it."""


class ProblemMoves:
    """Merges and splits problems. What is said is durable at once; the traces of a large problem follow before the
    method returns, some at a time. Calling it again goes on where it ended. Thread-safe; raises Unavailable if the
    database refuses."""

    def __init__(self, database: TenantDatabase, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def merge(self, problem_id: str, into_id: str, by: str | None) -> None:
        """Merge a problem into another one, with all that was merged into it.

        If it is one text of the other one, which was split, the other one is put together again. Raises NotFound for
        an unknown problem, and InvalidRequest if they cannot be merged.
        """
        if problem_id == into_id:
            raise InvalidRequest("a problem cannot be merged into itself")
        with self._database.writing() as connection:
            move = connection.execute(_MOVE, {"problem": problem_id}).one_or_none()
            if move is not None and move.into_id == into_id:
                return
            key = _known_key(connection, problem_id)
            if key.split_from == into_id:
                connection.delete(problem_moves, [{"problem_id": into_id}])
                moved = _join(connection, into_id, key)
            else:
                moved = [problem_id]
                into = _target(connection, into_id)
                if into.problem_id == problem_id:
                    raise InvalidRequest(f"problem {into_id} is merged into {problem_id} already")
                self._keep(connection, problem_id, key, into, by)
        self._follow(*moved)

    def take_apart(self, problem_id: str) -> None:
        """Take apart what was merged into a problem, or take it out of the one that it was merged into.

        Raises NotFound for an unknown problem, and InvalidRequest if nothing was merged.
        """
        with self._database.writing() as connection:
            merged = connection.execute(_INTO, {"problem": problem_id}).scalars().all()
            move = connection.execute(_MOVE, {"problem": problem_id}).one_or_none()
            moved = problem_id
            if merged:
                connection.delete(problem_moves, ({"problem_id": each} for each in merged))
            elif move is not None and move.into_id is not None:
                connection.delete(problem_moves, [{"problem_id": problem_id}])
                moved = move.into_id
            else:
                _known_key(connection, problem_id)
                raise InvalidRequest(f"nothing was merged into problem {problem_id}; by its texts it can be split")
        self._follow(moved)

    def split(self, problem_id: str, by: str | None) -> None:
        """Make each text of a problem a problem of its own. To put it together again, merge one of them into it.

        Raises NotFound for an unknown problem, and InvalidRequest for one that is a single text.
        """
        with self._database.writing() as connection:
            move = connection.execute(_MOVE, {"problem": problem_id}).one_or_none()
            if move is None or move.into_id is not None:
                key = _known_key(connection, problem_id)
                if key.split_from is not None:
                    raise InvalidRequest(f"problem {problem_id} is a single text")
                self._keep(connection, problem_id, key, None, by)
        self._follow(problem_id)

    def _keep(
        self, connection: TenantConnection, problem_id: str, key: ProblemKey, into: ProblemKey | None, by: str | None
    ) -> None:
        if connection.execute(_NUMBER).scalar_one() >= MOST_MOVES:
            raise InvalidRequest(f"{MOST_MOVES} problems are merged or split; take some apart first")
        target = {"into_id": None if into is None else into.problem_id, "key": to_json([*(into or key)])}
        about = {"moved_at": self._clock.now(), "moved_by": by, "split_from": key.split_from}
        about |= {"agent": key.agent, "service": key.service}
        connection.upsert(problem_moves, [{"problem_id": problem_id, **target, **about}])
        if into is not None:
            # Nothing leads on from where something is merged into.
            connection.execute(_LEAD_ON.values(target), {"problem": problem_id})

    def _follow(self, *problem_ids: str) -> None:
        """Put the traces of these problems where they belong."""
        for problem_id in problem_ids:
            last: str | None = ""
            while last is not None:
                with self._database.writing() as connection:
                    place = {"problem": problem_id, "last": last}
                    subjects = connection.execute(_SUBJECTS, place).scalars().all()
                    refresh_problems(connection, subjects)
                last = subjects[-1] if len(subjects) == BATCH else None


def _known_key(connection: TenantConnection, problem_id: str) -> ProblemKey:
    row: Any = connection.execute(_KEY, {"problem": problem_id}).one_or_none()
    if row is None:
        raise NotFound(f"problem {problem_id} is not known")
    key = ProblemKey(*row)
    if key.shape == OTHER or key.kind == ALL_OTHERS:
        raise InvalidRequest(f"problem {problem_id} holds what has no problem of its own")
    return key


def _target(connection: TenantConnection, problem_id: str) -> ProblemKey:
    """Return the problem that takes in what is merged into this one."""
    move: Any = connection.execute(_MOVE, {"problem": problem_id}).one_or_none()
    if move is None or move.into_id is None:
        return _known_key(connection, problem_id)
    return ProblemKey(*json.loads(move.key))


def _join(connection: TenantConnection, problem_id: str, text: ProblemKey) -> list[str]:
    """Put together a problem that was split. Return the problems in which its texts are now."""
    connection.delete(problem_moves, [{"problem_id": problem_id}])
    elsewhere = connection.execute(_TEXTS_IN, {"problem": problem_id}).scalars().all()
    connection.execute(_FORGET_TEXTS, {"problem": problem_id})
    alike = connection.execute(_ALIKE, {"kind": text.kind}).all()
    keys = {row.problem_id: ProblemKey(*row[1:]) for row in alike}
    apart = [each for each, key in keys.items() if key.split_from == problem_id or key == text.overflow]
    return [*apart, *elsewhere]


_KEY: Final = select(*(problems.c[name] for name in ProblemKey._fields)).where(
    own(problems), problems.c.problem_id == bindparam("problem")
)
_ALIKE: Final = select(problems.c.problem_id, *(problems.c[name] for name in ProblemKey._fields)).where(
    own(problems), problems.c.kind == bindparam("kind")
)
_MOVE: Final = select(problem_moves).where(own(problem_moves), problem_moves.c.problem_id == bindparam("problem"))
_INTO: Final = select(problem_moves.c.problem_id).where(
    own(problem_moves), problem_moves.c.into_id == bindparam("problem")
)
_TEXTS_IN: Final = (
    select(problem_moves.c.into_id)
    .where(own(problem_moves), problem_moves.c.split_from == bindparam("problem"))
    .distinct()
)
_FORGET_TEXTS: Final = delete(problem_moves).where(
    own(problem_moves), problem_moves.c.split_from == bindparam("problem")
)
_NUMBER: Final = select(func.count()).select_from(problem_moves).where(own(problem_moves))
_LEAD_ON: Final = update(problem_moves).where(own(problem_moves), problem_moves.c.into_id == bindparam("problem"))
_SUBJECTS: Final = (
    select(problem_traces.c.subject_id)
    .where(
        own(problem_traces),
        problem_traces.c.problem_id == bindparam("problem"),
        problem_traces.c.subject_id > bindparam("last"),
    )
    .order_by(problem_traces.c.subject_id)
    .limit(BATCH)
)
