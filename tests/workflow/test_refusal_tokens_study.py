"""A study of a model with refusal tokens through the real DAG: stored responses, and numbers by hand."""

import csv
import json
from collections import defaultdict

import numpy as np
import pytest
import yaml
from project import CATALOGUE, change_yaml, make_project, response

from refusal_eval.ask.store import StoreWriter
from refusal_eval.core.packing import pack_floats

pytestmark = pytest.mark.feature("refusal_tokens")


def tokens_project(folder, **tokens):
    project = make_project(folder)
    for split, count in (("one", 40), ("two", 40)):
        rows = [{"prompt": f"{split}: question {i}?", "topic": ("war", "art")[i % 2]} for i in range(count)]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    catalogue = CATALOGUE | {"gold": {}, "models": dict(CATALOGUE["models"])}
    tokens = tokens or {"refuse": "R", "respond": "A"}
    trained = {"engine": "tiny", "sampling": {"max_tokens": 300}, "label": "Trained", "refusal_tokens": tokens}
    catalogue["models"]["trained"] = trained
    catalogue["datasets"] = {
        "own": {"defaults": {"columns": {"prompt": "prompt", "category": "topic"}}, **CATALOGUE["datasets"]["own"]}
    }
    (project.folder / "catalogue.yaml").write_text(yaml.safe_dump(catalogue))
    project.study(models=["plain", "trained"], samples=2, judges=["words"], gold=[], batch="model")
    return project


