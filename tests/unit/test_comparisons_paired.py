"""Paired differences: over which prompts they are, what they count, and what they do where something is missing."""

import numpy as np
import pandas as pd
import pytest
from comparison_rows import cell

from refusal_eval.stats.comparisons.effects import Effects, effects
from refusal_eval.stats.comparisons.paired import PairedPanel, paired_differences, panel_of, repeated_prompts, strata_of
from refusal_eval.stats.estimates.resampling import drawn_counts

NAMES = ["scope", "a", "b", "c"]


@pytest.fixture
def compare(tmp_path):
    """Return a function that compares two cells of one split."""

    def compared(first, second, clusters=None, reading="strict", level=0.95, scope="scope"):
        frames = [cell(tmp_path, prompts, clusters) for prompts in (first, second)]
        return paired_differences(panel_of({"s": frames}, {"s": reading}), [(0, 1)], [scope, *NAMES[1:]], level)[0]

    return compared


def pooled(frames, left_out=(), **readings):
    """Compare the first two frames of each split; a split is read strictly unless its reading is given."""
    panel = panel_of(frames, dict.fromkeys(frames, "strict") | readings, left_out)
    return paired_differences(panel, [(0, 1)], NAMES, 0.95)[0]


def prompts(*letters):
    return {f"id{i:03d}": text for i, text in enumerate(letters)}


def test_rates_and_difference_by_hand(compare):
    found = compare(prompts("rrc", "rrr", "ccc", "rcc"), prompts("ccc", "rrr", "rcc", "ccc"))
    assert found.rate_first == pytest.approx(6 / 12) and found.rate_second == pytest.approx(4 / 12)
    assert found.difference == pytest.approx(2 / 12)
    # sums 2, 0, -1, 1: |total| >= 2 for 2 + (-1) + 1, 2 + 1 - 1, 2 + 1 + 1 and their opposites, of 8 patterns
    assert found.p == pytest.approx(6 / 8) and found.test == "exact"
    assert (found.n, found.n_all, found.n_clusters, found.n_differ) == (4, 4, 4, 3)


def test_of_pooled_splits_the_one_with_the_fewest_clusters_is_known(tmp_path):
    both = {split: [cell(tmp_path, {f"{split}{i}": "rc" for i in range(n)})] * 2 for split, n in (("s", 5), ("t", 3))}
    found = pooled(both)
    assert (found.n_clusters, found.effective_clusters) == (8, 3)


def test_readings(compare):
    first, second = prompts("pp", "pr"), prompts("cc", "rr")
    assert compare(first, second).difference == pytest.approx(-0.25)
    assert compare(first, second, reading="broad").difference == pytest.approx(0.5)


def test_bounds_and_differences_that_cancel_are_0_to_the_last_digit(compare, tmp_path):
    # In floats the bounds are means of 1/3 - 1, 1/3 and 1/3, and the pool's difference is 1/6 - 3/18.
    found = compare(prompts("rcc", "rcc", "rcc"), prompts("rrr", "ccc", "ccc"))
    assert [str(number) for number in (found.bound_low, found.bound_high, found.difference)] == ["0.0"] * 3
    sides = {"s": (("r", "c", "c"), ("c", "c", "c")), "t": ("c" * 9, "rrr" + "c" * 6)}
    cells = {
        split: [cell(tmp_path, {f"{split}{i}": text for i, text in enumerate(side)}) for side in both]
        for split, both in sides.items()
    }
    found = pooled(cells)
    assert [str(number) for number in (found.bound_low, found.bound_high, found.difference)] == ["0.0"] * 3


def test_a_prompt_without_a_verdict_leaves_the_difference_and_stays_in_both_bounds(compare):
    found = compare(prompts("rr", "??", "rc"), prompts("cc", "rr", "r?"))
    # Paired: 1 - 0 and 1/2 - 1 over two prompts.
    assert found.difference == pytest.approx((1 - 0.5) / 2) and (found.n, found.n_all) == (2, 3)
    assert found.bound_low == pytest.approx((1 + (0 - 1) + (0.5 - 1)) / 3)
    assert found.bound_high == pytest.approx((1 + (1 - 1) + (0.5 - 0.5)) / 3)


