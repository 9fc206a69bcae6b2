"""Catalogue entries: engines, models and gold, as users write them in YAML.

Data sets are in datasets.py, judges in judges.py.
"""

from __future__ import annotations

import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from refusal_eval.config.entry_marks import Marks
from refusal_eval.config.shapes import (
    TEMPLATE_HELP,
    AnswersFolder,
    ArgumentName,
    ClustersPath,
    Day,
    Entry,
    Number,
    Page,
    PlainMapping,
    ProgramPath,
    Slug,
    Template,
    Text,
    Version,
    Whole,
    shown,
)
from refusal_eval.config.source_entries import AdapterSource, DataSource, WeightsSource

Label = Literal["refusal", "partial", "compliance"]


# ---------------------------------------------------------------- engines and models


ARGS_WITH_A_FIELD = {
    "dtype": "dtype",
    "quantization": "quantization",
    "max-model-len": "max_model_len",
    "tensor-parallel-size": "tensor_parallel",
    "pipeline-parallel-size": "pipeline_parallel",
    "data-parallel-size": "data_parallel",
    "nnodes": "nodes",
    "gpu-memory-utilization": "memory_share",
    "trust-remote-code": "trust_remote_code",
    "device": "device",
}
ARGS_OF_THE_WORKFLOW = (
    *("model", "revision", "tokenizer", "tokenizer-revision", "served-model-name", "chat-template"),
    *("generation-config", "override-generation-config", "logprobs-mode", "seed"),
    *("host", "port", "uds", "api-key"),
    *("enable-lora", "lora-modules", "max-lora-rank", "default-mm-loras"),
    *("node-rank", "master-addr", "master-port", "headless"),
    *("data-parallel-address", "data-parallel-rpc-port"),
)
ARGS_REFUSED = {
    "hf-token": "would be written into logs, the store and the manifest; set HF_TOKEN, and weights are fetched with it",
    "config": "names a file of further arguments, which no key and no record would show; write them here",
}


def _free_argument(name: str) -> str:
    """Refuse arguments that would be a second way to say what a key says, or undo what the workflow needs."""
    plain = name.removeprefix("no-").split(".")[0]
    if plain in ARGS_REFUSED:
        raise ValueError(f"`{name}` {ARGS_REFUSED[plain]}")
    if plain in ARGS_WITH_A_FIELD:
        raise ValueError(f"`{name}` has a key of its own: write it as `{ARGS_WITH_A_FIELD[plain]}` of the engine")
    if plain in ARGS_OF_THE_WORKFLOW:
        raise ValueError(f"`{name}` is set by the workflow and cannot be changed here")
    # vLLM takes the beginning of an argument for the argument. No other argument begins one of these.
    for known in (*ARGS_WITH_A_FIELD, *ARGS_OF_THE_WORKFLOW, *ARGS_REFUSED):
        if known.startswith(plain):
            raise ValueError(f"`{name}` is short for `{known}`; write arguments in full")
    return name


def _no_argument(value: Any) -> Any:
    """Refuse a text that vLLM, or whoever reads its command line, could take for another argument."""
    if isinstance(value, str) and value.lstrip().startswith("-"):
        message = f"{shown(value)} begins with `-`, as another argument does; write a number without quotes"
        raise ValueError(message)
    if isinstance(value, str) and "\0" in value:
        raise ValueError(f"{shown(value)} holds a NUL character, which no command line can hold")
    return value


FreeArgument = Annotated[ArgumentName, AfterValidator(_free_argument)]
ArgumentValue = Annotated[str | int | float | bool, AfterValidator(_no_argument)]


class Verified(Entry):
    """When and where an engine was last seen to work."""

    date: Day = Field(description="The day.")
    version: Version = Field(description="Version of vLLM.")
    device: Text = Field(description="What it ran on: `cpu`, or the GPU's name, e.g. `8 x H100 80GB`.")


