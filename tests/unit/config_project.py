"""A small project for tests of the config: a catalogue with one entry of every kind, and a study that uses them."""

import copy
import textwrap
from pathlib import Path

import yaml

from refusal_eval.config.load_study import load_study
from refusal_eval.config.problems import ConfigError
from refusal_eval.config.study_entry import StudyConfig
from refusal_eval.features import FEATURES

COMMIT = "0123456789abcdef0123456789abcdef01234567"
SHA256 = "0123456789abcdef" * 4
BASE = "config/catalogue/base.yaml"
LOADER, DUMPER = yaml.CSafeLoader, yaml.CSafeDumper  # these tests write and read thousands of files

CATALOGUE = yaml.safe_load(
    """
engines:
  hub-engine: {weights: {kind: hub, repo: owner/model, revision: COMMIT}, max_model_len: 2048}
  folder-engine: {weights: {kind: folder, path: ../../weights}, max_model_len: 2048}
  wheel-engine:
    weights: {kind: wheel, package: p, version: "1.0", file: p/m.gguf, sha256: SHA256}
    max_model_len: 2048
    verified: {date: "2026-11-22", version: 0.32.0, device: cpu}
  parts-engine:
    weights:
      {kind: wheel_parts, package: "p{part}", version: "1", part: "{part}.bin", parts: 2, file: m.gguf, sha256: SHA256}
    max_model_len: 2048
  classes-engine: {kind: transformers, weights: {kind: folder, path: ../../weights}, max_model_len: 512}
  encoder:
    kind: encoder
    weights: {kind: wheel_folder, package: p, version: "1.0", folder: p/model, sha256: SHA256}
    max_model_len: 512
  far:
    kind: openai
    address: https://host/v1
    served: big
    as_of: 2026-11-01
    price: {input: 1, output: 2, date: 2026-11-01}
  far-too: {kind: anthropic, address: https://host/v1, served: big, as_of: 2026-11-01}
models:
  plain: {engine: hub-engine, sampling: {max_tokens: 64}}
  thinker: {engine: folder-engine, sampling: {max_tokens: 512, temperature: 0.6}, reasoning: {end: </think>}}
  tuned:
    {engine: hub-engine, sampling: {max_tokens: 64}, lora: {kind: hub, repo: owner/adapter, revision: COMMIT}}
  tuned-here: {engine: hub-engine, sampling: {max_tokens: 64}, lora: {kind: folder, path: ../../adapter}}
  steered:
    engine: hub-engine
    sampling: {max_tokens: 64}
    intervention: {direction: refusal, mode: add, layers: {best: 4}, scale: -0.5}
  control:
    engine: hub-engine
    sampling: {max_tokens: 64}
    intervention: {direction: chance, mode: add, layers: {best: 4}, scale: -0.5}
  scales:
    engine: hub-engine
    sampling: {max_tokens: 64}
    intervention: {direction: refusal, mode: add, layers: {best: 4}}
    sweep: {scale: [-0.5, 0.5]}
  ignoring:
    {engine: hub-engine, sampling: {max_tokens: 64}, transform: {kind: append, text: " Take care."}}
  told: {engine: hub-engine, sampling: {max_tokens: 64}, transform: {kind: system, text: Beware.}}
  reworded: {engine: hub-engine, sampling: {max_tokens: 64}, transform: {kind: written, split: reworded-rows}}
  trained:
    engine: hub-engine
    sampling: {max_tokens: 64}
    refusal_tokens: {refuse: "[refuse]", respond: "[respond]"}
datasets:
  family:
    defaults: {columns: {prompt: question}, expectation: comply}
    splits:
      hub-rows: {source: {kind: hub, repo: owner/data, revision: COMMIT, split: test}}
      file-rows: {source: {kind: file, path: ../../rows.csv}, sample: {size: 10}}
      bundled-rows: {source: {kind: bundled, file: shipped.jsonl}, expectation: varies}
      wheel-rows:
        source: {kind: wheel, package: p, version: "1.0", file: p/d.csv, sha256: SHA256}
        expectation: refuse
      url-rows: {source: {kind: url, url: https://example.org/0123/rows.csv, sha256: SHA256}}
  conversations:
    splits:
      talk-rows:
        source: {kind: file, path: ../../rows.csv}
        columns: {turns: [question, answer]}
        dialogue: {mode: cumulative}
        expectation: refuse
      battle-rows:
        source: {kind: file, path: ../../rows.csv}
        columns: {prompt: question}
        battles: {answers: [answer, label]}
        expectation: varies
  coded:
    splits:
      coded-rows:
        source: {kind: file, path: ../../rows.csv}
        columns: {prompt: question, category: label}
        categories: {"yes": agreed, "no": declined}
        expectation: comply
  made:
    defaults: {expectation: comply}
    splits:
      kept-rows: {source: {kind: file, path: ../../rows.csv}, columns: {prompt: question, keep: [label]}}
      left-out-rows: {source: {kind: occluded, split: kept-rows}, columns: {keep: [label]}}
      refused-rows:
        source: {kind: judged, split: kept-rows, model: plain, judge: words, keep: {label: refusal, at_least: 0.5}}
      controlled-rows:
        source:
          {kind: controlled, seeds: kept-rows, by: plain, target: plain, refusals: {split: kept-rows, judge: words}}
      filled-rows: {source: {kind: filled, split: kept-rows, template: ../../ask.md}}
      written-rows:
        source:
          {kind: written, split: kept-rows, by: plain, template: ../../ask.md, parse: {first_line: true},
           checks: {question: true}}
      vetted-rows:
        source: {kind: vetted, split: kept-rows, by: plain, template: ../../ask.md, keep: [fine], leave_out: [bad]}
      reworded-rows: {source: {kind: file, path: ../../rows.csv}, columns: {prompt: answer, parent: label}}
judges:
  words: {kind: keyword, lists: [../../words.yaml]}
  reader: {kind: llm, engine: wheel-engine, rubric: ../../rubric.md, labels: {refusal: A, compliance: C}}
  own: {kind: python, file: ../../own.py}
  both: {kind: panel, members: [words, own]}
  in-turn: {kind: cascade, first: reader, then: writer, unsure: [0.2, 0.8]}
  learner:
    {kind: trained, features: [vectors, prompt, reading], engine: encoder, gold: [people],
     lists: [../../words.yaml], floor: {sp: 0.1}}
  writer: {kind: reasoned, engine: wheel-engine, rubric: ../../rubric.md}
  guard: {kind: wildguard, engine: wheel-engine}
  guard-of-lines: {kind: qwen3guard, engine: wheel-engine}
  came-along: {kind: recorded}
  begins: {kind: first_token, engine: wheel-engine, refusal: ["[refuse]"], compliance: ["[respond]"]}
  begins-as-people: {kind: first_token, engine: wheel-engine, refusal: {gold: people}}
  classes:
    kind: classifier
    engine: classes-engine
    template: ../../words.yaml
    labels: {"0": compliance, "1": refusal}
gold:
  people:
    source: {kind: file, path: ../../rows.csv}
    columns: {prompt: question}
    labels: {"yes": refusal}
    raters: 2
    human_kappa: {broad: 0.9, source: us}
    anchors: [{name: another, kappa: 0.6, source: them}]
  people-on-two:
    source: {kind: file, path: ../../rows.csv}
    columns: {prompt: question}
    answers: {a: {answer: answer, label: label}}
    labels: {"yes": refusal}
    raters: 1
  measured:
    source: {kind: file, path: ../../rows.csv}
    columns: {prompt: question}
    labels: {"yes": refusal}
    raters: 1
    flags: {harm: {column: label, raised: "yes", not_raised: "no"}}
    slices: {column: label, names: {"yes": one, "no": two}}
    anchors: [{name: another, f1: 0.6, flag: harm, slice: one, source: them}]
directions:
  refusal:
    model: plain
    positive: {split: hub-rows, judge: words, above: 0.15}
    negative: {split: file-rows, judge: words, below: -0.15}
    method: rmd
    ridge: {value: 0.1}
    allow_few: true
  chance:
    model: plain
    positive: {split: hub-rows, judge: words, above: 0.15}
    negative: {split: file-rows, judge: words, below: -0.15}
    method: random
    of: rmd
    ridge: {value: 0.1}
    allow_few: true
""".replace("COMMIT", COMMIT).replace("SHA256", SHA256)
)
for feature, key in (("lora", "lora"), ("transforms", "transform")):
    if feature not in FEATURES:
        CATALOGUE["models"] = {name: model for name, model in CATALOGUE["models"].items() if key not in model}