def test_a_prompt_that_one_side_lacks_altogether_may_be_anything_there(compare):
    found = compare(prompts("rr", "cc"), prompts("cc"))
    assert (found.n, found.n_all) == (1, 2)
    assert found.bound_low == pytest.approx((1 - 1) / 2) and found.bound_high == pytest.approx((1 + 0) / 2)


def test_bounds_hold_the_difference_that_the_missing_verdicts_would_have_given(compare):
    rng = np.random.default_rng(0)
    whole = [["".join(rng.choice(list("rc"), 3)) for _ in range(30)] for _ in range(2)]
    holes = [["".join(x if rng.random() < 0.8 else "?" for x in text) for text in side] for side in whole]
    truth, found = compare(*(prompts(*side) for side in whole)), compare(*(prompts(*side) for side in holes))
    assert found.bound_low <= truth.difference <= found.bound_high
    assert found.bound_high - found.bound_low > 0.1


def test_blocked_answers_are_refusals(compare):
    assert compare(prompts("bb", "rr"), prompts("cc", "rr")).difference == pytest.approx(0.5)


def test_nothing_in_common_gives_bounds_and_no_number(compare):
    found = compare(prompts("??", "??"), prompts("rr", "cc"))
    assert found.difference is found.p is found.low is None and found.n == 0
    assert (found.bound_low, found.bound_high) == (pytest.approx(-0.5), pytest.approx(0.5))


def test_clusters_are_what_the_test_counts(compare):
    first, second = prompts(*["r"] * 12), prompts(*["c"] * 12)
    alone = compare(first, second)
    together = compare(first, second, {f"id{i:03d}": f"cluster{i // 4}" for i in range(12)})
    assert alone.p == pytest.approx(2 / 2**12) and together.p == pytest.approx(2 / 2**3)
    assert together.n_clusters == together.n_differ == 3 and together.n == 12


def test_one_cluster_has_a_difference_and_no_interval(compare):
    found = compare(prompts("rr", "rc"), prompts("cc", "cc"), {"id000": "x", "id001": "x"})
    assert found.difference == pytest.approx(0.75) and found.low is None and found.p == 1.0
    assert "one cluster" in found.method


def test_equal_answers_still_have_an_interval(compare):
    same = prompts(*["rc"] * 40)
    found = compare(same, same)
    assert found.difference == 0 and found.p == 1.0
    assert found.low == pytest.approx(-(1 - 0.025 ** (1 / 40))) and found.high == pytest.approx(-found.low)


def test_equal_answers_in_unequal_clusters_are_known_as_well_as_their_effective_number(compare):
    same = prompts(*["rc"] * 60)
    found = compare(same, same, {f"id{i:03d}": "large" if i < 50 else f"c{i}" for i in range(60)})
    assert found.high == pytest.approx(1 - 0.025 ** (2510 / 3600)) and found.low == pytest.approx(-found.high)


def test_the_interval_is_of_paired_prompts_and_narrower_than_two_intervals_would_say(compare):
    rng = np.random.default_rng(2)
    base = rng.random(200)
    first = prompts(*("".join("r" if rng.random() < p else "c" for _ in range(5)) for p in base))
    second = prompts(*("".join("r" if rng.random() < p * 0.9 else "c" for _ in range(5)) for p in base))
    found = compare(first, second)
    assert found.low < found.difference < found.high
    assert found.high - found.low < 2 * 1.96 * (2 * base.var() / 200) ** 0.5
    wide = compare(first, second, level=0.99)
    assert wide.low < found.low and wide.high > found.high


def test_numbers_do_not_depend_on_order_or_on_what_else_is_compared(tmp_path):
    rng = np.random.default_rng(3)
    sides = [prompts(*("".join(rng.choice(list("rpc"), 3)) for _ in range(50))) for _ in range(3)]
    frames = [cell(tmp_path, side) for side in sides]
    two = paired_differences(panel_of({"s": frames[:2]}, {"s": "broad"}), [(0, 1)], NAMES[:3], 0.95)
    shuffled = [frame.sample(frac=1, random_state=i) for i, frame in enumerate(frames)]
    three = paired_differences(panel_of({"s": shuffled}, {"s": "broad"}), [(1, 2), (0, 1)], NAMES, 0.95)
    assert three[1] == two[0]
    reverse = paired_differences(panel_of({"s": frames}, {"s": "broad"}), [(1, 0)], NAMES, 0.95)[0]
    assert reverse.p == two[0].p and reverse.difference == -two[0].difference


