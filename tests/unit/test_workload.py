"""What engine loads are estimated to take: sizes by name, start and tokens by size and devices."""

import pytest

from refusal_eval.engines.classifier_engine import ClassifierEngine, EncoderEngine
from refusal_eval.tools.plan.workload import CellWork, answer_tokens, pace_of, work_seconds
from refusal_eval.weights.engine_size import billions_in_name, weights_bytes

ENTRY = {"dtype": "bfloat16", "quantization": None, "args": {}, "data_parallel": 1}


def gpu(billions, devices=1, strict=False, **entry):
    return pace_of({**ENTRY, **entry}, "cuda", devices, (billions, billions), strict)


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("Llama-3.1-70B-Instruct", (70, 70)),
        ("SmolLM2-135M-Instruct.Q4_1.gguf", (0.135, 0.135)),
        ("Qwen3-30B-A3B-Instruct-2507", (30, 3)),
        ("gemma-3-27b-it", (27, 27)),
        ("Qwen2.5-0.5B", (0.5, 0.5)),
        ("Mixtral-8x7B-v0.1", None),
        ("phi-4", None),
    ],
)
def test_a_name_tells_the_size(name, size):
    assert billions_in_name(name) == size


@pytest.mark.parametrize(
    ("name", "asked", "size"),
    [
        ("x-70B", None, 140),
        ("x-70B-FP8", None, 70),
        ("x-70B-AWQ-INT4", None, 42),
        ("x-70B", "fp8", 70),
        ("x-gptq-int8", None, 70),
        ("x-NVFP4", None, 42),
        ("checkpoint4000", None, 140),
    ],
)
def test_a_name_tells_that_weights_are_quantized(name, asked, size):
    """An engine finds it out by itself, so that most entries do not say it."""
    entry = {**ENTRY, "weights": {"repo": f"owner/{name}"}, "quantization": asked}
    assert weights_bytes(entry, 70) == size * 1e9


def test_larger_engines_start_later_and_write_slower_and_more_devices_help_less_than_in_proportion():
    small, large, spread = gpu(8), gpu(70), gpu(70, devices=4)
    assert small.start_seconds < large.start_seconds < spread.start_seconds
    assert small.write_rate > large.write_rate
    assert 2 * large.write_rate < spread.write_rate < 4 * large.write_rate


def test_orders_of_magnitude_are_the_published_ones():
    assert 2_000 < gpu(8).write_rate < 10_000 and 60 < gpu(8).stream_rate < 150
    assert 60 < gpu(8).start_seconds < 120 and 150 < gpu(70, devices=8).start_seconds < 300


def test_copies_of_a_model_share_the_work_and_start_like_one():
    one, four = gpu(8), gpu(8, devices=4, data_parallel=4)
    assert four.start_seconds == one.start_seconds and four.write_rate == pytest.approx(4 * one.write_rate)
    assert four.stream_rate == one.stream_rate


@pytest.mark.parametrize(("kind", "engine"), [("transformers", ClassifierEngine), ("encoder", EncoderEngine)])
def test_engines_that_write_no_text_have_a_pace_on_both_devices(kind, engine):
    """Their entries have none of vLLM's keys."""
    entry = {"kind": kind, "weights": {"kind": "folder", "path": "m"}, "max_model_len": 512}
    entry = engine.model_validate(entry).model_dump(mode="json")
    on_cpu, on_gpu = (pace_of(entry, device, 1, (0.1, 0.1), False) for device in ("cpu", "cuda"))
    assert on_cpu.start_seconds > 0 and on_gpu.devices == 1
    assert on_cpu.read_rate < on_gpu.read_rate


def test_the_measured_cpu_engine_is_met():
    pace = pace_of(ENTRY, "cpu", 1, (0.135, 0.135), strict=False)
    assert pace.write_rate == 190 and pace.start_seconds == 40
    compiled = {**ENTRY, "args": {"enforce-eager": False}}
    strict = pace_of(compiled, "cpu", 1, (0.135, 0.135), strict=True)
    assert strict.write_rate == pytest.approx(40) and strict.start_seconds == 90


def test_short_answers_end_by_length_and_long_limits_are_not_reached():
    assert answer_tokens(64) == answer_tokens(64, reasons=True) == 64
    assert answer_tokens(10_000) == 600 and answer_tokens(10_000, reasons=True) == 3000


def test_the_weights_of_an_entry_count_and_all_experts_are_read_for_many_answers():
    sparse = pace_of({**ENTRY, "weights_gb": 160}, "cuda", 4, (80, 3), strict=False)
    dense, small = gpu(80, devices=4), gpu(3, devices=4)
    assert dense.write_rate < sparse.write_rate < 0.5 * small.write_rate
    assert sparse.stream_rate == pytest.approx(small.stream_rate)
    packed = gpu(20, weights_gb=14)
    assert packed.start_seconds < gpu(20).start_seconds and packed.stream_rate > gpu(20).stream_rate


def test_samples_of_a_prompt_share_its_reading_unless_shards_part_them():
    pace = gpu(8)
    work = CellWork(requests=400, prompts=100, tokens_per_prompt=10_000, answer_tokens=1, most_tokens=1)
    whole, quarter = work_seconds([work], pace), work_seconds([work], pace, shards=4)
    assert whole == pytest.approx(100 * 10_000 / pace.read_rate, rel=0.01)
    assert quarter == pytest.approx(whole, rel=0.01)  # each of the four reads every prompt once more


def test_work_takes_at_least_as_long_as_one_long_answer():
    pace = gpu(8)
    one = CellWork(requests=1, prompts=1, tokens_per_prompt=10, answer_tokens=600, most_tokens=1000)
    assert work_seconds([one], pace) == 1000 / pace.stream_rate
    assert work_seconds([one], pace, shards=8) == 1000 / pace.stream_rate
