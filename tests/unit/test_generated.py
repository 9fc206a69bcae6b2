"""Prompts that were made step by step against their seeds, with plain arithmetic."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from estimate_rows import LABELS, cell_file

from refusal_eval.ask.answers import blank
from refusal_eval.core.files import write_jsonl
from refusal_eval.core.states import COMPLETE, JUDGED
from refusal_eval.features.generated.generated_table import ChainRows
from refusal_eval.features.generated.measure_generated import measure
from refusal_eval.judges.judge_base import Verdict
from refusal_eval.judges.verdict_files import verdict_row
from refusal_eval.stats.estimates.estimate import Estimate

pytestmark = pytest.mark.feature("generated", "occluded")

K, SEEDS = 2, 40
STEPS = [
    {"split": name, "source": {"kind": "occluded", "split": of, "unit": "word"}, "files": 0, "model": None}
    for name, of in (("middle", "seeds"), ("last", "middle"))
]
PARAMS: dict[str, Any] = {
    "chains": [{"split": "last", "seeds": "seeds", "reading": "broad", "steps": STEPS}],
    "cells": [["j", "m", "last"], ["j", "m", "seeds"]],
    "samples": K,
    "level": 0.95,
}


def prompt(name: str, parent: str | None, seed: str) -> dict[str, Any]:
    source = {} if parent is None else {"parent": parent}
    about = {"cluster": f"c{seed}", "category": "ab"[int(seed) % 2], "source": {"row": 1} | source}
    return {"id": name, "messages": [{"role": "user", "content": f"{name}?"}], **about}


def scored(folder: Path, split: str, prompts: list[dict[str, Any]], votes: dict[str, str]) -> str:
    answers, verdicts = [], []
    for row in prompts:
        for sample, letter in enumerate(votes[row["id"]]):
            place = {"prompt_id": row["id"], "sample": sample, "turn": 0, "key": "0" * 64, "serving": "s"}
            answer = {
                **place,
                **blank(COMPLETE, "stop"),
                "answer": "Words.",
                "answer_tokens": 2,
                "answer_logprob": -1.0,
            }
            verdicts.append(verdict_row(answer, Verdict(JUDGED, LABELS[letter], None)))
            answers.append(answer)
    names = {"split": split, "expectation": "comply", "scored": "all"}
    return str(cell_file(folder / f"{split}.parquet", prompts, answers, verdicts, K, **names))


@pytest.fixture
def made(tmp_path: Path) -> tuple[dict[str, Any], dict[str, str], list[tuple[str, str]]]:
    """Write seeds, of every third of which nothing is left, one prompt of the others, and two of every fourth."""
    draw = np.random.default_rng(3)
    seeds = [prompt(f"s{n}", None, str(n)) for n in range(SEEDS)]
    middle = [prompt(f"m{n}", f"s{n}", str(n)) for n in range(SEEDS) if n % 3]
    last = [prompt(f"l{row['id'][1:]}{k}", row["id"], row["id"][1:]) for row in middle
            for k in "xy" if k == "x" or int(row["id"][1:]) % 4 == 0]  # fmt: skip
    votes = {row["id"]: "".join(draw.choice(list("RC"), K, p=[0.2, 0.8])) for row in seeds}
    votes |= {row["id"]: "".join(draw.choice(list("RC"), K, p=[0.7, 0.3])) for row in last}
    every = {"seeds": seeds, "middle": middle, "last": last}
    for name, rows in every.items():
        write_jsonl(tmp_path / f"{name}.jsonl", rows)
    files = {
        "prompts": [str(tmp_path / f"{name}.jsonl") for name in every],
        "read": list[str](),
        "scores": [scored(tmp_path, name, every[name], votes) for name in ("last", "seeds")],
    }
    pairs = [(row["id"], f"s{row['id'][1:-1]}") for row in last]
    return measure(files, PARAMS), votes, pairs


def value(content: dict[str, Any], estimand: str, split: str, category: str | None = None) -> Any:
    (row,) = [row for row in content["estimates"]
              if (row["estimand"], row["split"], row["category"]) == (estimand, split, category)]  # fmt: skip
    return row


def test_each_prompt_is_compared_with_its_own_seed(made):
    content, votes, pairs = made
    rates = [tuple(votes[name].count("R") / K for name in pair) for pair in pairs]
    found = value(content, "generated_difference", "last")
    assert found["value"] == pytest.approx(math.fsum(one - two for one, two in rates) / len(rates), abs=1e-12)
    assert value(content, "generated_rate", "last")["value"] == pytest.approx(sum(r for r, _ in rates) / len(rates))
    assert value(content, "generated_seeds_rate", "last")["value"] == pytest.approx(
        sum(r for _, r in rates) / len(rates)
    )
    assert found["n_prompts"] == len(pairs) and found["n_clusters"] == len({seed for _, seed in pairs})
    assert found["parameter"] == "minus seeds" and found["low"] < found["value"] < found["high"]


def test_the_interval_is_about_that_of_a_bootstrap_of_seeds(made):
    content, votes, pairs = made
    by_seed: dict[str, list[float]] = {}
    for own, seed in pairs:
        by_seed.setdefault(seed, []).append((votes[own].count("R") - votes[seed].count("R")) / K)
    sums, sizes = np.array([sum(of) for of in by_seed.values()]), np.array([len(of) for of in by_seed.values()])
    picked = np.random.default_rng(1).integers(0, len(sums), (20_000, len(sums)))
    drawn = sums[picked].sum(axis=1) / sizes[picked].sum(axis=1)
    found = value(content, "generated_difference", "last")
    # The wider of two intervals, and with expanded percentiles: at least as wide as the plain one, by less than a half.
    low, high = np.quantile(drawn, [0.025, 0.975])
    assert found["low"] <= low + 0.02 and found["high"] >= high - 0.02
    assert found["high"] - found["low"] < 1.5 * (high - low)


def test_categories_have_the_differences_of_their_own_prompts(made):
    content, votes, pairs = made
    own = [(votes[p].count("R") - votes[s].count("R")) / K for p, s in pairs if int(s[1:]) % 2]
    found = value(content, "generated_difference", "last", "b")
    assert found["value"] == pytest.approx(sum(own) / len(own)) and found["n_prompts"] == len(own)
    assert found["low"] is None


def test_steps_whose_rows_are_all_there_count_prompts(made):
    content, _, pairs = made
    left = sum(n % 3 > 0 for n in range(SEEDS))
    assert value(content, "step_rows_out", "seeds")["value"] == SEEDS
    assert value(content, "step_rows_out", "middle")["value"] == value(content, "step_rows_in", "last")["value"] == left
    assert value(content, "step_rows_out", "last")["value"] == len(pairs)
    assert not [row for row in content["estimates"] if row["estimand"] == "step_rows_lost"]


def test_chains_that_share_seeds_and_steps_count_each_step_once(made, tmp_path):
    content, _, _ = made
    chain = PARAMS["chains"][0]
    shorter = chain | {"split": "middle", "steps": STEPS[:1]}
    later = chain | {"seeds": "middle", "steps": STEPS[1:]}  # the seeds of one chain are a step of the other
    for chains in ([shorter, chain], [chain, shorter], [later, shorter], [shorter, later]):
        paths = [str(tmp_path / f"{name}.jsonl") for one in chains
                 for name in (one["seeds"], *(step["split"] for step in one["steps"]))]  # fmt: skip
        files = {"prompts": paths, "read": list[str](), "scores": list[str]()}
        both = measure(files, PARAMS | {"chains": chains, "cells": []})
        rows = [(row["estimand"], row["split"], row["category"], row["value"]) for row in both["estimates"]]
        wanted = [(row["estimand"], row["split"], row["category"], row["value"]) for row in content["estimates"]
                  if row["estimand"].startswith("step_rows")]  # fmt: skip
        assert sorted(map(str, rows)) == sorted(map(str, wanted)), chains


def test_the_table_of_a_chain_has_the_rates_of_its_own_end_and_what_its_own_steps_lost():
    about = {"model": "m", "judge": "j", "parameter": "minus seeds"}
    every = [Estimate("generated_difference", 0.1, split="middle", **about)]
    every += [Estimate("generated_difference", 0.2, split="last", **about)]
    every += [Estimate("step_rows_lost", 3, split="middle", parameter="refused")]
    whole = ChainRows(every, {"seeds": "seeds", "steps": ["middle", "last"]}, "j")
    assert whole.rate("generated_difference", "m").value == 0.2 and whole.states() == ["refused"]
    later = ChainRows(every, {"seeds": "middle", "steps": ["last"]}, "j")
    assert later.states() == [] and later.rate("generated_difference", "m") is None


@pytest.mark.feature("judged")
@pytest.mark.parametrize("anew", [False, True])
def test_rows_that_the_split_itself_leaves_out_are_a_loss_of_its_own(tmp_path, anew):
    seeds = [prompt(f"s{n}", None, str(n)) for n in range(4)]
    kept = [prompt("k0", "s0", "0"), prompt("k1", "s1", "1")] if anew else seeds[:2]  # `where` dropped the third
    votes = {"s0": "RR", "s1": "RR", "s2": "RR", "s3": "CC", "k0": "RC", "k1": "RC"}
    places = [(row["id"], sample) for row in seeds for sample in range(K)]
    places_of = [{"prompt_id": name, "sample": sample, "turn": 0} for name, sample in places]
    answers, verdicts = tmp_path / "answers.jsonl", tmp_path / "verdicts.jsonl"
    write_jsonl(str(answers), [{**place, "state": COMPLETE} for place in places_of])
    labels = [LABELS[votes[name][sample]] for name, sample in places]
    write_jsonl(str(verdicts), [{**p, "label": label} for p, label in zip(places_of, labels, strict=True)])
    for name, rows in {"seeds": seeds, "last": kept}.items():
        write_jsonl(str(tmp_path / f"{name}.jsonl"), rows)
    keep = {"label": "refusal", "at_least": 0.9}
    source = {"kind": "judged", "split": "seeds", "model": "m", "judge": "j", "keep": keep, "anew": anew}
    step = {"split": "last", "source": source, "files": 2, "model": "m"}
    files = {
        "prompts": [str(tmp_path / f"{name}.jsonl") for name in ("seeds", "last")],
        "read": [str(answers), str(verdicts)],
        "scores": [scored(tmp_path, name, rows, votes) for name, rows in (("last", kept), ("seeds", seeds))],
    }
    content = measure(files, PARAMS | {"chains": [PARAMS["chains"][0] | {"steps": [step]}]})
    lost = {row["parameter"]: row["value"] for row in content["estimates"]
            if row["estimand"] == "step_rows_lost" and row["category"] is None}  # fmt: skip
    counts = [value(content, f"step_rows_{end}", "last")["value"] for end in ("in", "out")]
    assert counts == [4, 2] and lost == {"left_out": 1, "filtered": 1}
    rate = value(content, "generated_rate", "last")["value"]
    assert rate == (0.5 if anew else 1.0)  # of its own answers, not of those that it was chosen by
    assert value(content, "generated_seeds_rate", "last")["value"] == 1.0