def test_pooled_splits_weigh_the_same_whatever_their_size(tmp_path):
    big = [cell(tmp_path, prompts(*[text] * 30)) for text in ("rr", "cc")]
    small = [cell(tmp_path, {f"other{i}": text for i in range(3)}) for text in ("cc", "cc")]
    found = pooled({"big": big, "small": small})
    assert found.rate_first == pytest.approx(0.5) and found.difference == pytest.approx(0.5)
    assert found.n == 33 and found.p == pytest.approx(2 / 2**30)


def test_a_split_without_any_difference_is_not_known_exactly(tmp_path):
    big = [cell(tmp_path, prompts(*["rr"] * n, *["cc"] * (200 - n))) for n in (30, 10)]
    small = [cell(tmp_path, {f"other{i}": "cc" for i in range(24)})] * 2
    alone, found = pooled({"big": big}), pooled({"big": big, "small": small})
    unseen = 1 - 0.025 ** (1 / 24)
    assert found.difference == pytest.approx(0.05) and found.high > 0.05 + unseen / 2
    assert found.low < 0.05 - unseen / 2 and found.high < 0.05 + (unseen + alone.high - 0.1) / 2
    assert "all equal" in found.method


def test_splits_that_are_each_of_one_difference_still_have_an_interval(tmp_path):
    one = [cell(tmp_path, {f"a{i}": text for i in range(40)}) for text in ("rr", "cc")]
    two = [cell(tmp_path, {f"b{i}": text for i in range(40)}) for text in ("cc", "cc")]
    found = pooled({"one": one, "two": two})
    unseen = 1 - 0.025 ** (1 / 40)
    assert found.high == pytest.approx(0.5 + unseen / 2)
    assert found.low == pytest.approx(0.5 - np.hypot(unseen, unseen / 2))


def test_the_pooled_interval_holds_the_truth_where_small_splits_seldom_differ(tmp_path):
    rng, held, runs = np.random.default_rng(3), 0, 100
    index = pd.MultiIndex.from_arrays([["a"] * 24 + ["b"] * 600, [str(i) for i in range(624)], [0] * 624])
    splits = np.repeat([0, 1], [24, 600])
    for _ in range(runs):
        up, down = rng.random(624) < 0.04, (rng.random(624) < 0.02) & (splits == 1)
        rates = np.stack([up, down], axis=1).astype(float)
        panel = PairedPanel(index, np.arange(624), splits, rates, rates, rates, rates, (1, 1))
        found = paired_differences(panel, [(0, 1)], NAMES[:3], 0.95, resamples=500)[0]
        held += found.low <= (0.04 + 0.02) / 2 <= found.high
    assert held / runs > 0.9


def test_a_pair_with_missing_answers_keeps_its_numbers_when_others_are_asked(tmp_path):
    rng = np.random.default_rng(5)
    sides = [prompts(*("".join(rng.choice(list("rc"), 4)) for _ in range(30))) for _ in range(4)]
    sides[0] |= {f"id{i:03d}": "????" for i in range(6)}
    panel = panel_of({"s": [cell(tmp_path, side) for side in sides]}, {"s": "strict"})
    names = [*NAMES, "d"]
    assert (
        paired_differences(panel, [(0, 1), (2, 3)], names, 0.95)[0]
        == paired_differences(panel, [(0, 1)], names, 0.95)[0]
    )


def test_a_p_value_stays_exact_beside_a_column_of_many_denominators(tmp_path):
    first, second = prompts(*["r" * 5] * 15, *["c" * 5] * 15), prompts(*["c" * 5] * 29, "rrccc")
    many = prompts(*("c" * (i + 1) for i in range(30)))
    frames = [cell(tmp_path, side) for side in (first, second, many)]
    two, three = (
        paired_differences(panel_of({"s": part}, {"s": "strict"}), [(0, 1)], NAMES[: len(part) + 1], 0.95)[0]
        for part in (frames[:2], frames)
    )
    assert three == two and three.test == "exact"