class Engine(Entry):
    """Weights and how they are served."""

    kind: Literal["vllm", "transformers"] = Field(
        "vllm",
        description="What serves the weights: `vllm` language models, `transformers` classifiers (sequence "
        "classification), for judges of kind `classifier`.",
    )
    weights: WeightsSource = Field(description="Where weights, tokenizer and chat template come from.")
    dtype: Literal["bfloat16", "float16", "float32"] = Field(
        "bfloat16", description="Number format. In the request key."
    )
    quantization: Annotated[str, AfterValidator(_no_argument)] | None = Field(
        None, description="vLLM quantization method. In the request key."
    )
    max_model_len: Whole = Field(ge=16, description="Longest prompt plus answer, in tokens. Not in the request key.")
    tensor_parallel: Whole = Field(1, ge=1, description="GPUs that share each layer. Not in the request key.")
    pipeline_parallel: Whole = Field(1, ge=1, description="GPUs that share the layers in turn. Not in the request key.")
    data_parallel: Whole = Field(
        1,
        ge=1,
        description="Copies of the model behind one server. Not in the request key. Take `shards` of the study "
        "instead: each shard has a server of its own, while one server for all copies is what is slowest. And while "
        "more than one copy runs, vLLM's own processes listen on all addresses of the machine: only behind a firewall.",
    )
    nodes: Whole = Field(
        1,
        ge=1,
        le=64,
        description="Machines that share one engine, each with an equal part of its GPUs (tensor x pipeline x data "
        "parallel, in all): one Slurm job on so many nodes, with the server on the first and vLLM's own processes "
        "(`--nnodes`, `--headless`) on the others. They talk over the nodes' network addresses, where whoever reaches "
        "the nodes reaches their ports: use it only behind a firewall. Written from vLLM 0.32's source and not yet "
        "tried on such hardware; what Slurm's plugin submits for it (`sbatch --gpus=16 --nodes=2`) is untried, too. "
        "Not in the request key.",
    )
    memory_share: Number = Field(0.9, gt=0, le=1, description="Share of a GPU's memory, or of RAM on a CPU engine.")
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="`auto` takes the device that the engine environment was built for. Not in the request key."
    )
    args: dict[FreeArgument, ArgumentValue] = Field(
        {},
        description="Further vLLM arguments by long name, without leading dashes; `false` becomes `--no-...`. "
        "Those that only concern serving stay out of the request key, `max-num-seqs` and `max-num-batched-tokens` "
        "among them. `enforce-eager` is `true` by default on a CPU engine.",
    )
    python: ProgramPath | None = Field(
        None, description="Python of your own engine environment. Default: .venv/engine."
    )
    start_timeout: Whole = Field(1800, ge=1, description="Seconds the server may take until it is healthy.")
    stall_timeout: Whole = Field(
        1800,
        ge=1,
        description="Seconds without a single token, while the server has requests and says that it is well, after "
        "which it is taken for dead: a device hangs. What was answered is kept, and a rerun goes on.",
    )
    trust_remote_code: bool = Field(False, description="Run code that the model repository ships. In the request key.")
    verified: Literal["never"] | Verified = Field(
        "never",
        description="When and where this entry was last seen to work with the real engine, e.g. "
        "`{date: 2026-11-22, version: 0.32.0, device: cpu}`. For readers only; in no key.",
    )
    licence: Text | None = Field(
        None, description="Licence of the weights, as their publisher states it. Told by `make plan`; in no key."
    )
    gated: bool | None = Field(
        False, description="Whether one must ask the publisher for access to the weights first; `null` is not known."
    )
    enabled: bool = Field(
        True,
        description="`false`: a study uses a model or a judge with this engine only if it names it in `allow`. For "
        "weights that are gated or not free to use.",
    )
    reason: Text | None = Field(None, description="Why it is off; told to whoever uses it.")
    terms: Page | None = Field(None, description="Where to ask for access, or to read the terms.")
    weights_gb: Number | None = Field(
        None,
        gt=0,
        description="Size of the weights that are fetched, in GB (10^9 bytes). For the estimates of `make plan` "
        "and `make doctor` only.",
    )
    parameters: Number | None = Field(
        None,
        gt=0,
        description="Parameters in billions, where the name of the weights (`x-8B`, `x-80B-A3B`) does not tell. For "
        "estimates only.",
    )
    active_parameters: Number | None = Field(
        None,
        gt=0,
        description="Parameters in billions that one token passes through, of a mixture of experts. Default: all. For "
        "estimates only.",
    )
    unverified: list[Text] = Field(
        [], description="What of this entry nobody could verify when it was written; `make plan` tells it."
    )

    @model_validator(mode="after")
    def _says_where_to_ask(self) -> Engine:
        if self.gated and self.terms is None:
            raise ValueError("`gated: true` needs `terms`: the address where one asks for access")
        if not self.enabled and self.reason is None:
            raise ValueError("`enabled: false` needs a `reason`: users read it")
        if self.active_parameters is not None and self.parameters is None:
            raise ValueError("`active_parameters` needs `parameters`: how many there are in all")
        return self

    @model_validator(mode="after")
    def _only_what_classifiers_know(self) -> Engine:
        if self.kind == "transformers":
            names = ("quantization", "tensor_parallel", "pipeline_parallel", "data_parallel", "nodes", "args")
            for name in names:
                if getattr(self, name) != type(self).model_fields[name].default:
                    raise ValueError(f"`{name}` is for engines of kind `vllm`; leave it out")
        return self

    @model_validator(mode="after")
    def _nodes_share_the_gpus(self) -> Engine:
        gpus = self.tensor_parallel * self.pipeline_parallel * self.data_parallel
        if gpus % self.nodes:
            raise ValueError(
                f"{gpus} GPUs (tensor x pipeline x data parallel) cannot be shared equally by {self.nodes} `nodes`"
            )
        if self.nodes > 1 and self.device == "cpu":
            raise ValueError("`nodes` is for GPU engines; leave it out with `device: cpu`")
        return self


