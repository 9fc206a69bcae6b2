"""The files of figures: whole, embedded fonts, no dates, the same bytes for the same data."""

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest
from figure_checks import draw, estimate, score, study
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from matplotlib import font_manager

from refusal_eval.plots import style
from refusal_eval.plots.captions import caption_latex, caption_markdown, captions_preamble
from refusal_eval.plots.figure_data import Caption
from refusal_eval.plots.style import save_figure
from refusal_eval.report.paper.display import Labels
from refusal_eval.report.paper.latex_text import definitions, latex_escaped

FOREIGN = Labels(
    models={"model_00": "模型一", "model_01": "Ωμέγα"}, splits={"split_00": "русский 😀"}, judges={"rules": "判官"}
)
# Commands of LaTeX itself that escaped text and captions may hold.
STANDARD = {
    *("textbf", "textbackslash", "textasciitilde", "textasciicircum", "textless", "textgreater", "textbar", "symbol"),
    *("textdagger", "textdaggerdbl", "S", "kappa", "tau", "lambda", "pm", "times", "geq", "leq", "ll", "gg", "infty"),
    *("uparrow", "downarrow"),
}


def test_files(tmp_path: Path) -> None:
    scores, votes = study(2, 3)
    stem = tmp_path / "new" / "c.histograms"
    paths = save_figure(draw("histograms", scores=scores, votes=votes).figure, stem)
    assert [path.name for path in paths] == ["c.histograms.pdf", "c.histograms.svg", "c.histograms.png"]
    assert sorted(os.listdir(stem.parent)) == sorted(path.name for path in paths)
    pdf, svg, png = (path.read_bytes() for path in paths)
    # Every font is in the file, as TrueType.
    assert len(re.findall(rb"/FontDescriptor \d+", pdf)) == len(re.findall(rb"/FontFile2 \d+", pdf)) > 0
    assert b"/Type3" not in pdf and b"CreationDate" not in pdf
    assert b"<image" not in svg and b"dc:date" not in svg
    # 8.5 cm at 300 dpi
    assert int.from_bytes(png[16:20], "big") == int(8.5 / 2.54 * 300) and b"tEXtSoftware" not in png


def test_same_data_same_bytes(tmp_path: Path) -> None:
    script = tmp_path / "draw.py"
    script.write_text(
        "import random, sys\n"
        "from test_plots_files import study, draw, save_figure\n"
        "scores, votes = study(2, 3)\n"
        "random.Random(sys.argv[2]).shuffle(scores)\n"
        "save_figure(draw('heatmap', scores=scores).figure, sys.argv[1] + '/heat')\n"
        "votes = dict(reversed(votes.items()))\n"
        "save_figure(draw('histograms', scores=scores, votes=votes).figure, sys.argv[1] + '/hist')\n"
    )
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        environment = os.environ | {
            "PYTHONHASHSEED": str(len(name) + ord(name[0])),
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
        }
        subprocess.run([sys.executable, str(script), str(tmp_path / name), name], check=True, env=environment)
    files = sorted(os.listdir(tmp_path / "one"))
    assert len(files) == 6
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes(), file


def test_the_users_own_style_does_not_matter(tmp_path: Path) -> None:
    scores, _ = study(2, 3)
    plain = save_figure(draw("heatmap", scores=scores).figure, tmp_path / "plain")
    with mpl.rc_context({"font.size": 20, "axes.linewidth": 5, "savefig.bbox": "tight", "axes.grid": True}):
        other = save_figure(draw("heatmap", scores=scores).figure, tmp_path / "other")
    assert [path.read_bytes() for path in plain] == [path.read_bytes() for path in other]


def test_a_failed_figure_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fig = draw("heatmap", ["a"], ["safe"], scores=[score("a", "safe", 0.5)]).figure

    def broken(handle: Any, **_: Any) -> None:
        handle.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(fig, "savefig", broken)
    with pytest.raises(OSError, match="disk full"):
        save_figure(fig, tmp_path / "figure")
    assert os.listdir(tmp_path) == []