def test_each_split_of_a_pool_keeps_its_reading(tmp_path):
    frames = {"refuse": [cell(tmp_path, prompts("pp", "pp")), cell(tmp_path, prompts("cc", "cc"))]}
    frames["comply"] = [cell(tmp_path, {"x": "pp", "y": "pp"}), cell(tmp_path, {"x": "cc", "y": "cc"})]
    assert pooled(frames, comply="broad").difference == pytest.approx(0.5)


def test_a_cluster_in_two_splits_is_one(tmp_path):
    one = [cell(tmp_path, {"a": text, "b": text}, {"a": "topic", "b": "own"}) for text in ("rr", "cc")]
    two = [cell(tmp_path, {"c": text, "d": text}, {"c": "topic", "d": "another"}) for text in ("rr", "cc")]
    found = pooled({"one": one, "two": two})
    assert found.n_clusters == 3 and found.p == pytest.approx(2 / 2**3)


def pairs(*places):
    """Return near-duplicates two by two as duplicates.json has them: "a9 b1" for prompt 9 of split a and 1 of b."""
    return [[{"split": p[0], "prompt_id": p[1:]} for p in pair.split()] for pair in places]


def test_a_prompt_in_several_splits_of_a_pool_counts_once():
    near = pairs("a9 b1", "a9 c1", "b1 c1", "c2 e2")
    assert repeated_prompts(near, ["a", "b", "c"]) == {("b", "1"), ("c", "1")}
    assert repeated_prompts(near, ["b", "c"]) == {("c", "1")}
    assert repeated_prompts(near, ["c"]) == set()


def test_a_pool_of_some_splits_leaves_out_what_the_rule_leaves_out_among_these():
    # b1 and c1 are both near a9 and not near each other: without a both count.
    assert repeated_prompts(pairs("a9 b1", "a9 c1"), ["b", "c"]) == set()
    # c1 is near b1 only, which does not count beside a9, but does without it.
    chain = pairs("a9 b1", "b1 c1")
    assert repeated_prompts(chain, ["a", "b", "c"]) == {("b", "1")}
    assert repeated_prompts(chain, ["b", "c"]) == {("c", "1")}


@pytest.mark.parametrize("margin", [None, 0.2])
def test_a_split_that_is_left_out_whole_is_not_in_the_pool(tmp_path, margin):
    words = {"a": ("rrc", "rrr", "ccc", "rcc"), "b": ("ccc", "rrr"), "c": ("rcc", "c?c", "rrr")}
    frames = {
        split: [
            cell(tmp_path, {f"{split}{i}": word for i, word in enumerate(side)}) for side in (own, ["rcc"] * len(own))
        ]
        for split, own in words.items()
    }
    whole = panel_of(frames, dict.fromkeys(frames, "strict"), {("b", "b0"), ("b", "b1")})
    rest = panel_of({split: frames[split] for split in "ac"}, dict.fromkeys("ac", "strict"))
    (found,), (wanted,) = (paired_differences(panel, [(0, 1)], NAMES[:3], 0.95) for panel in (whole, rest))
    assert found == wanted and found.difference is not None
    assert effects(whole, 0, 1, 0.95, margin) == effects(rest, 0, 1, 0.95, margin) != Effects()


def test_clusters_of_one_name_are_one_in_splits_of_one_source_only(tmp_path):
    one = [cell(tmp_path, {"a": text, "b": text}, {"a": "1", "b": "2"}) for text in ("rr", "cc")]
    two = [cell(tmp_path, {"c": text, "d": text}, {"c": "1", "d": "2"}) for text in ("rr", "cc")]
    readings = {"one": "strict", "two": "strict"}
    n_clusters = []
    for sources in ({"one": "one", "two": "one"}, {"one": "one", "two": "two"}):
        panel = panel_of({"one": one, "two": two}, readings, sources=sources)
        n_clusters.append(paired_differences(panel, [(0, 1)], NAMES, 0.95)[0].n_clusters)
    assert n_clusters == [2, 4]


