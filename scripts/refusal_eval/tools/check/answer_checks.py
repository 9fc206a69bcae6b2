"""What must hold of the facts. Pure functions, one per line of the report."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from refusal_eval.core.packing import unpack_floats
from refusal_eval.core.states import COMPLETE, TRUNCATED, TRUNCATED_REASONING
from refusal_eval.tools.check.check import Check, fail, not_applicable, ok, warn
from refusal_eval.tools.check.gpu_facts import Facts

# Nats per token, between the mean while generating and the mean while reading: bfloat16 rounds, a temperature or a
# constraint that got into log-probabilities shows tenths.
MOST_DIFFERENCE = 0.05
# The same between two readings of single tokens, of which one may have come from the cache.
MOST_NAMED_DIFFERENCE = 0.1
ISSUE = "paste this block into an issue"


def answers(facts: Facts) -> Check:
    """Every request has an answer with tokens."""
    states = [sample.answer["state"] for sample in facts.samples]
    seen = ", ".join(f"{states.count(state)} {state}" for state in sorted(set(states))) or "none"
    unread = sum(state not in (COMPLETE, TRUNCATED, TRUNCATED_REASONING) for state in states)
    if facts.failed or not states:
        return fail("answers", f"{seen}; {facts.failed} requests failed", "look at the engine's log")
    if unread > len(states) / 2:
        return fail("answers", seen, f"most answers are empty: do template and stop tokens fit the model? {ISSUE}")
    return warn("answers", seen, "some answers are empty") if unread else ok("answers", seen)


def template_ids(facts: Facts) -> Check:
    """Our token ids of each prompt are those of the server's own tokenizer and template."""
    name = "template ids"
    if facts.untested:
        return not_applicable(name, facts.untested)
    equal = sum(list(pair.ours) == list(pair.servers) for pair in facts.templates)
    seen = f"{equal} of {len(facts.templates)} prompts are rendered as the server renders them"
    if facts.templates and equal == len(facts.templates):
        return ok(name, seen)
    pair = next((pair for pair in facts.templates if list(pair.ours) != list(pair.servers)), None)
    if pair is None:
        return fail(name, "nothing was compared", ISSUE)
    pairs = zip(pair.ours, pair.servers, strict=False)
    place = next((place for place, (one, other) in enumerate(pairs) if one != other), None)
    where = f"first difference at token {place}" if place is not None else "one is the beginning of the other"
    return fail(name, f"{seen}; {len(pair.ours)} and {len(pair.servers)} ids, {where}", ISSUE)


def reasoning_marks(facts: Facts) -> Check:
    """The end mark is found in the answers of a model that reasons."""
    name = "reasoning marks"
    if not facts.reasoning:
        return not_applicable(name, "the model's entry has no `reasoning`")
    found = sum(
        sample.answer["reasoning_tokens"] > 0 and sample.answer["state"] != TRUNCATED_REASONING
        for sample in facts.samples
    )
    cut = sum(sample.answer["state"] == TRUNCATED_REASONING for sample in facts.samples)
    seen = f"end mark in {found} of {len(facts.samples)} answers, {cut} cut off before it"
    if found:
        return ok(name, seen)
    if cut:
        return warn(name, seen, "raise the model's `max_tokens`: no answer came to its end mark")
    return fail(name, seen, "does the entry's `reasoning` name the marks that this model writes?")


def log_probabilities(facts: Facts) -> Check:
    """There is one for each token, finite and not above 0."""
    name = "log-probabilities"
    values = [(sample, unpack_floats(sample.response["logprobs"])) for sample in facts.samples]
    lacking = sum(len(row) != len(sample.response["token_ids"]) for sample, row in values)
    bad = sum(not math.isfinite(value) or value > 0 for _, row in values for value in row)
    count = sum(len(row) for _, row in values)
    if lacking or bad or not count:
        return fail(name, f"{count} tokens; {bad} not finite or above 0, {lacking} answers lack some", ISSUE)
    mean = sum(float(row.sum()) for _, row in values) / count
    if mean == 0:
        return fail(name, f"{count} tokens, all of them exactly 0", "the engine returns no raw log-probabilities")
    return ok(name, f"{count} tokens, all finite and at most 0, mean {mean:.3f} nats")


def scored_again(facts: Facts) -> Check:
    """Scored as part of a prompt, answers have the same log-probabilities."""
    name = "scored again"
    pairs = [pair for pair in facts.rescored if pair.first]
    if not pairs or any(len(pair.first) != len(pair.again) for pair in pairs):
        return fail(name, "nothing to compare", ISSUE)
    means = [abs(sum(pair.first) - sum(pair.again)) / len(pair.first) for pair in pairs]
    token = max(abs(one - other) for pair in pairs for one, other in zip(pair.first, pair.again, strict=True))
    seen = (
        f"{len(pairs)} answers, means differ by at most {max(means):.1e} nats per token, single tokens by {token:.1e}"
    )
    if not max(means) <= MOST_DIFFERENCE:  # also for NaN
        todo = f"more than {MOST_DIFFERENCE}: they are not the model's own, or its kernels disagree; {ISSUE}"
        return fail(name, seen, todo)
    return ok(name, seen)


