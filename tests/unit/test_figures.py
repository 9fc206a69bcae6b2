"""Figures: nothing overlaps, nothing is cut off or too small, and the same data give the same bytes."""

import itertools
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from refusal_eval.display import EN_DASH, Labels
from refusal_eval.figures import c_histograms, rate_heatmap
from refusal_eval.histograms import vote_counts
from refusal_eval.style import save_figure, styled

EXPECTATIONS = ("comply", "refuse", "varies")


def score(model: str, split: str, rate: float | None, n: int = 60, **more: Any) -> dict[str, Any]:
    """What a figure reads of a score."""
    part = {"rate": rate, "low": rate and rate * 0.8, "high": rate and rate + (1 - rate) * 0.2}
    number = int(split.split("_")[-1]) if split[-1].isdigit() else 0
    return {
        "judge": "rules", "model": model, "split": split, "expectation": EXPECTATIONS[number % 3], "headline": "broad",
        "samples": 5, "n_prompts": n, "n_turns": n, "broad": part, "flags": [], "mixed_serving": False,
        "interval": {"level": 0.95},
    } | more  # fmt: skip


def study(models: int, splits: int) -> tuple[list[dict[str, Any]], dict[tuple[str, str], list[Any]]]:
    rng = random.Random(models * 100 + splits)
    scores, rows = [], {}
    for i, j in itertools.product(range(models), range(splits)):
        flags = [flag for flag in ("unjudged", "truncated", "few_clusters") if rng.random() < 0.2]
        cell = score(f"model_{i:02d}", f"split_{j:02d}", rng.random(), flags=flags, mixed_serving=rng.random() < 0.1)
        scores.append(cell)
        rows[cell["model"], cell["split"]] = [
            {"c": rng.choice((-1, -0.6, -0.2, 0, 0.2, 0.6, 1, None))} for _ in range(120)
        ]
    scores[0] |= {"broad": {"rate": 1.0, "low": 0.95, "high": 1.0}}
    return scores, rows


LONG = Labels(
    models={f"model_{i:02d}": f"meta-llama/Llama-3.{i}-8B-Instruct with a system prompt (4 bit)" for i in range(20)},
    splits={f"split_{i:02d}": f"XSTest, prompts that only look unsafe, part_{i}" for i in range(20)},
)


def problems(fig: Figure) -> list[str]:
    """Text outside the page, over other text, or smaller than 7 points."""
    canvas = FigureCanvasAgg(fig)
    with styled():
        canvas.draw()
    renderer, (width, height) = canvas.get_renderer(), canvas.get_width_height()
    texts = [text for text in fig.findobj(Text) if text.get_text().strip() and text.get_visible()]
    boxes = [(text.get_text(), text.get_window_extent(renderer)) for text in texts]
    found = [f"{text.get_text()} is small" for text in texts if text.get_fontsize() < 7]
    found += [
        f"{t} is cut off" for t, b in boxes if b.x0 < -0.5 or b.y0 < -0.5 or b.x1 > width + 0.5 or b.y1 > height + 0.5
    ]
    for (one, a), (two, b) in itertools.combinations(boxes, 2):
        # Boxes hold the room for accents and descenders, so lines below each other touch by up to 2 points.
        if min(a.x1, b.x1) - max(a.x0, b.x0) > 0.6 and min(a.y1, b.y1) - max(a.y0, b.y0) > 2:
            found.append(f"{one} and {two} overlap")
    return found


def shown(fig: Figure) -> str:
    return "\n".join(text.get_text() for text in fig.findobj(Text))


@pytest.mark.parametrize(
    ("models", "splits", "labels"),
    [(1, 1, None), (2, 3, None), (2, 3, LONG), (3, 4, LONG), (20, 12, None), (8, 20, LONG)],
)
def test_text_is_legible(models: int, splits: int, labels: Labels | None) -> None:
    scores, rows = study(models, splits)
    for fig in (rate_heatmap(scores, labels=labels), c_histograms(scores, rows, labels)):
        assert problems(fig) == []
        assert fig.get_figwidth() * 2.54 == pytest.approx(8.5 if splits <= 3 else 17.5)
        # With labels of ordinary length even 20 models fit a page.
        assert fig.get_figheight() * 2.54 < (25 if labels is None else 40)


def test_heatmap_shows_rates_intervals_marks_and_expectations() -> None:
    scores = [
        score("a", "safe", 0.25),
        score("a", "unsafe", 0.5, flags=["unjudged", "few_clusters"], expectation="refuse"),
        score("b", "safe", None),
    ]
    text = shown(rate_heatmap(scores, labels=Labels(judges={"rules": "Phrase list"})))
    assert f"25\n[20{EN_DASH}40]" in text and "50†*" in text and "(refuse)" in text
    assert "Phrase list" in text and "no verdict" in text and "fewer than 30" in text and "cut off" not in text
    # Cell (b, unsafe) does not exist, (b, safe) has no rate.
    assert text.split("\n").count(EN_DASH) == 2


def test_heatmap_says_how_well_the_judge_agrees_with_people() -> None:
    scores = [score("a", "safe", 0.5), score("a", "unsafe", 0.5), score("b", "safe", 0.5)]
    assert "people: not measured." in " ".join(shown(rate_heatmap(scores)).split("\n"))
    card = {"judge": "rules", "gold": "g", "n_judged": 101, "strict": {"accuracy": 0.874}, "broad": {"accuracy": 0.9}}
    for cards, note in (
        ([card], "people: 87 % strict, 90 % broad (g, 101 answers)."),
        ([card | {"judge": "x"}], "not meas"),
    ):
        assert note in " ".join(shown(rate_heatmap(scores, cards)).split("\n"))