def test_captions_are_escaped() -> None:
    caption = Caption("100 % of <b>what</b>?", ["A_b & *c*.", r"\input{x}"])
    assert caption_markdown(caption) == ("**100 % of &lt;b&gt;what&lt;/b&gt;?** A\\_b &amp; \\*c\\*. \\\\input{x}\n")
    text = caption_latex(caption)
    assert text.startswith(r"\textbf{100 \% of ") and r"A\_b \& " in text and r"\input" not in text


def chinese_font(path: Path) -> None:
    """Write a font with the two characters 模型 and nothing else."""
    builder = FontBuilder(1000, isTTF=True)
    builder.setupGlyphOrder([".notdef", "one", "two"])
    builder.setupCharacterMap({ord("模"): "one", ord("型"): "two"})
    pen = TTGlyphPen(None)
    for number, point in enumerate(((100, 0), (100, 700), (900, 700), (900, 0))):
        (pen.lineTo if number else pen.moveTo)(point)
    pen.closePath()
    box = pen.glyph()
    builder.setupGlyf({".notdef": box, "one": box, "two": box})
    builder.setupHorizontalMetrics(dict.fromkeys((".notdef", "one", "two"), (1000, 100)))
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    builder.setupNameTable({"familyName": "WenQuanYi Micro Hei", "styleName": "Regular", "psName": "WenQuanYiMicroHei"})
    builder.setupOS2(sTypoAscender=800, sTypoDescender=-200)
    builder.setupPost()
    builder.save(path)


def test_an_installed_chinese_font_is_asked_for_what_the_own_one_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chinese_font(tmp_path / "wqy.ttf")
    entries = list(font_manager.fontManager.ttflist)
    monkeypatch.setattr(font_manager.fontManager, "ttflist", entries)
    monkeypatch.setattr(style, "_CHINESE", ("Noto Sans CJK SC", "WenQuanYi Micro Hei"))
    style.font_families.cache_clear()
    assert style.font_families() == ["DejaVu Sans"]
    font_manager.fontManager.addfont(tmp_path / "wqy.ttf")
    style.font_families.cache_clear()
    try:
        assert style.font_families() == ["DejaVu Sans", "WenQuanYi Micro Hei"]
        labels = Labels(models={"model_00": "模型 one", "model_01": "模型 two"})
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a missing glyph warns
            figure = draw("heatmap", 2, 3, labels, scores=study(2, 3)[0]).figure
            pdf = save_figure(figure, tmp_path / "figure")[0].read_bytes()
        assert b"WenQuanYiMicroHei" in pdf and b"DejaVuSans" in pdf
    finally:
        style.font_families.cache_clear()


def drawn_captions(labels: Labels | None) -> list[str]:
    """Captions of a heatmap and of a sweep over tau, in LaTeX."""
    scores, _ = study(2, 3)
    rows = [
        estimate("c_mean", 0.1, model=one["model"], split=one["split"], parameter=tau)
        for one in scores
        for tau in (0.5, 1.0, "inf")
    ]
    sweep = draw("tau_sweep", 2, 3, labels, scores=scores, estimates=rows)
    heatmap = draw("heatmap", 2, 3, labels, scores=scores)
    return [caption_latex(drawn.caption) for drawn in (heatmap, sweep)]


def test_captions_use_only_commands_of_latex_or_of_the_preamble() -> None:
    defined = set(re.findall(r"\\def\\([a-z]+)", captions_preamble()))
    for text in drawn_captions(FOREIGN):
        comment, caption = text.split("\n", 1)
        assert comment == r"% Needs \input{captions_preamble} before \begin{document}."
        used = set(re.findall(r"\\([A-Za-z]+)", caption))
        assert used <= STANDARD | defined and used & defined


def test_captions_with_plain_labels_need_no_preamble() -> None:
    heatmap, sweep = drawn_captions(None)
    assert heatmap.startswith(r"\textbf{") and sweep.startswith(r"\textbf{")
    assert r"at $\infty$ all answers weigh the same" in sweep and r"\scripttext" not in sweep


def test_signs_that_our_own_words_hold_are_printed_by_every_latex() -> None:
    assert definitions(latex_escaped("\u221e \u2265 \u2264 \u00b1 \u00d7 \u03ba \u03c4 \u03bb \u2212 \u2020")) == ""