if "occluded" not in FEATURES:
    del CATALOGUE["datasets"]["made"]["splits"]["left-out-rows"]
if "judged" not in FEATURES:
    del CATALOGUE["datasets"]["made"]["splits"]["refused-rows"]
if "controlled" not in FEATURES:
    del CATALOGUE["datasets"]["made"]["splits"]["controlled-rows"]
if "written" not in FEATURES:
    for split in ("filled-rows", "written-rows", "vetted-rows"):
        del CATALOGUE["datasets"]["made"]["splits"][split]
STUDY = {"study": "small", "models": ["plain"], "splits": ["hub-rows"], "samples": 3, "judges": ["words"]}
WHOLE_STUDY = {
    "study": "large",
    "models": ["plain", "thinker"],
    "splits": ["hub-rows", "file-rows", "bundled-rows", "wheel-rows"],
    "samples": 2,
    "judges": ["words", "reader", "own", "both"],
    "gold": ["people"],
    "scoring": {"tau": 0.5},
    "comparisons": [{"label": "All", "pairs": "all", "scope": "splits"}],
    "corrected": {"labels": "labels.jsonl"},
    "targets": "targets.csv",
    "prompts_per_split": {"size": 7},
    "paper": {"width": "14cm"},
}

# A model for splits that keep a column, and its engine.
PLAIN_ENGINE = {"kind": "eager", "weights": {"kind": "folder", "path": "../../weights"}, "max_model_len": 512}
UNFOCUSED = {
    "engine": "plain-engine",
    "sampling": {"max_tokens": 64},
    "intervention": {"kind": "attention", "span": "label", "alpha": 0.1},
}

