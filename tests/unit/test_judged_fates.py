"""What became of the prompts that a judge chooses from."""

import pytest

from refusal_eval.core.files import write_jsonl
from refusal_eval.features.judged.judged_rows import JudgedRows

pytestmark = pytest.mark.feature("judged")


@pytest.mark.parametrize(
    ("keep", "wanted"),
    [
        ({"label": "refusal"}, ["kept", "kept", "left_out", "left_out"]),
        ({"label": "refusal", "best": 1, "of": "cluster"}, ["outdone", "kept", "left_out", "left_out"]),
        ({"label": "refusal", "at_most": 0}, ["left_out", "left_out", "kept", "left_out"]),
    ],
)
def test_every_prompt_has_one_fate_and_those_kept_are_the_rows(tmp_path, keep, wanted):
    files = [str(tmp_path / f"{name}.jsonl") for name in ("prompts", "answers", "verdicts")]
    about = {"messages": [{"role": "user", "content": "?"}], "cluster": "c", "category": None, "source": {}}
    write_jsonl(files[0], [{"id": name, **about} for name in "abcd"])
    places = [{"prompt_id": name, "sample": 0, "turn": 0} for name in "abc"]  # `d` was not asked
    write_jsonl(files[1], [{**place, "state": "complete"} for place in places])
    labels = (("refusal", 0.6), ("refusal", 0.9), ("compliance", 0.1))
    write_jsonl(files[2], [{**p, "label": label, "p_refusal": c} for p, (label, c) in zip(places, labels, strict=True)])
    source = JudgedRows.model_validate({"kind": "judged", "split": "s", "model": "m", "judge": "j", "keep": keep})
    fates = source.fates(*files)
    assert [fate.state for fate in fates] == wanted
    rows = [row["id"] for row in source.own_rows(*files)]
    assert rows == [name for name, fate in zip("abcd", fates, strict=True) if fate.passed]
