"""The files of figures: whole, embedded fonts, no dates, the same bytes for the same data."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest
from figure_checks import plot, score, study

from refusal_eval.plots.captions import caption_latex, caption_markdown
from refusal_eval.plots.heatmap import rate_heatmap
from refusal_eval.plots.histograms import c_histograms
from refusal_eval.plots.plot import Caption
from refusal_eval.style import save_figure


def test_files(tmp_path: Path) -> None:
    scores, votes = study(2, 3)
    stem = tmp_path / "new" / "c.histograms"
    paths = save_figure(c_histograms(scores, votes, 0.1, [], plot("histograms")).figure, stem)
    assert [path.name for path in paths] == ["c.histograms.pdf", "c.histograms.svg", "c.histograms.png"]
    assert sorted(os.listdir(stem.parent)) == sorted(path.name for path in paths)
    pdf, svg, png = (path.read_bytes() for path in paths)
    # Every font is in the file, as TrueType.
    assert len(re.findall(rb"/FontDescriptor \d+", pdf)) == len(re.findall(rb"/FontFile2 \d+", pdf)) > 0
    assert b"/Type3" not in pdf and b"CreationDate" not in pdf
    assert b"<image" not in svg and b"dc:date" not in svg
    # 8.5 cm at 300 dpi
    assert int.from_bytes(png[16:20], "big") == int(8.5 / 2.54 * 300) and b"tEXtSoftware" not in png


@pytest.mark.skipif(shutil.which("pdffonts") is None, reason="needs poppler-utils")
def test_pdffonts_finds_every_font_embedded(tmp_path: Path) -> None:
    scores, _ = study(2, 3)
    pdf = save_figure(rate_heatmap(scores, [], plot("heatmap")).figure, tmp_path / "h")[0]
    lines = subprocess.run(["pdffonts", pdf], capture_output=True, text=True, check=True).stdout.splitlines()[2:]
    assert lines and all("TrueType" in line and re.search(r"\byes\s+(yes|no)\s+(yes|no)\s+\d", line) for line in lines)


def test_same_data_same_bytes(tmp_path: Path) -> None:
    script = tmp_path / "draw.py"
    script.write_text(
        "import random, sys\n"
        "from test_plots_files import study, plot, rate_heatmap, c_histograms, save_figure\n"
        "scores, votes = study(2, 3)\n"
        "random.Random(sys.argv[2]).shuffle(scores)\n"
        "save_figure(rate_heatmap(scores, [], plot('h')).figure, sys.argv[1] + '/heat')\n"
        "votes = dict(reversed(votes.items()))\n"
        "save_figure(c_histograms(scores, votes, 0.1, [], plot('h')).figure, sys.argv[1] + '/hist')\n"
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
    plain = save_figure(rate_heatmap(scores, [], plot("h")).figure, tmp_path / "plain")
    with mpl.rc_context({"font.size": 20, "axes.linewidth": 5, "savefig.bbox": "tight", "axes.grid": True}):
        other = save_figure(rate_heatmap(scores, [], plot("h")).figure, tmp_path / "other")
    assert [path.read_bytes() for path in plain] == [path.read_bytes() for path in other]


def test_a_failed_figure_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fig = rate_heatmap([score("a", "safe", 0.5)], [], plot("h", models=["a"], splits=["safe"])).figure

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
