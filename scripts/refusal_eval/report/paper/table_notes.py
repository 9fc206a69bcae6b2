"""The words of tables and captions: what numbers are means of, how far judges can be believed, and what is marked."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from refusal_eval.config.kinds import PROTOCOLS
from refusal_eval.config.protocol import DEFAULT
from refusal_eval.core.states import MODEL_OUT, PROMPT_OUT, SOURCE_OUT
from refusal_eval.report.paper.display import (
    NO_DATA,
    Card,
    Labels,
    Score,
    annotators,
    clean,
    flags_in,
    interval,
    join_texts,
    notes_of,
    number,
    percent,
    points,
    points_interval,
)
from refusal_eval.report.results.cells import has_turns
from refusal_eval.stats.agreement.measures import MIN_ROWS
from refusal_eval.stats.calibration.applied import OWN_KIND_WORDS, OWN_LABELS, OWN_THRESHOLD, SOURCE_OUT_WORDS
from refusal_eval.stats.estimates.estimands import READINGS

READINGS_NOTE = "Readings: strict counts refusals; broad counts refusals and partial refusals."
AS_READ = "Rates describe the answers as the judge reads them; no interval or p-value includes the judge's errors."
NOT_MEASURED = "agreement with people: not measured"
PEOPLE, AUTHOR = "people", "the author's intended labels"
FEW_OF_A_KIND = "kappa not shown (fewer than 20 rows of a kind)"
# Behind "prompts" where scored turns are counted.
OF_TURNS = " (scored turns in dialogues)"
TURNS_NOTE = "In dialogues each scored turn counts as a prompt."
MODEL_ALONE_NOTE = (
    "Of the model alone: answers that were blocked are left out; they are neither refusals nor unjudged. In worst-case "
    "bounds each of them may be either."
)
_SCORED = {"all": "all turns", "last": "the last turn of each", "after_first": "turns after the first"}


def level_text(scores: Sequence[Score]) -> str:
    """Return the level of the intervals, such as "95 %"."""
    return _levels({score["interval"]["level"] for score in scores})


def k_text(scores: Sequence[Score]) -> str:
    """Return K, or every K that occurs."""
    return " or ".join(str(k) for k in sorted({score["samples"] for score in scores}))


def _levels(levels: Iterable[float]) -> str:
    return " or ".join(f"{100 * level:g} %" for level in sorted(levels))


# ---------------------------------------------------------------- under tables of rates


def prompts_note(scores: Sequence[Score], splits: Sequence[str], show: Labels) -> str:
    """Prompts of each split, and turns; where some had no answer that counts, the smallest number of scored ones."""
    texts, sizes = list[str](), list[int]()
    for split in splits:
        own = [score for score in scores if score["split"] == split]
        low, n = min(score["n_scored_turns"] for score in own), max(score["n_turns"] for score in own)
        inside = [f"{n} turns"] if has_turns(own) else []
        inside += [f"at least {low} scored"] if low < n else []
        prompts = max(score["n_prompts"] for score in own)
        texts.append(f"{show.split(split)} ({', '.join([str(prompts), *inside])})")
        sizes.append(0 if inside else prompts)
    if len(sizes) > 1 and len(set(sizes)) == 1 and sizes[0]:
        return f"Prompts: {sizes[0]} in each split."
    return f"Prompts: {join_texts(texts)}."


def turns_notes(scores: Sequence[Score], show: Labels) -> list[str]:
    """Which turns of dialogues count, by split, as one note; none without dialogues."""
    chosen = {score["split"]: score["scored"] for score in scores if score["scored"]}
    texts = [f"{show.split(split)} {_SCORED[chosen[split]]}" for split in sorted(chosen)]
    return [f"Scored in dialogues: {join_texts(texts)}."] if texts else []


def common_notes(scores: Sequence[Score], cards: Iterable[Card], show: Labels, others: str = "") -> list[str]:
    """What every table of a judge's rates says: K, readings, interval, agreement with people, marks.

    `others` goes on behind the intervals of rates, with those of other numbers.
    """
    methods = "; ".join(sorted({score["interval"]["method"] for score in scores}))
    over = OF_TURNS if has_turns(scores) else ""
    return [
        f"Mean over prompts{over} of the share of refusals among K = {k_text(scores)} answers. {READINGS_NOTE}",
        *turns_notes(scores, show),
        f"Intervals ({level_text(scores)}): {methods}{others}.",
        *judged_notes(scores, cards, show),
    ]


def judged_notes(scores: Sequence[Score], cards: Iterable[Card], show: Labels) -> list[str]:
    """What every table with a judge's number says: agreement with people, blocked answers, marks."""
    notes = judges_notes({score["judge"] for score in scores}, cards, show)
    if any(score["states"]["blocked"] for score in scores):
        notes.append("Answers that a provider blocked count as refusals.")
    return notes + notes_of(flags_in(scores))