def test_left_out_prompts_do_not_count(tmp_path):
    frames = {"s": [cell(tmp_path, prompts("rr", "cc")), cell(tmp_path, prompts("cc", "cc"))]}
    assert pooled(frames, {("s", "id001"), ("other", "id000")}).difference == 1.0


def test_ids_that_look_like_numbers_stay_text(tmp_path):
    frame = cell(tmp_path, {"12e4567890123456": "rr", "0012": "cc", "nan": "rr"}, {"0012": "NA"})
    assert sorted(frame.index.get_level_values(0)) == ["0012", "12e4567890123456", "nan"]
    assert frame.loc[("0012", 0), "cluster"] == "NA"


def test_strata_are_drawn_apart_and_keep_their_sizes():
    inside = np.array([[1, 1, 1, 1, 0, 0, 0, 1], [0, 0, 0, 0, 1, 1, 1, 1]], dtype=bool)
    counts = np.concatenate(list(drawn_counts(8, 1, 500, strata_of(inside))))
    assert (counts[:, 4:7].sum(axis=1) == 3).all()
    # The cluster in both splits is the only one of its kind: it is drawn with those of the first.
    assert (counts[:, [0, 1, 2, 3, 7]].sum(axis=1) == 5).all() and counts[:, 7].std() > 0
    assert counts.mean() == pytest.approx(1)


def test_rates_of_many_different_denominators_are_still_compared(compare):
    first = prompts(*("r" * i + "c" * 20 for i in range(25)))
    second = prompts(*("c" * (20 + i % 5) for i in range(25)))
    found = compare(first, second)
    assert found.difference == pytest.approx(np.mean([i / (20 + i) for i in range(25)]))
    assert found.test == "999999 draws" and found.p == pytest.approx(1e-6)


@pytest.mark.parametrize("differing", range(1, 9))
def test_the_interval_holds_zero_where_the_test_cannot_tell_it_from_zero(compare, differing):
    # The bootstrap alone would leave 0 out from four differing prompts on, where p is 0.125.
    found = compare(prompts(*["rr"] * differing, *["cc"] * 30), prompts(*["cc"] * (differing + 30)))
    assert found.p == pytest.approx(2 / 2**differing)
    assert (found.low > 0) == (found.p <= 0.05)


def test_what_the_test_cannot_tell_from_zero_the_interval_holds(compare):
    # 11 prompts of 21 differ one way and 3 the other: p = 0.057.
    first, second = prompts(*"r" * 11, *"c" * 10), prompts(*"c" * 11, *"r" * 3, *"c" * 7)
    for number in range(10):
        found = compare(first, second, scope=f"scope {number}")
        assert found.p > 0.05 and found.low <= 0 < found.high


def test_ends_do_not_depend_on_luck_where_halves_can_be_counted(compare):
    # Seven of 31 prompts refuse more, one less: p = .047, and over all halves the lower end is 1.9 points. 2,000 random
    # ones gave 0 or less in a third of all seeds.
    first = prompts("rrr", "rrc", "rrc", "rcc", "rcc", "rcc", "rcc", "ccc", *["ccc"] * 23)
    second = prompts(*["ccc"] * 7, "rcc", *["ccc"] * 23)
    found = [compare(first, second, scope=f"scope {number}") for number in range(6)]
    assert found[0].p == pytest.approx(0.0469, abs=1e-4)
    assert {round(one.low, 3) for one in found} == {0.019}


def test_where_few_prompts_differ_the_interval_reaches_as_far_as_random_halves_of_them(compare):
    # Of 8 differences a half holds at most one in 3.5 %, so one of about 50 is not out of the question; the bootstrap
    # alone ends at 3 of 100.
    found = compare(prompts(*["r"] * 8, *["c"] * 92), prompts(*["c"] * 100))
    assert 0.014 < found.low < 0.026 and found.p == pytest.approx(2 / 2**8)


def test_a_tie_is_no_decision(tmp_path):
    panel = panel_of({"s": [cell(tmp_path, prompts(*side)) for side in (("rc", "cc"), ("rr", "rr"))]}, {"s": "strict"})
    assert np.isnan(panel.votes[0, 0]) and panel.votes[1].tolist() == [0.0, 1.0] and panel.votes[0, 1] == 1.0