def same_seed(facts: Facts) -> Check:
    """One request asked twice, alone, gives the same tokens."""
    name = "same seed twice"
    equal = sum(list(one) == list(other) for one, other in facts.repeats)
    seen = f"{equal} of {len(facts.repeats)} requests gave the same tokens again"
    if facts.repeats and equal == len(facts.repeats):
        return ok(name, seen)
    if equal * 2 > len(facts.repeats):
        return warn(name, seen, "kernels round differently from run to run; `determinism: strict` may help")
    return fail(name, seen, f"seeds have no effect; {ISSUE}")


def seeds_under_load(facts: Facts) -> Check:
    """Requests asked again together, in another order, give the same tokens: all of them under `strict`."""
    name, determinism = "seeds under load", facts.serving.get("determinism", "seeded")
    if determinism == "free" and not facts.greedy:
        return not_applicable(name, "`determinism: free` sends no seeds")
    equal = sum(list(one) == list(other) for one, other in facts.together)
    seen = f"{equal} of {len(facts.together)} requests gave the same tokens again, together and in another order"
    if facts.together and equal == len(facts.together):
        return ok(name, seen)
    if not equal or determinism == "strict":
        return fail(name, seen, f"`determinism: {determinism}` does not hold; {ISSUE}")
    if equal * 2 > len(facts.together):
        return ok(name, seen)
    return warn(name, seen, "batches change the rounding; `determinism: strict` makes all of them equal")


def adapter(facts: Facts) -> Check:
    """The model's adapter is in use: without it an answer has other log-probabilities."""
    name = "adapter"
    if facts.plain is None:
        return not_applicable(name, "the model's entry has no `lora`")
    apart = [abs(one - other) for one, other in zip(facts.plain.first, facts.plain.again, strict=False)]
    mean = sum(apart) / len(apart) if apart else 0.0
    seen = f"with and without it, tokens of an answer are {mean:.1e} nats apart on average"
    return ok(name, seen) if mean > 0 else fail(name, seen, f"it changes nothing; {ISSUE}")


def compiled_path(facts: Facts) -> Check:
    """The engine runs compiled, with CUDA graphs, as it does by default."""
    name = "compiled path"
    if facts.serving.get("device") == "cpu":
        return not_applicable(name, "not on CPU")
    if any(word.partition("=")[0] == "--enforce-eager" for word in facts.serving.get("arguments", ())):
        return warn(name, "the engine's entry says `enforce-eager`", "it was not tried; check a model without it too")
    return ok(name, f"healthy after {facts.start_seconds:.0f} s, without `enforce-eager`")


def leased_cards(facts: Facts) -> Check:
    """The GPUs that compute are those that were leased."""
    name = "leased GPUs"
    if facts.serving.get("device") == "cpu":
        return not_applicable(name, "not on CPU")
    leased, used = set(facts.leased), set(facts.computing)
    seen = f"{len(leased)} leased, {len(leased & used)} of them compute, {len(used - leased)} others"
    if used and used == leased:
        return ok(name, seen)
    if not used:
        return warn(name, seen, "nvidia-smi shows none of the engine's processes; in some containers it cannot")
    return fail(name, seen, f"leases do not hold; do not share this machine; {ISSUE}")


def offline_start(facts: Facts) -> Check:
    """The engine started from a folder, and was told to ask no hub."""
    name = "offline start"
    if facts.told_offline:
        return ok(name, "from a folder, and told to ask no hub")
    return fail(name, "the server was not told to ask no hub", f"nodes without internet may hang; {ISSUE}")


def other_seeds(facts: Facts) -> Check:
    """Samples of one prompt differ."""
    name = "other seeds"
    if facts.greedy:
        return not_applicable(name, "the model's sampling draws nothing")
    drawn: dict[str, set[tuple[int, ...]]] = {}
    for sample in facts.samples:
        drawn.setdefault(sample.request.prompt_id, set()).add(tuple(sample.response["token_ids"]))
    several = sum(len(rows) > 1 for rows in drawn.values())
    seen = f"the samples of {several} of {len(drawn)} prompts differ"
    if several:
        return ok(name, seen)
    return fail(name, seen, f"all samples are equal: something fixes the sampling; {ISSUE}")


