"""The key of a request: what changes it, what must not, and that it never changes by itself."""

import pytest

from refusal_eval.ask.keys import request_key, sample_seed

IDENTITY = {"repo": "org/model", "commit": "a" * 40, "dtype": "bfloat16"}
SAMPLING = {
    "max_tokens": 48,
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
    "min_tokens": 0,
    "stop": [],
    "stop_token_ids": [2],
}


def key(**changes):
    values = {"identity": IDENTITY, "prompt": [1, 2, 3], "sampling": SAMPLING, "seed": 7, "determinism": "seeded"}
    return request_key(**{**values, **changes})


def test_the_key_is_frozen():
    # If this fails, every response that anybody ever paid for has become unreachable. Do not adapt the test.
    assert key() == "885496b1fecbb7d2b4479c094f679400ac5e856a0c3e3412fe73be4f11fed528"
    assert sample_seed(20261121, "0123456789abcdef", 2) == 273331311703716


def test_a_sampling_parameter_added_later_with_a_neutral_default_keeps_the_key():
    older = {name: value for name, value in SAMPLING.items() if name not in ("min_p", "min_tokens", "stop")}
    assert key(sampling=older) == key()
    assert key(sampling={**SAMPLING, "logprob_token_ids": []}) == key()
    assert key(sampling={**SAMPLING, "something_new": None}) == key()


def test_whole_numbers_are_the_same_however_they_are_written():
    assert key(sampling={**SAMPLING, "temperature": 1, "top_p": 1}) == key()


@pytest.mark.parametrize(
    "change",
    [
        {"prompt": [1, 2, 4]},
        {"prompt": [1, 2]},
        {"seed": 8},
        {"seed": None},
        {"determinism": "strict"},
        {"identity": {**IDENTITY, "commit": "b" * 40}},
        {"identity": {**IDENTITY, "quantization": "fp8"}},
        {"sampling": {**SAMPLING, "temperature": 0.6}},
        {"sampling": {**SAMPLING, "top_k": 20}},
        {"sampling": {**SAMPLING, "stop": ["\n"]}},
        {"sampling": {**SAMPLING, "stop_token_ids": [2, 3]}},
        {"sampling": {**SAMPLING, "max_tokens": 49}},
        {"sampling": {**SAMPLING, "logprob_token_ids": [5]}},
    ],
)
def test_whatever_can_change_a_response_changes_the_key(change):
    assert key(**change) != key()


def test_samples_of_a_prompt_have_seeds_of_their_own_and_more_samples_keep_the_first():
    five = [sample_seed(1, "p", k) for k in range(5)]
    assert len(set(five)) == 5
    assert five[:3] == [sample_seed(1, "p", k) for k in range(3)]
    assert sample_seed(1, "p", 0) != sample_seed(2, "p", 0) != sample_seed(2, "q", 0)
    assert sample_seed(1, "p", 0, turn=1) != sample_seed(1, "p", 0)
    assert all(0 <= seed < 2**48 for seed in five)


def test_messages_stand_in_the_key_in_place_of_token_ids():
    # If this fails, every response of a served model has become unreachable. Do not adapt the test.
    messages = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}]
    assert key(prompt=messages) == "42e4e737d4f851bf3a117464d489f4e8d5e19e8b5825a1cf03e0e391d26ff74d"
    assert key(prompt=[dict(reversed(message.items())) for message in messages]) == key(prompt=messages)
    assert len({key(prompt=messages), key(prompt=messages[1:]), key(prompt=messages[::-1]), key()}) == 4