class Sampling(Entry):
    """How answers are drawn. Every parameter is sent; nothing is left to the server."""

    max_tokens: Whole = Field(ge=1, description="Longest answer, in tokens (reasoning included).")
    temperature: Number = Field(1.0, ge=0, le=10, description="0 is greedy, and then `samples` must be 1.")
    top_p: Number = Field(1.0, gt=0, le=1, description="Nucleus sampling. 1 is off.")
    top_k: Whole = Field(0, ge=0, description="Keep the k likeliest tokens. 0 is off.")
    min_p: Number = Field(0.0, ge=0, le=1, description="Drop tokens below this share of the likeliest. 0 is off.")
    presence_penalty: Number = Field(0.0, ge=-2, le=2, description="0 is off.")
    frequency_penalty: Number = Field(0.0, ge=-2, le=2, description="0 is off.")
    repetition_penalty: Number = Field(1.0, gt=0, le=2, description="1 is off.")
    min_tokens: Whole = Field(0, ge=0, description="Shortest answer, in tokens.")
    stop: list[Text] = Field([], description="Strings that end an answer.")

    @model_validator(mode="after")
    def _some_length_is_left(self) -> Sampling:
        if self.min_tokens > self.max_tokens:
            raise ValueError(f"min_tokens ({self.min_tokens}) is more than max_tokens ({self.max_tokens})")
        return self


class Reasoning(Entry):
    """How the reasoning of a model that thinks before it answers is told from the answer."""

    format: Literal["marks", "harmony"] = Field(
        "marks",
        description="`marks` around the reasoning; `harmony`: the channels of gpt-oss, of which `final` is the answer.",
    )
    start: Text | None = Field(
        None,
        description="Mark that opens the reasoning, e.g. `<think>`; also when the template opens it. Without it every "
        "response counts as reasoning up to `end`, and one that has no `end` has no answer.",
    )
    end: Text | None = Field(
        None,
        description="Mark that ends the reasoning, e.g. `</think>`. Only what follows is the answer. Needed with "
        "`marks`. A mark that is a token of the model, or has special ones, is looked for by its ids, another in the "
        "text.",
    )

    @model_validator(mode="after")
    def _marks_or_channels(self) -> Reasoning:
        if self.format == "marks" and self.end is None:
            raise ValueError("`end` is missing: the mark that ends the reasoning, e.g. `</think>`")
        if self.format == "harmony" and (self.start, self.end) != (None, None):
            raise ValueError("`format: harmony` has marks of its own; leave `start` and `end` out")
        return self


