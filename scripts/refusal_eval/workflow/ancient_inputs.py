"""A correction of Snakemake 9.27 (issue 4166): an `ancient` input is no reason to run, and hides no other one.

`DAG.update_needrun` first asks every job whether it has a reason to run, but leaves out all jobs downstream of one that
has: those are to be found later, by following the files that change. There two things go wrong with `ancient` files:

- They are not followed later, so that a job which depends on the first only through such a file is never asked: a cell
  whose requests changed in a run that was interrupted would keep its old answers while the rest of its batch is
  executed, and the run would succeed. Here only jobs are left out that the later step does find.
- They are followed if they are not there yet: a receipt of a batch with one cell more has another name, and all answers
  of the batch would be collected again. Here they are never followed.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator
from typing import Any

VERSIONS = ("9.27.0", "9.27.1")  # that are known to need it; tests/workflow/test_ancient_inputs.py tells when none does
PLANNED_BY = "update_needrun"


def ask_jobs_behind_ancient_inputs(dag_class: type, version: str) -> None:
    """Correct a class of Snakemake's DAG, once; in other versions than those above do nothing.

    Args:
        dag_class: `snakemake.dag.DAG`.
        version: Snakemake's.

    Raises:
        AttributeError: if this Snakemake plans in another way than the version that is pinned.
    """
    if version not in VERSIONS:
        return
    plan: Callable[..., Any] = getattr(dag_class, PLANNED_BY)
    if getattr(plan, "asks_behind_ancient_inputs", False):
        return

    async def update_needrun(dag: Any, *arguments: Any, **named: Any) -> None:
        def changed_downstream(direction: Any, *jobs: Any, stop: Callable[[Any], bool] = lambda job: False) -> Any:
            return _behind(direction, jobs, stop)

        whole = dag.depending
        dag.bfs = changed_downstream  # what the method asks for the jobs that it leaves out
        dag.depending = _Depending(whole)
        try:
            await plan(dag, *arguments, **named)
        finally:
            dag.depending = whole
            del dag.bfs

    update_needrun.asks_behind_ancient_inputs = True  # type: ignore[attr-defined]
    setattr(dag_class, PLANNED_BY, update_needrun)


class _Depending(dict[Any, "_Following"]):
    """The jobs that depend on each job, as `DAG.depending` has them, with `_Following` for the files between them."""

    def __init__(self, whole: Any) -> None:
        super().__init__()
        self._whole = whole

    def __missing__(self, job: Any) -> _Following:
        self[job] = found = _Following(self._whole[job])
        return found


class _Following(dict[Any, set[Any]]):
    """The jobs that depend on a job, and through which files; `items` are those that follow when these change.

    The method goes through `items` where it looks who is to run, and through keys and values elsewhere.
    """

    def __init__(self, depending: Any) -> None:
        super().__init__(depending)
        self._followed = {job: files for job, files in depending.items() if not all(f.is_ancient for f in files)}

    def items(self) -> ItemsView[Any, set[Any]]:  # type: ignore[override]
        return self._followed.items()


def _behind(direction: _Depending, jobs: tuple[Any, ...], stop: Callable[[Any], bool]) -> Iterator[Any]:
    """Yield these jobs and all that depend on them through files of which at least one is not `ancient`."""
    todo, seen = list(jobs), set(jobs)
    while todo:
        job = todo.pop(0)
        if stop(job):
            continue
        yield job
        for following, _ in direction[job].items():
            if following not in seen:
                seen.add(following)
                todo.append(following)
