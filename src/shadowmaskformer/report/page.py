"""The report: one self-contained HTML page, and each table as Markdown, CSV and LaTeX."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from shadowmaskformer.errors import OutputError
from shadowmaskformer.report.figures import DPI, Drawing
from shadowmaskformer.report.tables import Table


@dataclass(frozen=True)
class Illustration:
    """A drawing with a caption."""

    key: str
    caption: str
    drawing: Drawing

    @property
    def file_name(self) -> str:
        """Its name in the folder `figures`."""
        return f"{self.key}.{'png' if self.drawing.kind == 'png' else 'jpg'}"

    def html(self) -> str:
        """Return a `<figure>` with the picture inlined."""
        data = base64.b64encode(self.drawing.data).decode("ascii")
        title, _, rest = self.caption.partition(". ")
        caption = f"<b>{html.escape(title)}.</b> {html.escape(rest)}"
        # At 96 CSS pixels an inch, text in all figures has one size.
        width = round(self.drawing.width * 96 / DPI)
        source = f"data:image/{self.drawing.kind};base64,{data}"
        image = f'<img width="{width}" src="{source}" alt="{html.escape(self.caption)}">'
        return f'<figure id="{html.escape(self.key)}">{image}<figcaption>{caption}</figcaption></figure>'


@dataclass
class Section:
    """A heading, paragraphs, then tables and figures in order."""

    title: str
    paragraphs: Sequence[str] = ()
    content: list[Table | Illustration] = field(default_factory=list)


@dataclass
class Report:
    """Everything that goes to print.

    Attributes:
        title: the page's.
        abstract: the result in two or three sentences.
        facts: name and value: data, fingerprint, mask source, versions.
        sections: in order.
    """

    title: str
    abstract: str
    facts: dict[str, str]
    sections: list[Section] = field(default_factory=list)

    @property
    def tables(self) -> list[Table]:
        """All tables, in order."""
        return [item for section in self.sections for item in section.content if isinstance(item, Table)]

    def write(self, folder: Path) -> Path:
        """Write `index.html`, `report.md`, `tables/*.{md,csv,tex}` and `figures/*.{png,jpg}`; return the page."""
        try:
            for name in ("tables", "figures"):
                (folder / name).mkdir(parents=True, exist_ok=True)
            for table in self.tables:
                for suffix, text in (("md", table.markdown()), ("csv", table.csv()), ("tex", self._tex(table))):
                    (folder / "tables" / f"{table.key}.{suffix}").write_text(text, encoding="utf-8")
            for section in self.sections:
                for item in section.content:
                    if isinstance(item, Illustration):
                        (folder / "figures" / item.file_name).write_bytes(item.drawing.data)
            (folder / "report.md").write_text(self.markdown(), encoding="utf-8")
            page = folder / "index.html"
            page.write_text(self.html(), encoding="utf-8")
        except OSError as error:
            raise OutputError(
                f"cannot write the report to {folder}: {error.strerror}", "choose another {output}"
            ) from error
        return page

    def html(self) -> str:
        """Return the page."""
        style = (resources.files("shadowmaskformer.report") / "report.css").read_text(encoding="utf-8")
        contents = "".join(
            f'<li><a href="#s{number}">{html.escape(section.title)}</a></li>'
            for number, section in enumerate(self.sections, 1)
        )
        facts = "".join(f"<dt>{html.escape(k)}</dt><dd>{html.escape(v)}</dd>" for k, v in self.facts.items())
        body: list[str] = []
        for number, section in enumerate(self.sections, 1):
            body.append(f'<section id="s{number}"><h2><span>{number}</span>{html.escape(section.title)}</h2>')
            body += [f"<p>{html.escape(paragraph)}</p>" for paragraph in section.paragraphs]
            body += [item.html() for item in section.content]
            body.append("</section>")
        return "\n".join(
            [
                '<!doctype html><html lang="en"><head><meta charset="utf-8">',
                '<meta name="viewport" content="width=device-width, initial-scale=1">',
                f"<title>{html.escape(self.title)}</title><style>{style}</style></head><body><main>",
                f"<header><h1>{html.escape(self.title)}</h1>",
                f'<p class="abstract">{html.escape(self.abstract)}</p><dl>{facts}</dl>',
                f"<nav><ol>{contents}</ol></nav></header>",
                *body,
                "</main></body></html>\n",
            ]
        )

    def markdown(self) -> str:
        """Return the same in Markdown, pictures as links."""
        lines = [f"# {self.title}", "", self.abstract, ""]
        lines += [f"- {key}: {value}" for key, value in self.facts.items()]
        for section in self.sections:
            lines += ["", f"## {section.title}", ""]
            for paragraph in section.paragraphs:
                lines += [paragraph, ""]
            for item in section.content:
                if isinstance(item, Table):
                    lines.append(item.markdown())
                else:
                    lines += [f"![{item.caption}](figures/{item.file_name})", "", item.caption, ""]
        return "\n".join(lines) + "\n"

    def _tex(self, table: Table) -> str:
        facts = "\n".join(f"% {key}: {value}" for key, value in self.facts.items())
        return f"% needs \\usepackage{{booktabs}}\n{facts}\n{table.latex()}"