class Model(Entry):
    """What is evaluated: an engine with a system prompt, chat-template options and sampling."""

    engine: Slug = Field(description="Name of an engine of the catalogue.")
    label: str | None = Field(None, description="Name in tables and figures. Default: the entry's name.")
    system_prompt: str | None = Field(None, description="System message before every prompt.")
    template: Template = Field("default", description=TEMPLATE_HELP)
    template_options: PlainMapping = Field(
        {}, description="Variables for the chat template, e.g. `enable_thinking: false`."
    )
    date: Day = Field(
        datetime.date(2026, 1, 1),
        description="Today, for templates that insert the date. Fixed, or request keys would change daily.",
    )
    sampling: Sampling = Field(description="How answers are drawn.")
    reasoning: Reasoning | None = Field(
        None, description="Marks of the reasoning. Read from stored responses: no GPU job when changed."
    )
    unverified: list[Text] = Field(
        [], description="What of this entry nobody could verify when it was written; `make plan` tells it. In no key."
    )
    base: Slug | None = Field(None, description="Reserved: the model this one was derived from.")
    transform: str | None = Field(None, description="Reserved: a change of the weights.")
    intervention: str | None = Field(None, description="Reserved: a change while it runs, e.g. steering.")
    lora: AdapterSource | None = Field(
        None,
        description="LoRA adapter of this model. In the request key: the hub's commit, or the SHA-256 of the folder's "
        "two files. Models of one engine that differ by adapter share its load (with `batch: engine`), together with "
        "the model that has none. The prompt is rendered with the engine's tokenizer and template: name a template "
        "that an adapter brings along as `template`.",
    )

    recorded: AnswersFolder | None = Field(
        None,
        description="Folder with answers that were drawn elsewhere, in the published library's layout: "
        "`SPLIT/answers.json`, there or below, for every split of the study. They are read instead of asking the "
        "engine, which stays without use (docs/published_results.md). Marks of `reasoning` are looked for in the text.",
    )

    @field_validator("base", "transform", "intervention")
    @classmethod
    def _refuse_what_is_not_built(cls, value: str | None) -> str | None:
        if value is not None:
            raise ValueError("reserved for a later version; leave it out")
        return value


# ---------------------------------------------------------------- gold


class GoldColumns(Entry):
    """Which columns of a gold source hold what."""

    prompt: Text | None = Field(
        "prompt", description="Column with the prompt's text. Not used where `messages` is given."
    )
    messages: Text | None = Field(
        None, description="Column with a list of {role, content} messages, instead of `prompt`."
    )
    answer: Text = Field("answer", description="Column with the answer that people labelled.")
    label: Text = Field("label", description="Column with their label.")
    cluster: Text | None = Field(None, description="Column that names rows which belong together. Default: the prompt.")
    answering_model: Text | None = Field(None, description="Column with the model that answered.")
    expectation: Text | None = Field(
        None, description="Column with what a good model does: `comply`, `refuse` or `varies`."
    )
    id: Text | None = Field(None, description="Column with the source's own id; kept for tracing.")
    weight: Text | None = Field(
        None,
        description="Column with a number above 0: how many answers the row stands for, 1 / its probability of having "
        "been labelled. Judge cards then count weights instead of rows. Rows of different answering models stay apart.",
    )

    @model_validator(mode="after")
    def _a_prompt_or_messages(self) -> GoldColumns:
        if self.messages is None and self.prompt is None:
            raise ValueError("name `prompt` or `messages`")
        return self


class AnswerColumns(Entry):
    """Columns of one answering model, in a source whose rows hold the answers of several."""

    answer: Text = Field(description="Column with its answer.")
    label: Text = Field(description="Column with the label of that answer.")


