"""How one load of an engine is executed: from the study, its engine's files and this machine."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from refusal_eval.ask.pending import Pending
from refusal_eval.ask.requests import RequestFile
from refusal_eval.config.engine_entry import Engine
from refusal_eval.config.kinds import CHANGES, ENGINES
from refusal_eval.core.canonical import plain
from refusal_eval.core.errors import UserError
from refusal_eval.core.time_limit import TimeLimit
from refusal_eval.engines.engine_base import EngineLoad
from refusal_eval.engines.loaded_change import LoadedChange
from refusal_eval.study.engine_environment import lacks_cuda
from refusal_eval.weights.engine_file import describe_engine


@dataclass(frozen=True)
class LoadPlan:
    """How to execute a load. It comes from the config, not from params: none of it may rerun a job."""

    engine: Engine  # the engine's entry
    engine_id: str  # the id that the keys of its requests hold
    folder: str | None  # its model folder; None for an engine without weights
    tokenizer_folder: str | None  # folder of its tokenizer; None for an engine that takes messages
    python: str  # Python of its environment; empty for an engine that runs elsewhere
    device: str | None  # cpu or cuda; None for an engine that runs elsewhere
    determinism: str  # strict, seeded or free
    in_flight: int  # the most requests at one time
    failure_limit: float  # the share of the requests that may fail
    store_dir: str  # the store
    shard: int = 0  # which part of the batch, of `shards`
    shards: int = 1
    changes: Sequence[LoadedChange] = ()  # of the batch's models
    # `reasoning` (None without one) of the engine's models, by their names; empty for judges
    reasoning: Mapping[str, Any] = field(default_factory=dict)
    limit: TimeLimit | None = None  # when to stop
    lacks_cuda: bool = False  # whether it needs CUDA and its environment is the CPU build
    identity: Mapping[str, Any] = field(default_factory=dict)  # what `engine_id` stands for
    study: Mapping[str, Any] = field(default_factory=dict)  # what the study says that the engine reads
    # Describes the engine as config and files have it now, which a job on a cluster reads when its turn has come; None
    # for one that cannot have changed since it was identified.
    now: Callable[[], Mapping[str, Any]] | None = None

    @classmethod
    def of_study(
        cls, config: Mapping[str, Any], described: Mapping[str, Any], weights: Sequence[str], root: Path, **more: Any
    ) -> LoadPlan:
        """Return the plan of a study's load, with further attributes.

        `described` is the identity file of its engine, `weights` the files of the weights (of fetched ones the
        manifest), `root` the repository's folder.
        """
        name = described["engine"]
        engine: Engine = ENGINES.entry(config["engine_entries"][name])
        device, source = engine.device_here(root), getattr(engine, "weights", None)
        manifest = None if source is None or not source.fetched else weights[0]
        entry = source and source.model_dump(mode="json")
        # A CPU engine is strict by taking one request at a time, a GPU engine by its kernels.
        one_by_one = config["determinism"] == "strict" and device == "cpu"
        return cls(
            engine=engine,
            engine_id=described["engine_id"],
            folder=described["folder"],
            tokenizer_folder=described["tokenizer_folder"],
            python=engine.python_here(root),
            device=device,
            determinism=config["determinism"],
            in_flight=1 if one_by_one else config["requests_in_flight"] or engine.most_at_once(device),
            failure_limit=config["failure_limit"],
            store_dir=config["store_dir"],
            lacks_cuda=lacks_cuda(config["engine_entries"][name], root),
            identity=described["identity"],
            study={key: config[key] for key in engine.reads_of_study},
            now=partial(describe_engine, name, engine, entry, manifest, config["cache_dir"]),
            **more,
        )

    @property
    def gpus(self) -> int:
        return self.engine.gpus(self.device)

    def refuse_too_few(self, gpus: int) -> None:
        """Raise `UserError` if the job got fewer GPUs than the load takes."""
        if gpus < self.gpus:
            raise UserError(
                f"this job got {gpus} GPUs and needs {self.gpus} (tensor x pipeline x data parallel). "
                f"Run snakemake with `--resources gpu={self.gpus}` or more."
            )

    def refuse_other_engine(self, files: Iterable[RequestFile]) -> None:
        """Raise `UserError` if requests were made for another engine, whose id the responses would be stored under, or
        for another `determinism`, which is in their keys.
        """
        for file in files:
            if (asked := file.header["engine_id"]) != self.engine_id:
                raise UserError(
                    f"{file.path} was made for engine {asked}, and this load starts engine {self.engine_id}; "
                    "delete it and run again"
                )
            if (asked := file.header["determinism"]) != self.determinism:
                raise UserError(
                    f"{file.path} was made for `determinism: {asked}`, and the study now has `{self.determinism}`; "
                    "run again"
                )

    def unchanged_folder(self) -> str:
        """Return the model folder of the engine as it is now; empty for an engine without weights.

        Raises:
            UserError: if its responses would be stored under the identity of what it was when the run was planned; for
                files that are not as they were fetched.
        """
        if self.now is None:
            return self.folder or ""
        now = self.now()
        was, has = plain(self.identity), plain(now["identity"])
        if changed := sorted(name for name in {**was, **has} if was.get(name) != has.get(name)):
            where = f" in {now['folder']}" if now["folder"] else ""
            raise UserError(
                f"engine `{now['engine']}` ({', '.join(changed)}){where} has changed since this run was planned; "
                "run again"
            )
        return now["folder"] or ""

    def load(self, log: Path, pending: Sequence[Pending] = ()) -> EngineLoad:
        """Return the inputs of a load.

        Missing or shortened files are found here, by the weights' manifest, not minutes later by the engine. Only
        changes that `pending` needs are served; without requests all are.

        Raises:
            UserError: for files that changed since they were fetched or identified, and for a CPU build that should use
                GPUs.
        """
        if self.lacks_cuda:
            raise UserError(
                "this engine has `device: cuda`, and the engine environment (.venv/engine) is the CPU build: run "
                "`make setup ENGINE=cuda`, or name an environment with CUDA as the engine's `python`"
            )
        folder = self.unchanged_folder()
        changes = [served for change in self.changes if (served := change.asked_by(pending))]
        asked = {name for item in pending for name in item.settings.changes if CHANGES.get(name).loads}
        for name in sorted(asked - {change.name for change in changes}):
            raise UserError(f"the requests ask for {CHANGES.get(name).words}, which no longer exists; run again")
        return EngineLoad(
            log=log,
            determinism=self.determinism,
            folder=folder,
            python=self.python,
            device=self.device,
            gpus=self.gpus,
            start_seconds=self.limit.seconds_left() if self.limit else None,
            changes=changes,
            # Requests without a seed draw from the engine's. With the same one, the samples of a second load of the
            # same prompts would be copies of the first's.
            seed=secrets.randbits(31) if self.determinism == "free" else 0,
            in_flight=self.in_flight,
            study=self.study,
        )
