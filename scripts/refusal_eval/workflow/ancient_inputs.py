"""A correction of Snakemake 9.27 (issue 4166): an `ancient` input is no reason to run, and hides no other one.

`DAG.update_needrun` first asks every job whether it has a reason to run, but leaves out all jobs downstream of one that
has: those are to be found later, by following the files that change. But `ancient` files are not followed then, so that
a job which depends on the first only through such a file is never asked: a cell whose requests changed in a run that
was interrupted would keep its old answers while the rest of its batch is executed, and the run would succeed. Here only
jobs are left out that the later step does find.
"""

from collections.abc import Callable, Iterator
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
        dag.bfs = _followed  # what the method asks for the jobs that it leaves out
        try:
            await plan(dag, *arguments, **named)
        finally:
            del dag.bfs

    update_needrun.asks_behind_ancient_inputs = True  # type: ignore[attr-defined]
    setattr(dag_class, PLANNED_BY, update_needrun)


def _followed(direction: Any, *jobs: Any, stop: Callable[[Any], bool] = lambda job: False) -> Iterator[Any]:
    """Yield these jobs and all that depend on them through files of which at least one is not `ancient`."""
    todo, seen = list(jobs), set(jobs)
    while todo:
        job = todo.pop(0)
        if stop(job):
            continue
        yield job
        for following, files in direction[job].items():
            if following not in seen and not all(file.is_ancient for file in files):
                seen.add(following)
                todo.append(following)
