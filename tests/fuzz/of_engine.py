"""What engines, their servers and other jobs write."""

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

from fuzz.mutations import as_json
from fuzz.of_store import NAMED, RESPONSE
from fuzz.targets import file_of, is_finite, is_text, target

from refusal_eval.ask.answers import answer_of
from refusal_eval.ask.reasoning import ReasoningMarks
from refusal_eval.core.files import canonical_json, utf8
from refusal_eval.core.packing import pack_floats, unpack_floats
from refusal_eval.core.slurm_jobs import parse_jobs
from refusal_eval.core.states import JUDGED, LABELS
from refusal_eval.engines.devices.nvidia_smi import parse_apps, parse_gpus
from refusal_eval.engines.engine_client import CompletionClient, classification_of, counters_of, response_of
from refusal_eval.engines.running_jobs import RunningJob, _read
from refusal_eval.engines.server_records import Record
from refusal_eval.judges.classifier_judge import class_names, classifier_verdict
from refusal_eval.judges.llm_judge import label_verdict
from refusal_eval.judges.qwen3guard_judge import qwen3guard_verdict
from refusal_eval.judges.reasoned_judge import published_verdict, reasoned_vote
from refusal_eval.judges.verdict_files import read_safely
from refusal_eval.judges.wildguard_judge import wildguard_verdict

BROKEN = (ConnectionError, ValueError)  # what the load counts as a failed request


def _value(data: bytes) -> Any:
    """Return the JSON of a case; what is no JSON is refused like a reply that is none."""
    try:
        return json.loads(data)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


COMPLETION: Any = {
    "id": "x",
    "choices": [
        {
            "index": 0,
            "text": "No.",
            "finish_reason": "stop",
            "stop_reason": 2,
            "token_ids": [5, 9, 2],
            "logprobs": {
                "token_logprobs": [-0.5, -0.25, -0.125],
                "top_logprobs": [{"token_id:5": -0.5, "token_id:7": -3.5}] * 3,
            },
        }
    ],
    "usage": {"prompt_tokens": 7, "completion_tokens": 3},
}


@target("engine: completions", [COMPLETION], as_json, BROKEN)
def completions(data: bytes, folder: Path) -> None:
    response = response_of(_value(data), {"logprob_token_ids": [5, 7]})
    assert is_text(response["text"]) and response["finish_reason"] in ("stop", "length")
    assert all(type(one) is int and 0 <= one < 2**31 for one in response["token_ids"])
    assert type(response["prompt_tokens"]) is int and response["prompt_tokens"] >= 0
    values, named = unpack_floats(response["logprobs"]), unpack_floats(response["named_logprobs"])
    assert len(values) == len(response["token_ids"]) and len(named) == 2 * len(values)
    assert all(map(is_finite, [*values.tolist(), *named.tolist()]))


@target("engine: classifications", [{"logits": [0.5, -1.5], "prompt_tokens": 12}], as_json, BROKEN)
def classifications(data: bytes, folder: Path) -> None:
    response = classification_of(_value(data))
    assert all(map(is_finite, unpack_floats(response["logits"]).tolist()))
    assert type(response["prompt_tokens"]) is int and response["prompt_tokens"] >= 0


METRICS = b"""# HELP vllm:request_success_total Count
# TYPE vllm:request_success_total counter
vllm:request_success_total{engine="0",finished_reason="stop"} 12.0
vllm:request_success_total{engine="1",finished_reason="stop"} 3.0
vllm:prompt_tokens_total{engine="0"} 1.5e+03
vllm:generation_tokens_total{engine="0"} 300.0
vllm:prefix_cache_hits_total{engine="0"} 80.0
"""


@target("engine: counters", [METRICS], None, BROKEN)
def counters(data: bytes, folder: Path) -> None:
    assert all(map(is_finite, counters_of(data.decode(errors="replace")).values()))


@target("answers: marks of reasoning", [b"<think>Hm.</think>Yes. <think>", b"No."])
def answers(data: bytes, folder: Path) -> None:
    response = RESPONSE | {"text": data.decode(errors="replace")}
    for reasoning in (None, ReasoningMarks("</think>", "<think>", lambda ids: response["text"])):
        fields = answer_of(response, [1, 2], reasoning, lambda ids: "x" * len(ids))
        assert is_text(fields["answer"])


def _is_verdict(verdict: Any) -> None:
    assert (verdict.label in LABELS) == (verdict.state == JUDGED)
    assert verdict.p_refusal is None or (is_finite(verdict.p_refusal) and 0 <= verdict.p_refusal <= 1)
    utf8(canonical_json(verdict.raw))  # as it is written


