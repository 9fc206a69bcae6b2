"""The models that ship: each can be served on the cards that its engine names, and says what nobody verified; the
paper's study."""

import shutil

import pytest
import yaml
from config_project import COMMIT, locked_repo
from engine_entries import engine_identity, server_command
from test_catalogue_splits import NINE

from refusal_eval.config.load_study import load_study
from refusal_eval.config.problems import ConfigError
from refusal_eval.engines.vllm_arguments import identity_args
from refusal_eval.tools.check.checked_model import asking_study
from refusal_eval.weights.engine_file import engine_id, weight_source

CARD_GB = 80
ROOM_GB = 5  # on each card beside the weights: for the cache of the texts that are worked on
DEMO = {"smollm2-plain", "smollm2-declining", "qwen2.5-coder-1.5b"}
THINKING = {
    *("qwen3-4b-thinking", "qwen3-next-80b-thinking", "qwen3-next-80b-uncensored", "gpt-oss-20b", "gpt-oss-120b"),
    *("r1-distill-qwen-7b", "r1-distill-llama-8b", "r1-distill-qwen-32b", "r1-distill-llama-70b"),
}
NEVER_READ = ("refusal-tokens-single", "refusal-tokens-categories")  # repositories without a known commit and licence
PAPER = [
    "qwen3-4b-instruct-paper",
    "qwen3-4b-thinking-paper",
    "qwen3-next-80b-instruct-paper",
    "qwen3-next-80b-thinking-paper",
    "qwen3-next-80b-uncensored-paper",
    "gemma-3-4b-it-paper",
]


@pytest.fixture(scope="module")
def models(shipped):
    """Return the models whose weights are served here, but for those of the demo."""
    engines, models = shipped.valid["engines"], shipped.valid["models"]
    return {name: one for name, one in models.items() if name not in DEMO and not engines[one.engine].elsewhere}


@pytest.fixture(scope="module")
def engines(shipped, models):
    """Return the engines of the models; judges may have others."""
    used = {model.engine for model in models.values()}
    return {name: entry for name, entry in shipped.valid["engines"].items() if name in used}


def test_each_model_has_an_engine_and_each_engine_a_user(shipped, models, engines):
    judging = {entry.engine for entry in shipped.valid["judges"].values() if getattr(entry, "engine", None)}
    assert {model.engine for model in models.values()} == set(engines)
    answering = {model.engine for model in shipped.valid["models"].values()}
    assert set(shipped.valid["engines"]) == answering | judging, "no engine that nobody uses"
    assert answering - {name for name, engine in shipped.valid["engines"].items() if engine.elsewhere} == (
        set(engines) | {"smollm2-135m", "qwen2.5-coder-1.5b"}
    )


def test_each_engine_fits_on_the_cards_that_it_names_and_leaves_room(engines):
    for name, engine in engines.items():
        cards = engine.tensor_parallel * engine.pipeline_parallel
        assert engine.device == "cuda" and cards in (1, 2, 4) and engine.data_parallel == 1
        assert CARD_GB * engine.memory_share - engine.weights_gb / cards >= ROOM_GB, name


def test_each_engine_has_a_commit_or_says_that_it_has_none_and_nobody_claims_to_have_run_it(engines):
    for name, engine in engines.items():
        pin = engine.weights.open_pin
        assert (pin is not None) == ("uncensored" in name or name in NEVER_READ)
        assert pin is None or any("commit" in what for what in engine.unverified)
        assert engine.verified == "never"
        assert (
            engine.licence or name in NEVER_READ
        ) and engine.terms == f"https://huggingface.co/{engine.weights.repo}"
        assert engine.trust_remote_code is False


def test_only_qwen3_nexts_keys_hold_an_argument_which_spares_them_a_kernel_that_nvcc_compiles(shipped):
    for name, engine in shipped.valid["engines"].items():
        entry = engine.model_dump(mode="json")
        wanted = {"gdn-prefill-backend": "triton"} if name.startswith("qwen3-next") else {}
        assert identity_args(entry.get("args", {})) == wanted, name