def prefix_cache(facts: Facts) -> Check:
    """Samples of one prompt share its prefill."""
    name = "prefix cache"
    queries, hits = facts.counters.get("prefix_cache_queries", 0), facts.counters.get("prefix_cache_hits", 0)
    if not queries:
        return warn(name, "the engine has no prefix cache", "every sample pays for its prompt; some models have none")
    seen = f"{hits:.0f} of {queries:.0f} prompt tokens came from the cache"
    if hits:
        return ok(name, seen)
    block = facts.counters.get("block_size", 0)
    longest = max((len(sample.request.token_ids) for sample in facts.samples), default=0)
    # A prompt's last token is always computed, and only whole blocks are kept.
    if longest - 1 < block:
        return not_applicable(name, f"prompts have up to {longest} tokens here, a block of the cache {block:.0f}")
    return fail(name, seen, "every sample pays for its prompt: is `enable-prefix-caching` off, or `block-size` large?")


def unseeded_sampling(facts: Facts) -> Check:
    """Without a seed, which is another sampler on a GPU, only the k likeliest tokens are drawn."""
    name = "unseeded sampling"
    outside = sum(not drawn >= least for drawn, least in facts.unseeded)
    seen = f"{len(facts.unseeded) - outside} of {len(facts.unseeded)} tokens are among the likeliest that top_k allows"
    return ok(name, seen) if facts.unseeded and not outside else fail(name, seen, ISSUE)


def named_log_probabilities(facts: Facts) -> Check:
    """Log-probabilities of tokens that are asked for by their ids, as judges do, are those of these tokens."""
    name = "named log-probabilities"
    if not facts.named:
        return fail(name, "nothing to compare", ISSUE)
    mean = sum(abs(one - other) for one, other in facts.named) / len(facts.named)
    seen = f"{len(facts.named)} tokens, by their ids and among the likeliest: {mean:.1e} nats apart on average"
    return ok(name, seen) if mean <= MOST_NAMED_DIFFERENCE else fail(name, seen, f"judges read them; {ISSUE}")


def forms(facts: Facts) -> Check:
    """Replies obey the forms that judges ask for (`structured_outputs`)."""
    seen = ", ".join(f"{kind}: {'obeyed' if obeyed else 'broken'}" for kind, obeyed in facts.forms.items()) or "none"
    good = facts.forms and all(facts.forms.values())
    return ok("forms", seen) if good else fail("forms", seen, f"judges that write cannot be read; {ISSUE}")


def stop_tokens(facts: Facts) -> Check:
    """Answers end at a stop token, hold none before their end, and a token that is made one ends them."""
    name = "stop tokens"
    stops = set(facts.stop_token_ids)
    if not stops:
        return fail(name, "none is known", "the model's folder names no end-of-sequence token")
    ended = passed = wrong = 0
    for sample in facts.samples:
        ids, response = list(sample.response["token_ids"]), sample.response
        by_token = response["finish_reason"] == "stop" and not isinstance(response["stop_reason"], str)
        ended += by_token
        passed += bool(stops & set(ids[:-1]))
        wrong += by_token and (not ids or ids[-1] not in stops or response["stop_reason"] not in stops)
    missed = sum(probe.stop in list(probe.token_ids)[:-1] for probe in facts.stops)
    hit = sum(probe.finish_reason == "stop" and probe.stop_reason == probe.stop for probe in facts.stops)
    seen = f"{ended} of {len(facts.samples)} answers ended by one; made-up ones ended {hit} of {len(facts.stops)}"
    if passed or wrong or missed:
        return fail(name, f"{seen}; {passed + missed} went past one, {wrong} ended by another", ISSUE)
    if facts.stops and not hit:
        return warn(name, seen, "no made-up stop token was met; the answers differ too much from run to run to tell")
    return ok(name, seen)


def closed_to_others(facts: Facts) -> Check:
    """None of the server's processes listens to the network."""
    name = "network"
    opened = sorted({f"{listener.address}:{listener.port}" for listener in facts.listeners if not listener.on_loopback})
    if opened:
        shown = ", ".join(opened[:4])
        return fail(name, f"reached from other machines: {shown}", f"do not run this on a shared network; {ISSUE}")
    return ok(name, f"a Unix socket and {len(facts.listeners)} ports on loopback; no other")


CHECKS: Sequence[Callable[[Facts], Check]] = (
    answers,
    template_ids,
    reasoning_marks,
    log_probabilities,
    scored_again,
    same_seed,
    seeds_under_load,
    other_seeds,
    stop_tokens,
    unseeded_sampling,
    named_log_probabilities,
    forms,
    adapter,
    prefix_cache,
    compiled_path,
    leased_cards,
    offline_start,
    closed_to_others,
)


def run_checks(facts: Facts) -> list[Check]:
    """Return all checks in the order of the report; a probe that failed is a failed check."""
    failed = [fail(name, message, ISSUE) for name, message in facts.errors.items()]
    names = {check.name for check in failed}
    return failed + [check for check in (look(facts) for look in CHECKS) if check.name not in names]
