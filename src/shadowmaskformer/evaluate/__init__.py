"""Scoring under named protocols, tables beside published results, figures, the report and the experiments."""

from shadowmaskformer.evaluate.evaluation import (
    ALL,
    UNSEEN,
    Evaluation,
    EvaluationSet,
    evaluate,
    extremes_table,
    interval_table,
    protocols_table,
    results_table,
)
from shadowmaskformer.evaluate.methods import Input, MaskSource, Method, Predictions, RemoverMethod, Sample
from shadowmaskformer.evaluate.protocols import PROTOCOLS, Measurement, Protocol, Reference, protocols
from shadowmaskformer.evaluate.summary import Estimate, Summary, summarise
from shadowmaskformer.evaluate.tables import Column, Row, Table

__all__ = [
    "ALL",
    "PROTOCOLS",
    "UNSEEN",
    "Column",
    "Estimate",
    "Evaluation",
    "EvaluationSet",
    "Input",
    "MaskSource",
    "Measurement",
    "Method",
    "Predictions",
    "Protocol",
    "Reference",
    "RemoverMethod",
    "Row",
    "Sample",
    "Summary",
    "Table",
    "evaluate",
    "extremes_table",
    "interval_table",
    "protocols",
    "protocols_table",
    "results_table",
    "summarise",
]