def test_the_smallest_engine_compiles_on_a_gpu_and_starts_on_a_cpu_as_it_always_did(shipped):
    entry = shipped.valid["engines"]["smollm2-135m"].model_dump(mode="json")
    assert "--enforce-eager" not in server_command("python", "folder", entry, "cuda", "seeded", "sock")
    as_before = {**entry, "args": {"enforce-eager": True, "max-num-seqs": 64}}
    on_cpu = [server_command("python", "folder", one, "cpu", "seeded", "sock") for one in (entry, as_before)]
    assert on_cpu[0] == on_cpu[1] and "--enforce-eager" in on_cpu[0]
    identity = engine_identity(entry, weight_source(entry["weights"]).identity(None))
    assert engine_id(identity) == "eff4c820723eba81", "what the store holds of the demo"


def test_sampling_is_written_out(shipped, models):
    for name in models:
        sampling = shipped.written["models"][name].get("sampling")
        assert {"max_tokens", "temperature", "top_p", "top_k", "min_p"} <= set(sampling), name


def test_models_that_reason_say_how_it_ends_and_have_room_for_it(models, engines):
    for name, model in models.items():
        thinks = name.removesuffix("-paper") in THINKING
        assert (model.reasoning is not None) == thinks, name
        longest = engines[model.engine].max_model_len
        assert name.startswith(NEVER_READ) or longest >= model.sampling.max_tokens + 8192, (
            "room for the longest prompts of the splits"
        )
        if not thinks:
            continue
        if name.startswith("gpt-oss"):
            assert model.reasoning.format == "harmony" and model.template_options["reasoning_effort"] == "medium"
        else:
            assert (model.reasoning.start, model.reasoning.end) == ("<think>", "</think>")
        assert name in PAPER or model.sampling.max_tokens >= 16384


# ---------------------------------------------------------------- the paper's study


@pytest.fixture
def paper(repository, monkeypatch):
    monkeypatch.chdir(repository)
    return yaml.safe_load((repository / "config" / "studies" / "paper.yaml").read_text(encoding="utf-8"))


def test_the_papers_study_asks_what_the_paper_asks(paper):
    config = load_study(paper, "config/studies/paper.yaml", open_pins=True)
    assert config["models"] == PAPER and config["samples"] == 5
    assert config["splits"] == list(NINE)
    assert (
        sum(entry["expected_rows"] for entry in config["split_entries"].values())
        == sum(rows for rows, _ in NINE.values())
        == 2293
    )
    assert config["allow"] == ["ccp_sensitive_sampled", "gemma-3-4b-it-paper"]
    for model in config["model_entries"].values():
        asked = model["sampling"]
        assert (asked["temperature"], asked["top_p"], asked["top_k"], asked["min_p"]) == (0.6, 0.95, 20, 0.0)
        assert asked["max_tokens"] == 8192 and asked["repetition_penalty"] == 1.0
    engines = {config["model_entries"][name]["engine"] for name in PAPER}
    assert {config["engine_entries"][name]["max_model_len"] for name in engines} == {16384}


def test_one_commit_of_the_papers_study_is_open_and_with_it_the_study_is_whole(paper, repository, tmp_path):
    with pytest.raises(ConfigError) as reported:
        load_study(paper, "config/studies/paper.yaml")
    assert [line for line in str(reported.value).splitlines() if "commit hash" in line]
    assert str(reported.value).startswith("1 mistake"), reported.value
    lock = {"lock_version": 1, "models": [locked_repo("MultiverseComputingCAI/Qwen3-Next-80B-A3B-Thinking-Uncensored")]}
    (tmp_path / "paper.lock.yaml").write_text(yaml.safe_dump(lock), encoding="utf-8")
    for name in ("paper.yaml", "paper_targets.csv"):
        shutil.copy(f"config/studies/{name}", tmp_path)
    config = load_study(paper, str(tmp_path / "paper.yaml"))
    name = "qwen3-next-80b-uncensored-paper"
    assert config["engine_entries"][name]["weights"]["revision"] == COMMIT


