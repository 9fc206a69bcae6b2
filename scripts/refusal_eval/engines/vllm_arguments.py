"""Free arguments of a vLLM engine: which may be given, under one spelling, and which of them are in the key.

Arguments that only concern how a model is served (where, how fast, in how much memory) are recorded with a response
but are not part of its key. They may change rounding (batch sizes, kernels, how layers are shared between devices),
never what is computed. An argument that is not listed here is in the key, so a missing name costs a rerun, never a
wrong reuse. The names are those of vLLM 0.32; some of older versions are kept.
"""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import AfterValidator

from refusal_eval.config.shapes import ArgumentName, shown
from refusal_eval.core.canonical import plain
from refusal_eval.core.errors import UserError

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
    *("worker-cls", "additional-config"),
    *("node-rank", "master-addr", "master-port", "headless"),
    *("data-parallel-address", "data-parallel-rpc-port"),
)
ARGS_REFUSED = {
    "hf-token": "would be written into logs, the store and the manifest; set HF_TOKEN, and weights are fetched with it",
    "config": "names a file of further arguments, which no key and no record would show; write them here",
    "log-config-file": "names a file that may name code; set `log-level`",
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
    # Such a name would be in the key, although it only concerns serving.
    if meant := sorted(known for known in SERVING_ARGS if plain not in SERVING_ARGS and known.startswith(plain)):
        raise ValueError(f"`{name}` is short for `{meant[0]}`; write arguments in full")
    return name


def no_argument(value: Any) -> Any:
    """Refuse a text that vLLM, or whoever reads its command line, could take for another argument."""
    if isinstance(value, str) and value.lstrip().startswith("-"):
        message = f"{shown(value)} begins with `-`, as another argument does; write a number without quotes"
        raise ValueError(message)
    if isinstance(value, str) and "\0" in value:
        raise ValueError(f"{shown(value)} holds a NUL character, which no command line can hold")
    return value


FreeArgument = Annotated[ArgumentName, AfterValidator(_free_argument)]
ArgumentValue = Annotated[str | int | float | bool, AfterValidator(no_argument)]

# In groups: devices and machines; memory; batches; speed; loading; the server's front; logs.
_SERVING = """
    tensor-parallel-size pipeline-parallel-size data-parallel-size data-parallel-size-local data-parallel-rank
    data-parallel-start-rank data-parallel-address data-parallel-rpc-port data-parallel-backend data-parallel-hybrid-lb
    data-parallel-external-lb data-parallel-multi-port-external-lb prefill-context-parallel-size
    decode-context-parallel-size dcp-comm-backend dcp-q-replicate dcp-kv-cache-interleave-size
    cp-kv-cache-interleave-size enable-expert-parallel enable-ep-weight-filter all2all-backend enable-eplb eplb-config
    expert-placement-strategy enable-elastic-ep elastic-ep-max-dp-size enable-dbo ubatch-size dp-sync-interval
    dbo-decode-token-threshold dbo-prefill-token-threshold disable-nccl-for-dp-synchronization disable-custom-all-reduce
    distributed-executor-backend distributed-timeout-seconds cpu-distributed-timeout-seconds master-addr master-port
    nnodes node-rank numa-bind numa-bind-nodes numa-bind-cpus device-ids max-parallel-loading-workers
    ray-workers-use-nsight enable-fault-tolerance fault-tolerance-config enable-shm-tensor-arena

    gpu-memory-utilization device-memory-utilization kv-cache-memory-bytes kv-cache-memory num-gpu-blocks-override
    block-size max-model-len swap-space cpu-offload-gb cpu-offload-params offload-backend offload-group-size
    offload-num-in-group offload-prefetch-step offload-params kv-offloading-size kv-offloading-backend
    enable-sleep-mode enable-cumem-allocator watermark language-model-only limit-mm-per-prompt skip-mm-profiling
    mm-processor-cache-gb max-loras max-cpu-loras fully-sharded-loras specialize-active-lora

    max-num-seqs max-num-active-seqs max-num-batched-tokens max-num-scheduled-tokens max-num-queued-reqs
    max-num-queued-tokens long-prefill-token-threshold long-prefill-token-threshold-adaptive enable-chunked-prefill
    max-num-partial-prefills max-long-partial-prefills enable-prefix-caching prefix-caching-hash-algo
    prefix-cache-retention-interval scheduling-policy scheduler-reserve-full-isl prefill-schedule-interval
    disable-hybrid-kv-cache-manager async-scheduling stream-interval num-scheduler-steps

    enforce-eager compilation-config cudagraph-capture-sizes max-cudagraph-capture-size cuda-graph-sizes
    optimization-level performance-mode enable-flashinfer-autotune renderer-num-workers disable-cascade-attn

    load-format download-dir safetensors-load-strategy safetensors-prefetch-num-threads safetensors-prefetch-block-size
    use-tqdm-on-load hf-token

    host port grpc-port uds api-key served-model-name root-path allow-credentials allowed-origins allowed-methods
    allowed-headers ssl-keyfile ssl-certfile ssl-ca-certs ssl-cert-reqs ssl-ciphers enable-ssl-refresh uvicorn-log-level
    disable-uvicorn-access-log disable-access-log-for-endpoints disable-fastapi-docs enable-offline-docs
    enable-request-id-headers h11-max-incomplete-event-size h11-max-header-count api-server-count
    sse-keep-alive-interval shutdown-timeout seed max-logprobs

    disable-log-stats disable-log-requests enable-log-requests enable-log-outputs enable-log-deltas max-log-len
    aggregate-engine-logging logging-config log-level log-config-file log-error-stack otlp-traces-endpoint
    collect-detailed-traces show-hidden-metrics-for-version kv-cache-metrics kv-cache-metrics-sample
    custom-histogram-buckets cudagraph-metrics enable-layerwise-nvtx-tracing enable-mfu-metrics
    enable-logging-iteration-details enable-server-load-tracking enable-per-request-metrics
    per-request-spec-decode-metrics profiler-config jit-monitor-mode jit-monitor-verbose fail-on-environ-validation
"""
SERVING_ARGS: Final = frozenset(_SERVING.split())
# Arguments of serving that vLLM also takes a class, a function or a file of code by: only words of its own are taken.
EXECUTOR = "distributed-executor-backend"
EXECUTORS: Final = ("mp", "ray", "uni", "external_launcher")
COMPILERS: Final = ("", "eager", "inductor", "openxla")  # `backend` of `compilation-config`
PARTS_WITH_CODE: Final = {
    "compilation-config": ("inductor_passes", "cache_dir"),
    "logging-config": ("pylogging_config_file",),
}
NO_CODE = "which could compute something else under the same key"
# How large the engine's batches are, and how many adapters are at hand.
WHOLE_NUMBERS = ("max-num-seqs", "max-num-batched-tokens", "max-loras", "max-cpu-loras")
# Ways to read the same weights. Any other `load-format` is in the key: `dummy` makes weights up, others quantize.
FAITHFUL_LOAD_FORMATS: Final = (
    *("auto", "hf", "mistral", "safetensors", "fastsafetensors", "instanttensor", "runai_streamer"),
    *("runai_streamer_sharded", "sharded_state", "tensorizer"),
)


def only_serving(name: str, value: object) -> bool:
    """Return whether an argument (long name, `-` between words) only concerns serving."""
    name = name.split(".")[0]  # `compilation-config.mode` is a part of `compilation-config`
    return name in SERVING_ARGS and (name != "load-format" or value in FAITHFUL_LOAD_FORMATS)


def identity_args(args: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that belong to an engine's identity, under one spelling each.

    `max_num_seqs` and `max-num-seqs` are one argument; `no-x: true` is `x: false`.

    Raises:
        UserError: if one argument is given twice.
    """
    found: dict[str, Any] = {}
    for given, value in args.items():
        name, value = one_spelling(given, value)
        if name in found:
            raise UserError(
                f"the engine's args give `{name}` twice (`-` and `_`, and a leading `no-`, make no difference)"
            )
        found[name] = plain(value)
    return {name: value for name, value in found.items() if not only_serving(name, value)}


def refuse_unusable(args: Mapping[str, Any]) -> None:
    """Raise `ValueError` if an argument is given twice, or cannot have its value."""
    try:
        identity_args(args)
    except UserError as error:
        raise ValueError(str(error)) from error
    for given, value in args.items():
        name, value = one_spelling(given, value)
        if isinstance(value, str) and value.lower() in ("true", "false"):
            raise ValueError(f"`{given}` is the text {shown(value)}; write {value.lower()} without quotes")
        if name in WHOLE_NUMBERS and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise ValueError(f"`{given}` must be a whole number, at least 1, not {shown(value)}")
        if name == "disable-log-stats" and value is not False:
            message = f"`{given}` would take away the counters that tell a server that hangs; leave it out"
            raise ValueError(message)
        _refuse_code(given, name, value)


def _refuse_code(given: str, name: str, value: Any) -> None:
    """Raise `ValueError` if an argument that only concerns serving names code."""
    head, *rest = name.split(".")
    if head == EXECUTOR and (rest or value not in EXECUTORS):
        message = f"`{given}` must be one of {', '.join(EXECUTORS)}, not {shown(value)}; a class is code, {NO_CODE}"
        raise ValueError(message)
    if head not in PARTS_WITH_CODE:
        return
    if rest:
        parts = {rest[0]: value}
    else:
        try:
            parts = json.loads(value) if isinstance(value, str) else value
        except (ValueError, RecursionError) as error:
            raise ValueError(f"`{given}` is no JSON: {error}") from error
    for part, inner in parts.items() if isinstance(parts, dict) else ():
        spelled = part.replace("-", "_")
        if spelled in PARTS_WITH_CODE[head]:
            raise ValueError(f"`{part}` of `{given}` names code, {NO_CODE}; leave it out")
        if head == "compilation-config" and spelled == "backend" and inner not in COMPILERS:
            known = ", ".join(COMPILERS[1:])
            raise ValueError(
                f"`{part}` of `{given}` must be one of {known}, not {shown(inner)}; others are code, {NO_CODE}"
            )


def one_spelling(given: str, value: Any) -> tuple[str, Any]:
    """Return an argument of an engine's entry with the name that it has in the identity and on the command line."""
    head, *rest = given.strip().lstrip("-").split(".")
    name = ".".join([head.replace("_", "-"), *rest])
    # `no-x: false` says what `x: true` says; unchanged it would become `--no-no-x`.
    if name.startswith("no-") and isinstance(value, bool):
        return name.removeprefix("no-"), not value
    return name, value
