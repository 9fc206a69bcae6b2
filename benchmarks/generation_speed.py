"""Generation through the workflow against one plain offline vLLM call, with the same requests, wall to wall.

Both arms load the same weights once, with the same flags, and are asked the same token ids with the same sampling
parameters and seeds; the difference of the two lists of requests is printed and has to be empty. They run in turn. The
workflow's time is from the start of Snakemake to its exit, with the answers of every cell in their files; that of the
plain call from the start of Python to its exit, with the answers in one file.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from measuring import ROOT, gpus, print_head, print_limit, print_values, snakemake, timed

from refusal_eval.ask.keys import sample_seed
from refusal_eval.ask.requests import read_requests
from refusal_eval.ask.store import StoreReader
from refusal_eval.config.engine_entry import Engine
from refusal_eval.config.kinds import ENGINES
from refusal_eval.core.canonical import plain
from refusal_eval.core.files import canonical_json, read_json, read_jsonl
from refusal_eval.core.packing import unpack_floats
from refusal_eval.data.prompts import content_id
from refusal_eval.engines.engine_base import EngineLoad
from refusal_eval.engines.engine_client import FIXED_FIELDS
from refusal_eval.engines.local_engine import LocalEngine
from refusal_eval.engines.server import server_environment

LIMIT = 1.10
MODES = ("seeded", "strict", "free")
PROMPTS_VARIABLE = "REFUSAL_EVAL_BENCHMARK_PROMPTS"
SYSTEM_PROMPTS = {"plain": None, "brief": "You are a helpful assistant. Answer briefly."}
OF_THE_SERVER = ("uds", "served-model-name", "disable-uvicorn-access-log", "enable-log-requests")

Request = tuple[str, str]  # token ids, sampling parameters with the seed, both as JSON
Answers = dict[Request, list[list[int]]]  # token ids of the answers to each request; several only without seeds


class Comparison:
    """The two arms on one list of prompts.

    Args:
        options: the command line.
        work: folder for all files.
    """

    def __init__(self, options: argparse.Namespace, work: Path) -> None:
        self.options, self.work = options, work
        self.splits = read_splits(options.prompts, options.prompts_per_split)
        self.engine: dict[str, Any] = {}
        self.entry: dict[str, Any] = {}

    def prepare(self) -> None:
        """Make weights and tokenizer ready, untimed, and keep what identifies the engine.

        One prompt is answered, so that neither arm pays for what vLLM and torch keep of their first start on a machine.
        """
        project = self._project(self.work / "prepared", "seeded")
        timed(self._snakemake(project, "--until", "identify_engine"), project)
        self.engine = read_json(project / "results" / "speed" / "engines" / f"{self.options.engine}.json")
        config = yaml.safe_load((project / "results" / "speed" / "config.yaml").read_text(encoding="utf-8"))
        self.entry = config["engine_entries"][self.options.engine]
        self._plain(project, "seeded", dict(itertools.islice(self.splits.items(), 1)), prompts=1)

    def pair(self, determinism: str, number: int) -> tuple[float, float]:
        """Run both arms once, compare what they did, and return their seconds (workflow, plain)."""
        project = self._project(self.work / f"{determinism}-{number}", determinism)
        workflow = timed(self._snakemake(project, "--until", "answers"), project).seconds
        ours = by_request(stored(project / "results"))
        (receipt,) = (project / "results" / "speed" / "receipts" / "generate").rglob("*.json")
        parts = read_json(receipt)["engine"]["seconds"]
        offline, theirs = self._plain(project, determinism, self.splits)
        reported = compared(ours, theirs)
        around = workflow - parts["start"] - parts["work"]
        where = f"engine start {parts['start']} s, at work {parts['work']} s, all else {around:.1f} s"
        print(
            f"  pair {number}: workflow {workflow:.1f} s ({where}), plain vLLM {offline:.1f} s; {reported}", flush=True
        )
        return workflow, offline

    def _plain(
        self, project: Path, determinism: str, splits: Mapping[str, list[str]], prompts: int | None = None
    ) -> tuple[float, Answers]:
        engine: Engine = ENGINES.entry(self.entry)
        assert isinstance(engine, LocalEngine)
        device, python = engine.device_here(ROOT), engine.python_here(ROOT)
        asked = [
            {"prompt": text, "seeds": [sample_seed(0, prompt_id(text), k) for k in range(self.options.samples)]}
            for texts in splits.values()
            for text in texts[:prompts]
        ]
        folder = self.engine["folder"]
        load = EngineLoad(project / "log", determinism, folder, python, device, engine.gpus(device))
        command = engine.command(load, folder, "unused")
        task = {
            "flags": flags_of(command),
            "system_prompts": list(SYSTEM_PROMPTS.values()),
            "prompts": asked,
            "sampling": {"temperature": 1.0, "max_tokens": self.options.max_tokens},
            "seeded": determinism != "free",
        }
        (project / "task.json").write_text(json.dumps(task), encoding="utf-8")
        script = str(ROOT / "benchmarks" / "plain_vllm.py")
        command = [python, script, str(project / "task.json"), str(project / "plain.jsonl")]
        seconds = timed(command, project, server_environment(determinism, device)).seconds
        rows = read_jsonl(project / "plain.jsonl")
        theirs = (((canonical_json(row["token_ids"]), asked_with(row["sampling"])), row["answer_ids"]) for row in rows)
        return seconds, by_request(theirs)

    def _project(self, folder: Path, determinism: str) -> Path:
        options = self.options
        (folder / "prompts").mkdir(parents=True)
        for name, texts in self.splits.items():
            rows = [json.dumps({"prompt": text}) + "\n" for text in texts]
            (folder / "prompts" / f"{name}.jsonl").write_text("".join(rows), encoding="utf-8")
        sampling = {"max_tokens": options.max_tokens, "temperature": 1.0}
        entries = {
            "models": {
                name: {"engine": options.engine, "system_prompt": text, "sampling": sampling}
                for name, text in SYSTEM_PROMPTS.items()
            },
            "datasets": {
                "speed": {
                    "splits": {
                        name: {
                            "source": {"kind": "file", "path": f"prompts/{name}.jsonl"},
                            "expectation": "varies",
                        }
                        for name in self.splits
                    }
                }
            },
        }
        study = {
            "study": "speed",
            "models": list(SYSTEM_PROMPTS),
            "splits": list(self.splits),
            "samples": options.samples,
            "judges": ["keyword"],
            "batch": "engine",
            "determinism": determinism,
            "catalogue": [*map(str, options.catalogue), "entries.yaml"],
            "cache_dir": str(ROOT / ".cache"),
        }
        (folder / "entries.yaml").write_text(yaml.safe_dump(entries), encoding="utf-8")
        (folder / "study.yaml").write_text(yaml.safe_dump(study), encoding="utf-8")
        return folder

    def _snakemake(self, project: Path, *arguments: str) -> list[str]:
        where = [
            "-s",
            str(ROOT / "Snakefile"),
            "--directory",
            str(project),
            "--configfile",
            str(project / "study.yaml"),
        ]
        return snakemake(*where, "--cores", "all", "--resources", f"gpu={self.options.gpus}", *arguments)


def read_splits(folder: Path, count: int) -> dict[str, list[str]]:
    """Return the first `count` different prompts of every JSONL file in a folder, by split (`speed-`, the file's name).

    Raises:
        SystemExit: if there are none.
    """
    splits: dict[str, list[str]] = {}
    for path in sorted(folder.glob("*.jsonl")):
        texts = dict.fromkeys(row["prompt"] for row in read_jsonl(path))
        splits[f"speed-{path.stem.lower()}"] = list(itertools.islice(texts, count))
    if not splits:
        raise SystemExit(f"{folder} holds no .jsonl files with prompts")
    return splits


def prompt_id(text: str) -> str:
    """Return the id that the workflow gives a prompt of one user message."""
    return content_id([{"role": "user", "content": text}])


def flags_of(command: Sequence[str]) -> dict[str, Any]:
    """Return the arguments of vLLM's offline class that say the same as the server's command line."""
    flags: dict[str, Any] = {}
    for word in command[3:]:
        name, is_valued, text = word.removeprefix("--").partition("=")
        value = yaml.safe_load(text) if is_valued else not name.startswith("no-")
        name = name if is_valued else name.removeprefix("no-")
        if name not in OF_THE_SERVER:
            flags[name.replace("-", "_")] = value
    return flags


def stored(results: Path) -> Iterator[tuple[Request, list[int]]]:
    """Yield what the workflow asked, with the token ids that came back and are in the store."""
    for path in sorted((results / "speed" / "requests").rglob("*.jsonl")):
        file = read_requests(path)
        asked = {**file.header["sampling"], **{name: FIXED_FIELDS[name] for name in ("ignore_eos", "logprobs")}}
        asked.pop("logprob_token_ids", None)
        seeded = file.header["determinism"] != "free"
        records = StoreReader(results / "store", file.header["engine_id"]).lookup(file.keys())
        for request in file.requests():
            sampling = {**asked, "seed": request.seed if seeded else None}
            response = records[str(request.key)]["response"]
            assert len(unpack_floats(response["logprobs"] or "")) == len(response["token_ids"])
            yield (canonical_json(request.token_ids), asked_with(sampling)), response["token_ids"]


def asked_with(sampling: Mapping[str, Any]) -> str:
    """Return sampling parameters as JSON, in which 1 and 1.0 are the same."""
    return canonical_json(plain(dict(sampling)))


def by_request(pairs: Iterable[tuple[Request, list[int]]]) -> Answers:
    """Return the answers to each request; requests are counted, also where several are alike."""
    answers: Answers = {}
    for request, answer in pairs:
        answers.setdefault(request, []).append(answer)
    return answers


def compared(ours: Answers, theirs: Answers) -> str:
    """Return what differs between the arms, in words.

    Raises:
        SystemExit: if they were not asked the same.
    """
    counts = [Counter({request: len(answers) for request, answers in arm.items()}) for arm in (ours, theirs)]
    difference = counts[0] - counts[1], counts[1] - counts[0]
    if any(difference):
        firsts = [next(iter(side), None) for side in difference]
        raise SystemExit(f"the arms were asked different things: {[side.total() for side in difference]}; {firsts}")
    other = sum(sum(1 for a, b in zip(ours[r], theirs[r], strict=True) if a != b) for r in ours)
    tokens = [sum(len(answer) for answers in arm.values() for answer in answers) for arm in (ours, theirs)]
    reported = f"{counts[0].total()} requests each, difference of the lists 0; {other} answers differ"
    return f"{reported}; {tokens[0]} and {tokens[1]} tokens"


def recorded(file: Path | None, settings: Mapping[str, Any], pairs: list[tuple[float, float]]) -> list[Any]:
    """Add pairs to those that a file holds for these settings; return all."""
    if file is None:
        return pairs
    rows = list(read_jsonl(file)) if file.is_file() else []
    rows += [{"settings": dict(settings), "seconds": list(pair)} for pair in pairs]
    file.write_text("".join(canonical_json(row) + "\n" for row in rows), encoding="utf-8")
    return [row["seconds"] for row in rows if row["settings"] == json.loads(json.dumps(dict(settings)))]


def main() -> None:
    """Measure and print."""
    bundled = ROOT / "config" / "prompts"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path(os.environ.get(PROMPTS_VARIABLE, bundled))
    parser.add_argument("--prompts", type=Path, default=default, help=f"folder of JSONL files ({PROMPTS_VARIABLE})")
    parser.add_argument("--prompts-per-split", type=int, default=40)
    parser.add_argument("--samples", type=int, default=5, help="K")
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--runs", type=int, default=3, help="pairs")
    parser.add_argument("--determinism", nargs="+", default=["seeded"], choices=MODES)
    parser.add_argument("--engine", default="smollm2-135m", help="engine of the catalogue")
    parser.add_argument("--catalogue", nargs="*", type=Path, default=[], help="your own catalogue files")
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--record", type=Path, help="keep the values in this file, and count those that it holds")
    parser.add_argument("--work", type=Path, help="keep all files here (a new folder)")
    options = parser.parse_args()
    print_head("Generation through the workflow against one plain offline vLLM call")
    if options.prompts == bundled:
        print(f"prompts: the bundled ones; {PROMPTS_VARIABLE} or --prompts names a folder with more")
    work = options.work or Path(tempfile.mkdtemp(prefix="generation-speed-"))
    try:
        comparison = Comparison(options, work.resolve())
        comparison.prepare()
        sizes = {name: len(texts) for name, texts in comparison.splits.items()}
        print(f"2 models x {len(sizes)} splits, {sum(sizes.values())} prompts, K = {options.samples}: {sizes}")
        for determinism in options.determinism:
            print(f"determinism: {determinism}", flush=True)
            pairs = [comparison.pair(determinism, number) for number in range(1, options.runs + 1)]
            names = ("engine", "prompts_per_split", "samples", "max_tokens")
            settings = {name: getattr(options, name) for name in names} | {"determinism": determinism, "sizes": sizes}
            pairs = recorded(options.record, settings, pairs)
            workflow = print_values("  workflow", [pair[0] for pair in pairs], digits=1)
            offline = print_values("  plain vLLM", [pair[1] for pair in pairs], digits=1)
            print_values("  workflow / plain, of each pair", [pair[0] / pair[1] for pair in pairs], "times", 3)
            print_limit("  workflow / plain, of the medians", workflow / offline, LIMIT, "times")
        for determinism in MODES:
            if determinism not in options.determinism:
                print(f"determinism {determinism}: not measured; --determinism {determinism} measures it")
        if not gpus():
            print("GPU: not measured on this machine; --engine and --catalogue name a model that needs one")
    finally:
        if options.work is None:
            shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