def _floats(data: bytes) -> str:
    """Return the packed float32 that the bytes are, NaN and infinities among them."""
    return base64.b64encode(data[: len(data) // 4 * 4]).decode()


def _packed(*values: float) -> bytes:
    return base64.b64decode(pack_floats(values))


@target("judge: label probabilities", [_packed(-0.1, -3.0, -4.0)])
def label_probabilities(data: bytes, folder: Path) -> None:
    response = NAMED | {"named_logprobs": _floats(data)}
    labels = ["refusal", "partial", "compliance"]
    _is_verdict(read_safely(lambda whole: label_verdict(whole, labels, 0.5, 0.2), response))


@target("judge: classifier", [_packed(0.5, -1.5)])
def classifier(data: bytes, folder: Path) -> None:
    response = RESPONSE | {"logits": _floats(data)}
    _is_verdict(
        read_safely(lambda whole: classifier_verdict(whole, ["compliance", "refusal"], ["no", "yes"], 0.5), response)
    )


REASONED = {
    "analysis": "It declines.",
    "label": "refusal",
    "kind": "direct",
    "evasive": False,
    "degenerate": False,
    "propaganda": False,
}


@target("judge: reasoned", [REASONED], as_json)
def reasoned(data: bytes, folder: Path) -> None:
    _is_verdict(read_safely(reasoned_vote, RESPONSE | {"text": data.decode(errors="surrogateescape")}))


@target("judge: wildguard", [b"Harmful request: no\nResponse refusal: yes\nHarmful response: no"])
def wildguard(data: bytes, folder: Path) -> None:
    _is_verdict(read_safely(wildguard_verdict, RESPONSE | {"text": data.decode(errors="surrogateescape")}))


@target("judge: qwen3guard", [b"Safety: Unsafe\nCategories: Violent, PII\nRefusal: No"])
def qwen3guard(data: bytes, folder: Path) -> None:
    said = RESPONSE | {"text": data.decode(errors="surrogateescape"), "token_ids": [1, 2]}
    said |= {"named_logprobs": pack_floats([-0.1, -2.0, -0.5, -1.0])}
    _is_verdict(read_safely(lambda whole: qwen3guard_verdict(whole, {"Yes": 1, "No": 2}, 0.5), said))


@target("judge: published", [b"The answer is a refusal.\nLabel: 1", b"[[-1]]"])
def published(data: bytes, folder: Path) -> None:
    _is_verdict(published_verdict(data.decode(errors="replace")))


@target("judge: classes", [{"id2label": {"0": "no", "1": "yes"}, "num_labels": 2, "problem_type": None}], as_json)
def classes(data: bytes, folder: Path) -> None:
    file_of(folder, "config.json", data)
    names = class_names(folder)
    assert all(map(is_text, names)) and len(names) >= 2


JOB = {
    "name": "generate/model/engine/small/0-of-1-1b2c3d4e",
    "cells": ["results/small/requests/a/b.jsonl"],
    "shard": 0,
    "shards": 1,
    "host": "h",
    "boot_id": "b",
    "pid_namespace": "p",
    "pid": 7,
    "start": 8,
    "slurm_job": None,
    "time": 1.5,
}


@target("running jobs", [JOB], as_json)
def running_jobs(data: bytes, folder: Path) -> None:
    job = _read(file_of(folder, "a.json", data))
    if job is not None:
        other = RunningJob(**(JOB | {"cells": tuple(JOB["cells"])}))  # type: ignore[arg-type]
        job.file(), str(job), job.shares_with(other), other.shares_with(job)
        assert is_text(job.name) and is_finite(job.time) and type(job.pid) is int and job.pid > 0


ENGINE = {
    "host": "h",
    "boot_id": "b",
    "pid_namespace": "p",
    "job": {"pid": 7, "start": 8},
    "server": {"pid": 9, "start": 10},
    "members": [{"pid": 9, "start": 10}],
    "command": "vllm",
    "private_folder": "/nowhere/refusal-eval-x",
    "time": "2026-01-01T00:00:00",
}


@target("records of engines", [ENGINE], as_json, (ValueError,))
def records(data: bytes, folder: Path) -> None:
    record = Record.model_validate_json(data)
    assert record.server.pid > 0


SMI = b"""index, name, uuid, memory.total [MiB], memory.used [MiB], driver_version, mig.mode.current, compute_cap
0, NVIDIA H100 80GB HBM3, GPU-7f57f032-1111-2222-3333-444455556666, 81559 MiB, 3 MiB, 580.95.05, Disabled, 9.0
1, NVIDIA H100 80GB HBM3, GPU-8f57f032-1111-2222-3333-444455556666, [N/A], [N/A], 580.95.05, Enabled, [N/A]
"""
APPS = b"""gpu_uuid, pid, used_gpu_memory [MiB], process_name
GPU-7f57f032-1111-2222-3333-444455556666, 98, 512 MiB, /usr/bin/python, x
GPU-8f57f032-1111-2222-3333-444455556666, 99, [N/A], nvidia-cuda-mps-server
"""


@target("nvidia-smi: GPUs", [SMI])
def gpus(data: bytes, folder: Path) -> None:
    found, _ = parse_gpus(data.decode(errors="replace"))
    assert all(gpu.index >= 0 and gpu.uuid for gpu in found)


@target("nvidia-smi: processes", [APPS])
def processes(data: bytes, folder: Path) -> None:
    parse_apps(data.decode(errors="replace"))


@target("squeue", [b"12|RUNNING|small/generate|node1\n13|PENDING|small/judge|\n"])
def squeue(data: bytes, folder: Path) -> None:
    parse_jobs(data.decode(errors="replace"))


ANSWERED = as_json(COMPLETION)
REPLIES = [
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(ANSWERED) + ANSWERED,
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n" % len(ANSWERED) + ANSWERED + b"\r\n0\r\n\r\n",
]


@target("engine: raw replies", REPLIES, None, BROKEN)
def replies(data: bytes, folder: Path) -> None:
    async def asked() -> Any:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(data)
            writer.close()

        server = await asyncio.start_unix_server(answer, folder / "s")
        client = CompletionClient(str(folder / "s"), lambda: 1)
        try:
            await client.health()
            return await client.ask("/v1/completions", {})
        finally:
            await client.close()
            server.close()

    response_of(asyncio.run(asked()), {})