# What is made of activations, of the model `plain` and under the judge `words`.
OF_ACTIVATIONS = {
    "directions": ["refusal"],
    "separation": [
        {
            "name": "far",
            "models": ["plain"],
            "positive": {"split": "hub-rows"},
            "negative": {"split": "file-rows"},
            "aqi": {"gamma": 0.3},
        }
    ],
}

# A figure of every kind; `turns` needs dialogues, `dose_response` steered models, `battles` battles, `who_refused`
# hosted models, `refusal_tokens` models with such tokens, `attributions` an attribution and `generated` prompts made of
# others, which the study above has none of.
FIGURES = [
    {"name": "a", "kind": "heatmap", "labels": {"models": {"plain": "Plain"}}},
    {"name": "b", "kind": "histograms"},
    {"name": "c", "kind": "tradeoff"},
    {"name": "d", "kind": "refusal_kinds", "judge": "own"},
    {"name": "e", "kind": "categories"},
    {"name": "f", "kind": "tau_sweep"},
    {"name": "g", "kind": "turns"},
    {"name": "h", "kind": "judge_agreement"},
    {"name": "i", "kind": "calibration"},
    {"name": "j", "kind": "dose_response"},
    {"name": "k", "kind": "separation", "separation": "far"},
    {"name": "l", "kind": "threshold", "judge": "reader"},
    {"name": "m", "kind": "battles"},
    {"name": "n", "kind": "who_refused"},
    {"name": "o", "kind": "refusal_tokens"},
    {"name": "p", "kind": "attributions", "attribution": "words"},
    {"name": "q", "kind": "generated", "split": "refused-rows"},
]


def locked_repo(repo="owner/model", commit=COMMIT, files=None, **keys):
    """Return what a lock file says of a repository."""
    entry = {"repo": repo, "commit": commit, "date": "2026-01-02", "pinned_by": "lock", "gated": False}
    licence = {"hub": None, "entry": None, "agrees": None}
    return entry | {"licence": licence, "files": files or {"config.json": f"2 git:{COMMIT}"}} | keys