class HumanKappa(Entry):
    """How well people agree with each other on a gold set: the ceiling of every judge."""

    statistic: Text = Field("Cohen's kappa", description="What the numbers are, such as `Fleiss' kappa`.")
    broad: Number | None = Field(None, ge=-1, le=1, description="Refusal and partial against compliance.")
    strict: Number | None = Field(None, ge=-1, le=1, description="The same, refusal against all else.")
    three_class: Number | None = Field(None, ge=-1, le=1, description="The same, over the three labels.")
    source: Text = Field(description="Where that is published.")


class Anchor(Entry):
    """What another judge reaches on this gold set, as published: its kappa, its F1 or both."""

    name: Text = Field(description="The judge.")
    kappa: Number | None = Field(None, ge=-1, le=1, description="Its kappa with people.")
    f1: Number | None = Field(None, ge=0, le=1, description="Its F1, with refusals as the positive class.")
    reading: Literal["broad", "strict", "three_class"] = Field("broad", description="Over which labels.")
    source: Text = Field(description="Where that is published.")

    @model_validator(mode="after")
    def _says_something(self) -> Anchor:
        if self.kappa is None and self.f1 is None:
            raise ValueError("name `kappa` or `f1`, or both")
        if self.f1 is not None and self.reading == "three_class":
            raise ValueError("`f1` is of two classes; `reading` must be `broad` or `strict`")
        return self


class Gold(Marks):
    """Answers that people labelled; every judge of the study is measured on them."""

    source: DataSource = Field(description="Where the rows come from.")
    columns: GoldColumns = Field(GoldColumns(), description="Which columns hold what.")
    labels: dict[str, Label] = Field(
        min_length=1, description="The source's labels, each as refusal, partial or compliance."
    )
    left_out: list[Text] = Field(
        [],
        description="Labels of the source whose rows are not used (`null`: rows without a label); the log counts them.",
    )
    answers: dict[Text, AnswerColumns] = Field(
        {},
        description="For rows with the answers of several models: the columns of each, by the model's name. "
        "`columns.answer`, `columns.label` and `columns.answering_model` are then not used.",
    )
    expectations: dict[str, Literal["comply", "refuse", "varies"]] = Field(
        {}, description="What the values of `columns.expectation` stand for, where they are other words."
    )
    expectation: Literal["comply", "refuse", "varies"] | None = Field(
        None, description="What a good model does with all prompts of this gold, instead of `columns.expectation`."
    )
    clusters: ClustersPath | None = Field(
        None,
        description="CSV with the columns `id` and `cluster`: which rows (by `columns.id`) belong together, such as a "
        "prompt and its contrast twin. Relative to the YAML file that names it.",
    )
    raters: Whole = Field(ge=1, description="People who labelled each row.")
    human_kappa: HumanKappa | None = Field(None, description="Agreement among these people.")
    anchors: list[Anchor] = Field([], description="What other judges reach, for comparison on the judge cards.")
    label: str | None = Field(None, description="Name in tables. Default: the entry's name.")
    expected_rows: Whole | None = Field(
        None, ge=1, description="Rows that the source must have; any other number fails."
    )

    @model_validator(mode="after")
    def _keys_that_belong_together(self) -> Gold:
        if self.clusters is not None and self.columns.id is None:
            raise ValueError("`clusters` needs `columns.id`: it names rows by the source's own ids")
        if self.clusters is not None and self.columns.cluster is not None:
            raise ValueError("`clusters` and `columns.cluster` are two ways to say one thing; leave one out")
        if self.expectations and self.columns.expectation is None:
            raise ValueError("`expectations` needs `columns.expectation`: the column with those values")
        if self.expectation is not None and self.columns.expectation is not None:
            raise ValueError("`expectation` holds for all rows, `columns.expectation` for each; leave one out")
        both = sorted(set(self.left_out) & set(self.labels))
        if both:
            raise ValueError(f"`left_out` and `labels` both name {both[0]!r}")
        return self