def c_notes(scores: Collection[Score]) -> list[str]:
    """What c(x) leaves out of the answers in rates: blocked ones, and prompts with one that nothing weighs."""
    blocked = any(score["states"]["blocked"] for score in scores)
    notes = ["c leaves out answers that a provider blocked; the refusal rate counts them as refusals."] * blocked
    own = [score["c"]["n"] for score in scores if score["c"]["n"] < score["n_scored_turns"]]
    if own and not any(score.get("protocol", DEFAULT) != DEFAULT for score in scores):  # which has a score of its own
        notes.append(
            "A prompt has no c if a judged answer has no log-probability, or none is judged: c rests on fewer prompts "
            f"than the rate in {len(own)} of {len(scores)} cells, in {own.count(0)} of them on none."
        )
    return notes


def judges_notes(judges: Collection[str], cards: Iterable[Card], show: Labels) -> list[str]:
    """That rates are as these judges read them, and how well each agrees with people."""
    measured, notes = list(cards), [AS_READ]
    for judge in sorted(judges):
        notes += [f"Judge {show.judge(judge)}, {text}." for text in agreement_texts(judge, measured, show.golds)]
    return notes


def kinds_agreement(judge: str, cards: Iterable[Card], golds: Mapping[str, str] | None = None) -> list[str]:
    """Return how well gold agrees with a judge on its own label set: a text per gold set that has it, `NOT_MEASURED`
    first if people labelled none of them.
    """
    texts = []
    found = sorted_cards(card for card in cards if card["judge"] == judge and "kinds" in card)
    for card in found:
        own = card["kinds"]
        kappa = f"kappa {value_text(own['kappa'], own['interval'])}" if own["kappa"] is not None else FEW_OF_A_KIND
        texts.append(f"{_with(card)} {_gold(card, golds)} ({own['n_judged']} answers{written_text(card)}): {kappa}")
    return texts if any(map(is_peoples, found)) else [NOT_MEASURED, *texts]


def readings_note(splits: Iterable[str], readings: Mapping[str, str], show: Labels) -> str:
    """Which reading counts on which of these splits, and what the readings are."""
    where: dict[str, list[str]] = {}
    for split in splits:
        where.setdefault(readings[split], []).append(show.split(split))
    readings_of = "; ".join(f"{reading} on {join_texts(where[reading])}" for reading in sorted(where))
    return f"Headline readings: {readings_of}. {READINGS_NOTE}"


def flags_notes(flags: Iterable[Iterable[str]]) -> list[str]:
    """Return the notes that explain the marks of these flags."""
    return notes_of(flag for own in flags for flag in own)


def protocol_notes(scores: Iterable[Score]) -> list[str]:
    """The note of a figure's scores; none for scores under the default protocol."""
    names = {score.get("protocol") or DEFAULT for score in scores} - {DEFAULT}
    return [PROTOCOLS.get(name).note for name in sorted(names)]


# ---------------------------------------------------------------- a judge's agreement with people, in words


def sorted_cards(cards: Iterable[Card]) -> list[Card]:
    """Sort cards by judge and gold set; each judge's cards on human labels come first."""
    return sorted(cards, key=lambda card: (card["judge"], not is_peoples(card), card["gold"]))


def is_peoples(card: Card) -> bool:
    """Tell whether people labelled a card's gold set, rather than the author who wrote its answers, or a model."""
    return not card.get("written_to_label") and not card.get("labelled_by_model")


def whose_labels(card: Card) -> str:
    """Return what a judge agrees with on a card's gold set: people, or the labels of whoever gave them."""
    if card.get("written_to_label"):
        return AUTHOR
    model = card.get("labelled_by_model")
    return f"the labels of {clean(str(model))}" if model else PEOPLE


def written_text(card: Card) -> str:
    """What is said of gold answers that no person labelled, or on which the judge was chosen, behind "answers"."""
    written = " written to their labels" if card.get("written_to_label") else ""
    written += f" labelled by {clean(str(card['labelled_by_model']))}" if card.get("labelled_by_model") else ""
    return written + ("; the judge was chosen or fitted on them" if card.get("seen") else "")


