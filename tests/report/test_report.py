"""Tables and the report in every form; published rows as printed."""

import csv
import dataclasses
import io
import math
import re

import pytest

from shadowmaskformer.evaluate import PROTOCOLS, EvaluationSet, Input, MaskSource, RemoverMethod, evaluate, published
from shadowmaskformer.report import evaluation as evaluation_report
from shadowmaskformer.report.figures import Drawing
from shadowmaskformer.report.page import Illustration, Report, Section
from shadowmaskformer.report.results import NO_MASK, results_table
from shadowmaskformer.report.tables import Column, Row, Table


@pytest.fixture
def table() -> Table:
    columns = [Column("Method"), Column("S", group="MAE", best="low"), Column("All", group="PSNR", best="high")]
    rows = [
        Row(["Input", 30.0, 20.0], contends=False),
        Row(["A & B_1", 6.123, 31.0], ours=False),
        Row(["<ours>", 6.12, math.nan]),
    ]
    return Table("demo", "A title", "100 % of it.", columns, rows)


def test_best_is_bold_ties_as_printed_and_input_never(table):
    lines = table.markdown().splitlines()
    assert "| Input | 30.00 | 20.00 |" in lines
    assert "| A & B_1 | **6.12** | 31.00 |" in lines
    assert "| <ours> | **6.12** | – |" in lines


def test_latex_is_booktabs_with_groups_and_escapes(table):
    text = table.latex()
    assert r"A \& B\_1 & \textbf{6.12} & 31.00 \\" in text
    assert r"\multicolumn{1}{c}{MAE}" in text
    assert r"\toprule" in text
    assert r"100 \% of it." in text
    for line in text.splitlines():
        if line.endswith(r"\\"):
            assert len(re.findall(r"(?<!\\)&", line)) == 2


def test_csv_holds_full_numbers(table):
    rows = list(csv.reader(io.StringIO(table.csv())))
    assert rows[0] == ["Method", "MAE S", "PSNR All", "measured here"]
    assert rows[2] == ["A & B_1", "6.123", "31.0", "no"]
    assert rows[3][2] == ""


def test_html_escapes_and_shades_ours(table):
    text = table.html()
    assert "&lt;ours&gt;" in text
    assert text.count("class=ours") == 2


def test_text_aligns_columns(table):
    lines = table.text().splitlines()
    assert lines[1].index("MAE S") + len("MAE S") == lines[3].index("30.00") + len("30.00")


def test_report_page_needs_no_other_file(table, tmp_path):
    report = Report(
        "T",
        "Abstract.",
        {"Data": "x"},
        [Section("One", ["p"], [table, Illustration("f", "A. b", Drawing(b"png", "png", 9))])],
    )
    page = report.write(tmp_path)
    text = page.read_text()
    assert not re.search(r'(src|href)="(?!data:|#)', text)
    assert {p.name for p in (tmp_path / "tables").iterdir()} == {"demo.md", "demo.csv", "demo.tex"}
    assert (tmp_path / "figures" / "f.png").exists()


def test_evaluation_report_shows_pictures_and_fingerprint(istd, tmp_path):
    pytest.importorskip("matplotlib")
    test, masks = EvaluationSet.open(istd), MaskSource("dataset")
    methods = [Input(), RemoverMethod(None)]
    found = evaluate(test, methods, [PROTOCOLS["istd-256"], PROTOCOLS["istd-full"]], masks, tmp_path)
    page = evaluation_report.build(found, methods, masks, seconds=1).write(tmp_path).read_text()
    assert test.fingerprint in page
    assert page.count("data:image/") >= 5
    assert "ShadowMaskFormer" in page


def test_regions_are_those_of_given_masks_only_where_they_are(istd, tmp_path):
    pytest.importorskip("matplotlib")
    test = EvaluationSet.open(istd, limit=1)
    said: list[str] = []
    for name in ("dataset", str(istd / "test" / "test_B")):
        masks = MaskSource(name)
        found = evaluate(test, [Input()], [PROTOCOLS["istd-256"]], masks, tmp_path / "out", workers=0)
        said.append(evaluation_report.build(found, [Input()], masks).facts["Masks"])
    assert said == [
        "dataset; methods get them, and S / NS are their regions",
        "folder test_B, regions from the data set",
    ]


def test_a_method_that_is_published_twice_names_its_sources(istd, tmp_path):
    test = dataclasses.replace(EvaluationSet.open(istd), dataset="istd+")
    protocol = PROTOCOLS["istd-256"]
    found = evaluate(test, [Input()], [protocol], MaskSource("dataset"), tmp_path / "out", workers=0)
    names = [str(row.cells[0]) for row in results_table(found, protocol).rows if not row.ours]
    assert len(set(names)) == len(names)
    assert "ShadowFormer (RASM's table, ISTD+ 256×256)" in names
    assert "ShadowMaskFormer" in names


def test_the_published_input_was_given_no_mask():
    assert {row.mask for row in published.load() if row.method == "Input"} == {NO_MASK}


def test_published_rows_name_known_protocols_and_sources():
    for row in published.load():
        assert row.source
        assert row.protocol in PROTOCOLS or row.protocol == "hu-survey-512"
        assert row.dataset in ("istd", "istd+", "srd")


def test_published_all_lies_between_s_and_ns_unless_marked():
    for row in published.load():
        shadow, lit, everything = row.error
        if math.isfinite(shadow) and not row.note.startswith(("cannot be", "S, NS")):
            assert min(shadow, lit) <= everything <= max(shadow, lit), row