def answer_tokens(project, width):
    """Put made-up log-probabilities of the tokens into the store: they depend on the key alone, and some tie."""
    for file in project.request_files("token_requests"):
        with StoreWriter(project.store, file.header["engine_id"], "token_requests") as writer:
            writer.describe("by-hand", {"vllm": "none"})
            for key in sorted(set(file.keys())):
                weights = np.array([int(key[i], 16) // 4 + 0.5 for i in range(width)])
                shares = weights / weights.sum() * 0.9
                packed = pack_floats(np.log(shares).tolist())
                writer.append(key, response("R", [3], [-0.1], "length", None) | {"named_logprobs": packed}, "by-hand")


def complete(project, width):
    project.snakemake("--until", "requests", "token_requests")
    project.answer_everything("requests")
    answer_tokens(project, width)
    project.snakemake()
    return project


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    return complete(tokens_project(tmp_path_factory.mktemp("tokens") / "p"), 2)


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def rows_of(project, estimand):
    with (project.results / "results_table" / "results.csv").open(encoding="utf-8", newline="") as file:
        return [row for row in csv.DictReader(file) if row["estimand"] == estimand]


def by_hand(project, branches, model="trained"):
    """Return of each split its prompts: log-probabilities in the order of `branches`, share of refusals, category."""
    found = {}
    for split in ("one", "two"):
        logprobs = {
            row["prompt_id"]: [row["logprobs"][name] for name in branches]
            for row in lines(project.results / "token_probabilities" / model / f"{split}.jsonl")
        }
        rates = defaultdict(lambda: defaultdict(list))
        for name in branches:
            for row in lines(project.results / "verdicts" / "words" / f"{model}.{name}" / f"{split}.jsonl"):
                rates[row["prompt_id"]][name].append(row["label"] == "refusal")
        found[split] = [
            (np.array(logprobs[row["id"]]), [np.mean(rates[row["id"]][name]) for name in branches], row["category"])
            for row in lines(project.results / "prompts" / f"{split}.jsonl")
        ]
    return found


def test_branches_are_made_of_one_entry_and_share_a_load(single):
    assert sorted(path.name for path in (single.results / "answers").iterdir()) == [
        "plain",
        "trained.refuse",
        "trained.respond",
    ]
    receipts = {
        str(p.relative_to(single.results / "receipts" / "generate").parent)
        for p in (single.results / "receipts" / "generate").rglob("*.json")
    }
    assert receipts == {"model/tiny/plain", "model/tiny/trained"}


def test_rates_and_f1_at_a_threshold_are_those_of_a_look_up(single):
    prompts = by_hand(single, ["refuse", "respond"])
    wanted, shares, sums = {}, {}, np.zeros(3)
    for split, rows in prompts.items():
        rates, tokens = [], []
        for logprobs, both, _ in rows:
            p = np.exp(logprobs)
            refuses = round(p[0] / p.sum(), 9) >= 0.5
            rates.append(both[0] if refuses else both[1])
            tokens.append(refuses)
            sums += [rates[-1], 0, 1 - rates[-1]] if split == "two" else [0, rates[-1], 0]
        wanted[split], shares[split] = np.mean(rates), np.mean(tokens)
    for row in rows_of(single, "refusal_token_rate"):
        if row["parameter"] == "t=0.5, T=1" and not row["category"]:
            assert float(row["value"]) == pytest.approx(wanted[row["split"]], abs=1e-6)
            assert row["model"] == "trained" and row["judge"] == "words"
    for row in rows_of(single, "refusal_token_share"):
        if row["parameter"] in ("t=0.5, T=1", "t=0.5, T=2", "arg-max") and not row["category"]:
            assert float(row["value"]) == pytest.approx(shares[row["split"]], abs=1e-6)
    (f1,) = [
        r
        for r in rows_of(single, "refusal_token_f1")
        if (r["parameter"], r["reading"], r["category"]) == ("t=0.5, T=1", "strict", "")
    ]
    assert float(f1["value"]) == pytest.approx(2 * sums[0] / (2 * sums[0] + sums[1] + sums[2]), abs=1e-6)
    assert float(f1["low"]) < float(f1["value"]) < float(f1["high"])


def test_the_curve_has_a_row_for_each_threshold_at_which_an_answer_changes(single):
    found = json.loads((single.results / "estimates" / "refusal_tokens.json").read_text())
    curve = [row for row in found["curves"] if row["category"] is None]
    prompts = by_hand(single, ["refuse", "respond"])
    q = {round(float(np.exp(p[0]) / np.exp(p).sum()), 9) for rows in prompts.values() for p, _, _ in rows}
    assert {round(row["threshold"], 9) for row in curve[:-1]} == q | {0.0}
    first, last = curve[0], curve[-1]
    assert first["refusal"] == pytest.approx(np.mean([both[0] for _, both, _ in prompts["two"]]))
    assert last["refusal"] == pytest.approx(np.mean([both[1] for _, both, _ in prompts["two"]]))
    assert last["over_refusal"] == pytest.approx(np.mean([both[1] for _, both, _ in prompts["one"]]))
    assert {row["category"] for row in found["curves"]} == {None, "art", "war"}


def test_a_changed_threshold_asks_no_model_and_no_judge_again(single):
    change_yaml(single.folder / "study.yaml", lambda data: data | {"refusal_tokens": {"thresholds": [0.3]}})
    planned = single.planned()
    assert set(planned) <= {"analysis", "results_table", "table", "figure", "methods", "manifest"}
    assert planned["analysis"] == 1


def test_mistakes_are_said_before_anything_runs(tmp_path):
    project = tokens_project(tmp_path / "p", refuse="[refuse]", respond="A")
    run = project.snakemake("--until", "token_requests", check=False)
    assert "'[refuse]' is not one token that can follow" in run.stdout + run.stderr
    project.study(models=["trained.refuse"])
    run = project.snakemake("-n", check=False)
    assert (
        "the study has `trained.refuse` and lacks the branch `trained.respond`; list `trained`"
        in run.stdout + run.stderr
    )


def test_of_several_refusal_tokens_the_most_probable_one_counts(tmp_path):
    project = complete(tokens_project(tmp_path / "p", refuse={"art": "T", "war": "W"}, respond="A"), 3)
    branches = ["refuse-art", "refuse-war", "respond"]  # of tokens that tie the first one counts
    for split, rows in by_hand(project, branches).items():
        rates = defaultdict(list)
        for logprobs, each, _ in rows:
            p = np.exp(logprobs)
            best = int(np.argmax(p[:2]))
            rates["arg-max"].append(each[best if p[best] >= p[2] else 2])
            own = np.sqrt(p) / np.sqrt(p).sum()
            rates["t=0.5, T=2"].append(each[best if round(own[best], 9) >= 0.5 else 2])
            takes = round(p[best] / p.sum(), 9) >= 0.5 if best == 1 else p[best] >= p[2]
            rates["t=0.5, T=1, refuse-war alone"].append(each[best if takes else 2])
            rates["raw, t=0.5, T=1"].append(each[best if round(p[best], 9) >= 0.5 else 2])
        found = {
            row["parameter"]: float(row["value"])
            for row in rows_of(project, "refusal_token_rate")
            if row["split"] == split and row["reading"] == "strict" and not row["category"]
        }
        for choice, values in rates.items():
            assert found[choice] == pytest.approx(np.mean(values), abs=1e-6), choice