def is_out_of_fold(card: Card) -> bool:
    """Tell whether fits or calibrations gave the card's labels that had not seen the answer or its like."""
    unseen = any(words in str(card.get("labels_from", "")) for words in ("out of fold", SOURCE_OUT_WORDS))
    return unseen and not is_calibrated_elsewhere(card)


def is_calibrated_elsewhere(card: Card) -> bool:
    """Tell whether labels and probabilities come from a calibration on another gold set."""
    return str(card.get("labels_from", "")).startswith("a calibration on gold")


LEFT_OUT_TEXTS = {
    PROMPT_OUT: "out of fold",
    MODEL_OUT: "answering model and prompt out",
    SOURCE_OUT: "source out",
}


def unseen_parts(card: Card) -> list[tuple[str, Card]]:
    """Return a card's numbers by each of the fits that had not seen the like of an answer, the headline last, in words.

    Where there is one source, the words say so.
    """
    parts = [(text, card["unseen"][how]) for how, text in LEFT_OUT_TEXTS.items() if how in card.get("unseen", {})]
    alone = "" if SOURCE_OUT in card.get("unseen", {}) else f": {OWN_KIND_WORDS}"
    return [(text + alone, part) for text, part in parts]


def agreement_texts(judge: str, cards: Iterable[Card], golds: Mapping[str, str] | None = None) -> list[str]:
    """Return a judge's agreement with people in one number, for the note under a table: a text per gold set.

    Agreement with labels of an author or of a model follows, in these words. `NOT_MEASURED` comes first if people
    labelled nothing. Texts point to the judge cards for the rest. `golds` are labels of gold sets.
    """
    found = sorted_cards(card for card in cards if card["judge"] == judge)
    texts = [
        f"{_with(card)} {_gold(card, golds)} ({_answers(card)}): {_in_short(card)}; more in the judge cards"
        for card in found
    ]
    return texts if any(map(is_peoples, found)) else [NOT_MEASURED, *texts]


def agreement_sentences(judge: str, cards: Iterable[Card], golds: Mapping[str, str] | None = None) -> list[str]:
    """The same in full, for the methods section."""
    found = [card for card in cards if card["judge"] == judge]
    texts = [f"Its {_with(c)} {text}." for c in sorted_cards(found) for text in agreement_details(judge, [c], golds)]
    return texts if any(map(is_peoples, found)) else ["Its agreement with people was not measured.", *texts]


def agreement_details(judge: str, cards: Iterable[Card], golds: Mapping[str, str] | None = None) -> list[str]:
    """A judge's accuracy, sensitivity, specificity and kappa in both readings, a text per gold set.

    Where a convention decides the labels of some rows, kappa without them follows.
    """
    texts = []
    for card in sorted_cards(card for card in cards if card["judge"] == judge):
        strict, broad = (_agreement(card[reading]) for reading in READINGS)
        both = f"{strict} (strict and broad)" if strict == broad else f"{strict} (strict); {broad} (broad)"
        by_weight = ", rows weighted by 1 / probability of being labelled" if card.get("weighted") else ""
        kept = without_convention_text(card)
        texts.append(f"{_gold(card, golds)} ({_answers(card)}{by_weight}): {both}{'; ' * bool(kept)}{kept}")
    return texts


def without_convention_text(card: Card) -> str:
    """Return kappa (broad) without the rows whose label is a convention; empty where there are none."""
    kept = card.get("without_convention")
    if not kept:
        return ""
    rows = f"the {card['n'] - kept['n']} answers whose label is a convention (they refuse and help, or deny a premise)"
    part = kept["broad"]
    kappa = "not shown" if part["kappa"] is None else value_text(part["kappa"], part["intervals"]["kappa"])
    return f"without {rows}: kappa {kappa} (broad)"


def agreement_note(judge: str, cards: Iterable[Card], golds: Mapping[str, str] | None = None) -> str:
    """A judge's agreement with people in one short sentence, for the caption of a figure.

    Labels of an author or of a model are repeated there only where people labelled nothing.
    """
    found = [card for card in sorted_cards(cards) if card["judge"] == judge and card["n_judged"]]
    peoples = [card for card in found if is_peoples(card)]
    texts: dict[str, list[str]] = {}
    for card in peoples or found:
        texts.setdefault(whose_labels(card), []).append(f"{_in_short(card)} ({_gold(card, golds)}, {_answers(card)})")
    measured = "; ".join(texts.pop(PEOPLE, ["not measured"]))
    others = "".join(f"; with {whose}: {'; '.join(own)}" for whose, own in texts.items())
    return f"Agreement of the judge with people: {measured}{others}."


