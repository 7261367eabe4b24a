"""One table, five ways to print it: terminal, Markdown, CSV, LaTeX (booktabs) and HTML."""

from __future__ import annotations

import csv
import html
import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Literal

Cell = str | float

NOT_AVAILABLE = "–"


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        title: its head.
        group: a head above it, shared with its neighbours of the same group; empty for none.
        digits: decimals of a number.
        best: whether low or high is good; the best number is set bold. None marks nothing.
    """

    title: str
    group: str = ""
    digits: int = 2
    best: Literal["low", "high"] | None = None

    @property
    def key(self) -> str:
        """Group and title in one line, for CSV and the terminal."""
        return f"{self.group} {self.title}".strip()


@dataclass(frozen=True)
class Row:
    """One line: cells, and whether we measured it (`ours`) or copied it from print."""

    cells: Sequence[Cell]
    ours: bool = True
    contends: bool = True
    """Whether it may be the best: the untouched input may not."""


@dataclass
class Table:
    """Rows under heads, with what a reader needs to know about them.

    Attributes:
        key: file name without suffix.
        title: one line.
        caption: protocol, data, mask source and what to know.
        columns: heads.
        rows: lines.
    """

    key: str
    title: str
    caption: str
    columns: Sequence[Column]
    rows: list[Row] = field(default_factory=list)

    def text(self) -> str:
        """Return aligned columns, for a terminal."""
        lines = [[column.key for column in self.columns]]
        lines += [[self._shown(i, cell) for i, cell in enumerate(row.cells)] for row in self.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.columns))]
        aligned = [
            "  ".join(
                cell.ljust(width) if self._is_text(i) else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        ]
        return "\n".join([self.title, aligned[0], "-" * max(map(len, aligned)), *aligned[1:], self.caption])

    def markdown(self) -> str:
        """Return GitHub Markdown, the best numbers bold."""
        best = self._best()
        lines = [f"### {self.title}", ""]
        lines.append("| " + " | ".join(_markdown(column.key) for column in self.columns) + " |")
        lines.append("|" + "|".join("---" if self._is_text(i) else "--:" for i in range(len(self.columns))) + "|")
        for r, row in enumerate(self.rows):
            cells = [_markdown(self._shown(i, cell)) for i, cell in enumerate(row.cells)]
            cells = [f"**{cell}**" if (r, i) in best else cell for i, cell in enumerate(cells)]
            lines.append("| " + " | ".join(cells) + " |")
        return "\n".join([*lines, "", self.caption, ""])

    def csv(self) -> str:
        """Return comma-separated values, numbers in full."""
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow([column.key for column in self.columns] + ["measured here"])
        for row in self.rows:
            cells = ["" if isinstance(c, float) and math.isnan(c) else c for c in row.cells]
            writer.writerow([*cells, "yes" if row.ours else "no"])
        return stream.getvalue()

    def latex(self) -> str:
        """Return a `table` for LaTeX with booktabs, the best numbers bold."""
        best = self._best()
        layout = "".join("l" if self._is_text(i) else "r" for i in range(len(self.columns)))
        lines = [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{_latex(self.title)}. {_latex(self.caption)}}}",
        ]
        lines += [rf"\label{{tab:{self.key}}}", rf"\begin{{tabular}}{{{layout}}}", r"\toprule"]
        if any(column.group for column in self.columns):
            heads, rules, start = [], [], 1
            for group, members in groupby(self.columns, key=lambda column: column.group):
                span = len(list(members))
                heads.append(rf"\multicolumn{{{span}}}{{c}}{{{_latex(group)}}}" if group else "&" * (span - 1))
                if group:
                    rules.append(rf"\cmidrule(lr){{{start}-{start + span - 1}}}")
                start += span
            lines += [" & ".join(heads) + r" \\", " ".join(rules)]
        lines += [" & ".join(_latex(column.title) for column in self.columns) + r" \\", r"\midrule"]
        for r, row in enumerate(self.rows):
            cells = [_latex(self._shown(i, cell)) for i, cell in enumerate(row.cells)]
            cells = [rf"\textbf{{{cell}}}" if (r, i) in best else cell for i, cell in enumerate(cells)]
            lines.append(" & ".join(cells) + r" \\")
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])

    def html(self) -> str:
        """Return a `<figure>` with a `<table>`; beside published rows, measured ones have the class `ours`."""
        best = self._best()
        mixed = any(not row.ours for row in self.rows)
        lines = [
            f'<figure class="table" id="{html.escape(self.key)}">',
            '<div class="scroll"><table>',
            "<thead>",
        ]
        if any(column.group for column in self.columns):
            groups = [(group, len(list(members))) for group, members in groupby(self.columns, key=lambda c: c.group)]
            heads = "".join(
                f'<th colspan="{span}" class="group">{html.escape(group)}</th>' if group else "<td></td>" * span
                for group, span in groups
            )
            lines.append(f"<tr>{heads}</tr>")
        cells = "".join(
            f'<th scope="col"{"" if self._is_text(i) else " class=number"}>{html.escape(column.title)}</th>'
            for i, column in enumerate(self.columns)
        )
        lines += [f"<tr>{cells}</tr>", "</thead>", "<tbody>"]
        for r, row in enumerate(self.rows):
            shown = [html.escape(self._shown(i, cell)) for i, cell in enumerate(row.cells)]
            shown = [f"<b>{cell}</b>" if (r, i) in best else cell for i, cell in enumerate(shown)]
            cells = "".join(
                f"<td{'' if self._is_text(i) else ' class=number'}>{cell}</td>" for i, cell in enumerate(shown)
            )
            lines.append(f"<tr{' class=ours' if row.ours and mixed else ''}>{cells}</tr>")
        caption = f"<b>{html.escape(self.title)}.</b> {html.escape(self.caption)}"
        return "\n".join([*lines, "</tbody></table></div>", f"<figcaption>{caption}</figcaption>", "</figure>"])

    def _is_text(self, column: int) -> bool:
        return all(isinstance(row.cells[column], str) for row in self.rows)

    def _shown(self, column: int, cell: Cell) -> str:
        if isinstance(cell, str):
            return cell
        if math.isnan(cell):
            return NOT_AVAILABLE
        return "∞" if math.isinf(cell) else f"{cell:.{self.columns[column].digits}f}"

    def _best(self) -> set[tuple[int, int]]:
        """Return (row, column) of the best numbers; numbers that print alike are tied."""
        marked: set[tuple[int, int]] = set()
        for i, column in enumerate(self.columns):
            numbers = {
                r: round(cell, column.digits)
                for r, row in enumerate(self.rows)
                if row.contends and isinstance(cell := row.cells[i], float) and math.isfinite(cell)
            }
            if column.best and len(numbers) > 1:
                target = min(numbers.values()) if column.best == "low" else max(numbers.values())
                marked |= {(r, i) for r, number in numbers.items() if number == target}
        return marked


def _markdown(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


_LATEX = {
    "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}", "\\": r"\textbackslash{}", "×": r"$\times$", "–": "--", "→": r"$\to$", "∞": r"$\infty$",
    "±": r"$\pm$", "…": r"\dots{}", "Δ": r"$\Delta$", "≥": r"$\ge$", "≤": r"$\le$", "<": r"$<$", ">": r"$>$",
    "·": r"$\cdot$", "°": r"$^\circ$", "←": r"$\leftarrow$", "↓": r"$\downarrow$", "↑": r"$\uparrow$",
}  # fmt: skip


def _latex(text: str) -> str:
    """Escape text for LaTeX.

    >>> _latex("100 % of a_b")
    '100 \\\\% of a\\\\_b'
    """
    return re.sub("|".join(map(re.escape, _LATEX)), lambda match: _LATEX[match[0]], text)