def validated(models, splits, judges, folders=(), **changes):
    """Return a validated config that needs no file: splits by their expectation, each in a folder of its own name.

    Args:
        models, judges: their names.
        splits: the expectation of each.
        folders: of splits that lie in another folder, which it is.
        changes: what else the study says.
    """
    model, judge = {"engine": "e", "sampling": {"max_tokens": 8}}, {"kind": "keyword", "lists": ["words.yaml"]}
    folders = dict.fromkeys(splits) | dict(folders)
    values = {
        "study": "s",
        "models": list(models),
        "splits": list(splits),
        "judges": list(judges),
        "primary_judge": judges[0],
        "samples": 2,
        "engine_entries": {"e": {"weights": {"kind": "folder", "path": "weights"}, "max_model_len": 64}},
        "model_entries": dict.fromkeys(models, model),
        "split_entries": {
            name: {
                "expectation": expectation,
                "source": {"kind": "file", "path": f"{folders[name] or name}/rows.csv"},
            }
            for name, expectation in splits.items()
        },
        "judge_entries": dict.fromkeys(judges, judge),
        "gold_entries": {},
    }
    return StudyConfig.model_validate(values | changes).model_dump(mode="json")


class Project:
    """A folder with config/catalogue/, the files that the entries name, and whatever a test writes into it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write(BASE, CATALOGUE)
        for name in ("config.json", "tokenizer.json", "model.safetensors"):
            self.write(f"weights/{name}", "x")
        for name in ("adapter_config.json", "adapter_model.safetensors"):
            self.write(f"adapter/{name}", "x")
        self.write("rows.csv", "question,answer,label\n")
        self.write("config/prompts/shipped.jsonl", "{}\n")
        self.write("words.yaml", "refusal_openings: []\n")
        self.write("ask.md", "<q-{{ nonce }}>{{ prompt }}</q-{{ nonce }}>\n")
        self.write("labels.jsonl", "")
        self.write("targets.csv", "model,split,number,value,source\nplain,hub-rows,refusal_rate,0.5,A paper\n")
        self.write("answers.jsonl", '{"prompt": "Q", "answer": "A"}\n')
        self.write("rubric.md", "{{ prompt }} <r_{{ nonce }}>{{ answer }}</r_{{ nonce }}>\n")
        self.write("own.py", "def judge(messages, answer):\n    return 'refusal'\n")

    def write(self, name, content):
        """Write a file: YAML of a value, or a text without its common indentation."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        written = isinstance(content, str)
        text = textwrap.dedent(content) if written else yaml.dump(content, Dumper=DUMPER, sort_keys=False)
        path.write_text(text, encoding="utf-8")
        return path

    def load(self, study=STUDY, file="study.yaml", overrides=None):
        """Write a study (a mapping or YAML text), read it as Snakemake would, and validate it."""
        path = self.write(file, study)
        try:
            raw = yaml.load(path.read_text(encoding="utf-8"), Loader=LOADER)
        except (yaml.YAMLError, ValueError):
            raw = {}
        raw = raw if isinstance(raw, dict) else {}
        return load_study(raw | (overrides or {}), file, ".")

    def mistakes(self, study=STUDY, file="study.yaml", overrides=None):
        """Return the lines of the message that `load` fails with; none when it does not fail."""
        try:
            self.load(study, file, overrides)
        except ConfigError as error:
            heading, *lines = str(error).splitlines()
            assert heading.startswith(f"{len(lines)} mistake")
            return [line.removeprefix("  - ") for line in lines]
        return []


def changed(value, path, new):
    """Return a copy of a value with another one at `path`."""
    value = copy.deepcopy(value)
    if not path:
        return new
    holder = value
    for part in path[:-1]:
        holder = holder[part]
    holder[path[-1]] = new
    return value


def with_entry(project, section, name, value, study=STUDY):
    """Return the mistakes of a study whose catalogue has another value for one entry."""
    project.write(BASE, changed(CATALOGUE, (section, name), value))
    return project.mistakes(study)