def _with(card: Card) -> str:
    return f"agreement with {whose_labels(card)} on"


def _gold(card: Card, golds: Mapping[str, str] | None) -> str:
    return str((golds or {}).get(card["gold"], card["gold"]))


def _answers(card: Card) -> str:
    """How many answers of a gold set the judge labelled, and whether they had a part in what labelled them."""
    source = str(card.get("labels_from", ""))
    how = f", their {SOURCE_OUT_WORDS}" if SOURCE_OUT_WORDS in source else ", out of fold"
    how += f": {OWN_KIND_WORDS}" if OWN_KIND_WORDS in source else ""
    out_of_fold = how if is_out_of_fold(card) else ""
    return f"{of_all(card['n_judged'], card['n'])} answers{written_text(card)}{out_of_fold}"


def _in_short(card: Card) -> str:
    """Kappa in both readings; accuracy where kappa is not shown, as people labelled too few answers as a class."""
    kappas = [f"{number(card[r]['kappa'])} {r}" for r in READINGS if card[r]["kappa"] is not None]
    if kappas:
        return f"kappa {', '.join(kappas)}"
    known = [f"{percent(card[r]['accuracy'])} % {r}" for r in READINGS if card[r]["accuracy"] is not None]
    return f"accuracy {', '.join(known)}" if known else "no answer labelled"


def _agreement(part: Mapping[str, Any]) -> str:
    shares = {"accuracy": "", "sensitivity": f" (n = {part['n_positive']})"}
    shares["specificity"] = f" (n = {part['n_negative']})"
    known = [f"{name} {percent(part[name])} %{n}" for name, n in shares.items() if part[name] is not None]
    kappa = part["kappa"]
    return ", ".join(
        [*known, "kappa not shown (fewer than 20 rows in a class)" if kappa is None else f"kappa {number(kappa)}"]
    )


# ---------------------------------------------------------------- numbers of judge cards in words


def of_all(part: int, whole: int) -> str:
    """Return a number, with its total if that is larger."""
    return str(whole) if part == whole else f"{part} of {whole}"


def value_text(value: float | None, ends: Sequence[float | None] | None, digits: int = 2) -> str:
    """Return a value and its interval, such as 0.89 [0.85, 0.92]; a dash for None."""
    if value is None:
        return NO_DATA
    texts = [number(end, digits) for end in ends or () if end is not None]
    return number(value, digits) + (f" [{texts[0]}, {texts[1]}]" if len(texts) == 2 else "")


def share_text(value: float | None, ends: Sequence[float | None] | None) -> str:
    """A share in percent and its interval, as all tables have them; a dash for None."""
    low, high = ends or (None, None)
    return NO_DATA if value is None else f"{percent(value)} {interval(low, high)}".strip()


def points_text(part: Mapping[str, Any], name: str = "value") -> str:
    """Return a difference of shares and its interval in percentage points, from an object with `low` and `high`."""
    return f"{points(part[name])} {points_interval(part['low'], part['high'])}".strip()


def rate_text(part: Mapping[str, Any] | None) -> str:
    """Return a rate and its interval from `value`, `low` and `high` of an object; a dash for None."""
    return NO_DATA if part is None else share_text(part["value"], (part["low"], part["high"]))


def levels_text(cards: Sequence[Card]) -> str:
    """Return the level of the cards' intervals, such as "95 %"; empty without cards."""
    return _levels({card["level"] for card in cards})


def gold_notes(cards: Iterable[Card], show: Labels) -> list[str]:
    """Who labelled the gold sets of judge cards, if it is known, and which judges were chosen on them."""
    known, others, found = {}, dict[str, str](), sorted_cards(cards)
    for card in found:
        gold, model = show.gold(card["gold"]), card.get("labelled_by_model")
        if is_peoples(card):
            known[gold] = annotators(card["raters"], card.get("published", {}).get("human_kappa"))
            continue
        others[gold] = (
            f"its labels are those of {clean(str(model))}" if model else "its answers were written to their labels"
        )
    texts = [f"{who} ({gold})" for gold, who in known.items() if who]
    notes = [f"Each gold answer was labelled by {join_texts(texts)}."] if texts else []
    notes += [f"No rater labelled {gold}: {why}." for gold, why in others.items()]
    return notes + [
        f"Judge {show.judge(card['judge'])} was chosen or fitted on {show.gold(card['gold'])}: its numbers there are "
        "too kind."
        for card in found
        if card.get("seen")
    ]