# ---------------------------------------------------------------- gated, or not for commercial use


@pytest.fixture
def study(repository, monkeypatch):
    monkeypatch.chdir(repository)
    return {"study": "s", "models": ["smollm2-plain"], "splits": ["sensitive"], "samples": 2, "judges": ["keyword"]}


def mistakes(study, name="config/config.yaml"):
    try:
        load_study(study, name, open_pins=True)
    except ConfigError as error:
        return str(error)
    return ""


def test_engines_whose_weights_are_gated_or_non_commercial_or_elsewhere_are_off_and_say_why(shipped):
    engines = shipped.valid["engines"]
    for name, engine in engines.items():
        asks = (
            engine.gated or "-NC" in (engine.licence or "") or engine.elsewhere or name in NEVER_READ
        )  # or costs money
        assert bool(asks) == (not engine.enabled), name
        assert engine.enabled or (engine.reason and engine.terms), name


@pytest.mark.parametrize("key", ["models", "judges"])
def test_models_and_judges_with_such_weights_need_to_be_allowed(shipped, study, key):
    engines = {name: shipped.valid["engines"].get(getattr(e, "engine", "")) for name, e in shipped.valid[key].items()}
    off = {
        name: e for name, e in engines.items() if e and not e.enabled and not name.startswith(NEVER_READ)
    }  # families
    assert len(off) >= 2
    for name, engine in off.items():
        reported = mistakes(study | {key: [name]})
        assert f"`{name}` is off by default" in reported and engine.reason in reported and engine.terms in reported
        assert f"write `allow: [{name}]` into the study" in reported
        assert mistakes(study | {key: [name], "allow": [name]}) == ""


@pytest.mark.feature("refusal_tokens")
def test_an_entry_that_stands_for_several_models_is_allowed_by_its_own_name(study, tmp_path):
    weights = {"kind": "hub", "repo": "owner/gated", "revision": COMMIT}
    engine = {
        "weights": weights,
        "max_model_len": 64,
        "enabled": False,
        "reason": "Ask first",
        "terms": "https://e.org",
    }
    tokens = {"refuse": "[refuse]", "respond": "[respond]"}
    models = {"taught": {"engine": "asked", "sampling": {"max_tokens": 9}, "refusal_tokens": tokens}}
    file = tmp_path / "own.yaml"
    file.write_text(yaml.safe_dump({"engines": {"asked": engine}, "models": models}), encoding="utf-8")
    mine = study | {"models": ["taught"], "catalogue": [str(file)]}
    reported = mistakes(mine)
    assert reported.count("off by default") == 1 and "models[0]: `taught` is off by default" in reported
    assert "write `allow: [taught]` into the study" in reported
    assert "off by default" not in mistakes(mine | {"allow": ["taught"]})
    listed = mistakes(study | {"models": ["taught.refuse", "taught.respond"], "catalogue": [str(file)]})
    assert "write `allow: [taught.refuse]`" in listed and "write `allow: [taught.respond]`" in listed


def test_an_own_entry_on_the_same_weights_is_off_too_and_own_gated_weights_are_not(study, tmp_path):
    weights = {"kind": "hub", "repo": "owner/gated", "revision": COMMIT}
    mine = {"weights": weights, "max_model_len": 64, "gated": True, "terms": "https://example.org"}
    models = {
        "warm": {"like": "gemma-3-4b-it", "sampling": {"max_tokens": 9, "temperature": 1.5}},
        "own": {"engine": "mine", "sampling": {"max_tokens": 9}},
    }
    file = tmp_path / "own.yaml"
    file.write_text(yaml.safe_dump({"engines": {"mine": mine}, "models": models}), encoding="utf-8")
    reported = mistakes(study | {"models": ["warm", "own"], "catalogue": [str(file)]})
    assert "`warm` is off by default" in reported and "`own`" not in reported


def test_a_check_of_a_gated_model_is_allowed_by_naming_it(study):
    assert mistakes(asking_study("gemma-3-4b-it", [])) == ""