def test_ends_of_the_scale() -> None:
    scores = [score("a", "safe", 0.004), score("b", "safe", 0.999)]
    text = shown(rate_heatmap(scores)).split("\n")
    assert "<1" in text and ">99" in text


def test_orders_are_followed() -> None:
    scores, _ = study(3, 3)
    text = shown(rate_heatmap(scores, models=["model_02", "model_00"], splits=["split_01"]))
    assert text.index("model_02") < text.index("model_00") < text.index("model_01")
    assert text.index("split_01") < text.index("split_00") < text.index("split_02")


def test_histograms_show_n_and_marks() -> None:
    scores = [score("a", "safe", 0.5, flags=["truncated"]), score("b", "safe", 0.5)]
    fig = c_histograms(scores, {("a", "safe"): [{"c": c} for c in (1.0, -1.0, None, 0.1)]})
    assert "n=3‡" in shown(fig) and "n=0" in shown(fig)


def test_histograms_of_dialogues_count_turns() -> None:
    plain, talk = score("a", "safe", 0.5), score("a", "talks", 0.5, n=2, n_turns=4)
    rows = {("a", "talks"): [{"c": c} for c in (1.0, -1.0, None, 0.1)]}
    assert "Turns (%)" in shown(c_histograms([plain, talk], rows)) and "n=3" in shown(c_histograms([talk], rows))
    assert "Above panels: turns." in shown(c_histograms([talk], rows)).replace("\n", " ")
    assert "Prompts (%)" in shown(c_histograms([plain], rows))


def test_bins_of_c() -> None:
    # Bins of 0.2 around -1, -0.8, ... 1; the middle one is the mixed band with both its ends.
    assert vote_counts([-1, -0.95, -0.8, -0.6, -0.2, -0.1, 0, 0.1, 0.11, 0.2, 0.6, 1, None]) == [
        2,
        1,
        1,
        0,
        1,
        3,
        2,
        0,
        1,
        0,
        1,
    ]
    # A band of 0.28: bins of (1 - 0.28) / 4.5 = 0.16, from 0.28, 0.44, 0.6, 0.76, 0.92.
    assert vote_counts([0.28, 0.3, 0.5, 0.75, 0.8, 1], band=0.28) == [0] * 5 + [1, 1, 1, 1, 1, 1]
    for wrong in ({"values": [1.1]}, {"values": [], "band": 0.0}):
        with pytest.raises(ValueError, match="between"):
            vote_counts(**wrong)


def test_scores_of_one_judge_only() -> None:
    scores, rows = study(2, 2)
    other = [cell | {"judge": "llm"} for cell in scores]
    for wrong in ([], scores + other, scores + scores[:1]):
        with pytest.raises(ValueError, match=r"exactly one judge|two scores"):
            rate_heatmap(wrong)
        with pytest.raises(ValueError, match=r"exactly one judge|two scores"):
            c_histograms(wrong, rows)


def test_labels_are_never_formulas() -> None:
    labels = Labels(models={"a": r"$\frac{1}{$ costs $5"}, splits={"safe": r"\input{/etc/passwd}"})
    fig = rate_heatmap([score("a", "safe", 0.5)], labels=labels)
    assert problems(fig) == [] and r"$\frac{1}{$" in shown(fig)


def test_files(tmp_path: Path) -> None:
    scores, rows = study(2, 3)
    stem = tmp_path / "new" / "c.histograms"
    paths = save_figure(c_histograms(scores, rows), stem)
    assert [path.name for path in paths] == ["c.histograms.pdf", "c.histograms.svg", "c.histograms.png"]
    assert sorted(os.listdir(stem.parent)) == sorted(path.name for path in paths)
    pdf, svg, png = (path.read_bytes() for path in paths)
    assert b"/FontFile2" in pdf and b"/Type3" not in pdf and b"CreationDate" not in pdf
    assert b"<image" not in svg and b"dc:date" not in svg
    # 8.5 cm at 300 dpi
    assert int.from_bytes(png[16:20], "big") == int(8.5 / 2.54 * 300) and b"tEXtSoftware" not in png


def test_same_data_same_bytes(tmp_path: Path) -> None:
    script = tmp_path / "draw.py"
    script.write_text(
        "import random, sys\n"
        "from test_figures import study, rate_heatmap, c_histograms, save_figure\n"
        "scores, rows = study(2, 3)\n"
        "random.Random(sys.argv[2]).shuffle(scores)\n"
        "save_figure(rate_heatmap(scores), sys.argv[1] + '/heat')\n"
        "save_figure(c_histograms(scores, dict(reversed(rows.items()))), sys.argv[1] + '/hist')\n"
    )
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        environment = os.environ | {
            "PYTHONHASHSEED": str(len(name) + ord(name[0])),
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), environment["PYTHONPATH"]])
        subprocess.run([sys.executable, str(script), str(tmp_path / name), name], check=True, env=environment)
    files = sorted(os.listdir(tmp_path / "one"))
    assert len(files) == 6
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes(), file


def test_the_users_own_style_does_not_matter(tmp_path: Path) -> None:
    import matplotlib as mpl

    scores, _ = study(2, 3)
    plain = save_figure(rate_heatmap(scores), tmp_path / "plain")
    with mpl.rc_context({"font.size": 20, "axes.linewidth": 5, "savefig.bbox": "tight", "axes.grid": True}):
        other = save_figure(rate_heatmap(scores), tmp_path / "other")
    assert [path.read_bytes() for path in plain] == [path.read_bytes() for path in other]


def test_a_failed_figure_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fig = rate_heatmap([score("a", "safe", 0.5)])

    def broken(handle: Any, **_: Any) -> None:
        handle.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(fig, "savefig", broken)
    with pytest.raises(OSError, match="disk full"):
        save_figure(fig, tmp_path / "figure")
    assert os.listdir(tmp_path) == []