def compared_notes(cards: Iterable[Card], show: Labels) -> list[str]:
    """Which labels of the judges are compared with gold's, as one note; of cards that `labels_notes` is silent on."""
    cards = list(cards)
    found = {
        words: dict.fromkeys(show.judge(c["judge"]) for c in sorted_cards(cards) if c.get("labels_from") == source)
        for source, words in ((OWN_THRESHOLD, f"labels at {OWN_THRESHOLD}"), (OWN_LABELS, OWN_LABELS))
    }
    texts = [f"{words} ({', '.join(names)})" for words, names in found.items() if names]
    return [f"Compared with the labels of gold: {' and '.join(texts)}."] if texts else []


def labels_notes(cards: Iterable[Card], show: Labels) -> list[str]:
    """Return a note if a card's labels (calibrated or out of fold) differ from those the judge gives new answers."""
    return [
        f"Judge {show.judge(card['judge'])} on {show.gold(card['gold'])}, labels: {clean(card['labels_from'])}."
        for card in sorted_cards(cards)
        if is_out_of_fold(card)
        or is_calibrated_elsewhere(card)
        or str(card.get("labels_from", "")).startswith("nothing")
    ]


def unshown_kappa(cells: Iterable[str]) -> str:
    """Why kappa is a dash in some of these cells, to be put behind its explanation; empty where it is nowhere."""
    if NO_DATA not in set(cells):
        return ""
    return f"; {NO_DATA} where gold has fewer than {MIN_ROWS} answers of a class"


def published_texts(card: Card) -> list[str]:
    """What others published on a card's gold set: the kappa among people, then kappa and F1 of each anchor."""
    published, texts = card["published"], []
    human = published["human_kappa"] or {}
    kappas = [
        f"{number(human[name])} {name.replace('_', ' ')}" for name in (*READINGS, "three_class") if human.get(name)
    ]
    if kappas:
        texts.append(f"{statistic(human)} among people {', '.join(kappas)}{_source(human)}")
    for anchor in whole_anchors(card):
        reading = anchor.get("reading") or "broad"
        numbers = [f"kappa {number(anchor['kappa'])}"] if anchor.get("kappa") is not None else []
        numbers += [f"F1 {percent(anchor['f1'])} %"] if anchor.get("f1") is not None else []
        texts.append(f"{clean(anchor['name'])}: {', '.join(numbers)} {reading.replace('_', ' ')}{_source(anchor)}")
    return texts


def met_texts(card: Card) -> list[str]:
    """Return what was published for the judge of a card itself on the whole gold set, and whether it meets that."""
    whole = [part for part in card.get("tasks", ()) if part["task"] == "refusal" and part["slice"] is None]
    found = [one for part in whole if part["expectation"] is None for one in part["published"]]
    return [f"{percent(one['f1'])} % {one['reading']}" + (f" ({one['met']})" if one["met"] else "") for one in found]


def whole_anchors(card: Card) -> list[Mapping[str, Any]]:
    """Return what others published for refusal on the whole gold set of a card; of its parts the table of tasks says
    it.
    """
    anchors: Sequence[Mapping[str, Any]] = card["published"]["anchors"]
    return [one for one in anchors if not any(one.get(part) for part in ("flag", "slice", "expectation"))]


def _source(published: Mapping[str, Any]) -> str:
    return f" ({clean(str(published['source']))})" if published.get("source") else ""


def statistic(human_kappa: Mapping[str, Any]) -> str:
    """Return the name of the published agreement statistic, such as "Fleiss' kappa"; "kappa" if unknown."""
    return clean(str(human_kappa.get("statistic") or "kappa"))


def ranking_text(soft: Mapping[str, Any]) -> str:
    """How well a judge's probabilities order answers, as the end of a sentence; empty where a class has few answers."""
    if soft["roc_auc"] is None:
        return ""
    precision = value_text(soft["average_precision"], soft["average_precision_interval"])
    area = value_text(soft["roc_auc"], soft["roc_auc_interval"])
    return f"ROC area {area}, average precision {precision} ({number(soft['base_rate'])} by chance)"


def weights_text(card: Card) -> str:
    """What weights do to a card, in a sentence; empty for a card without weights."""
    if not card.get("weighted"):
        return ""
    return (
        f"Rows are weighted by 1 / probability of being labelled; the {card['n_judged']} judged rows carry as much "
        f"information as {card['weighted']['n_effective']:.0f} rows of equal weight."
    )
