"""Scoring under named protocols."""

from shadowmaskformer.evaluate.evaluation import (
    ALL,
    UNSEEN,
    Evaluation,
    EvaluationSet,
    evaluate,
)
from shadowmaskformer.evaluate.methods import Input, MaskSource, Method, Predictions, RemoverMethod, Sample
from shadowmaskformer.evaluate.protocols import PROTOCOLS, Measurement, Protocol, Reference, protocols
from shadowmaskformer.evaluate.summary import Estimate, Summary, summarise

__all__ = [
    "ALL",
    "PROTOCOLS",
    "UNSEEN",
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
    "Sample",
    "Summary",
    "evaluate",
    "protocols",
    "summarise",
]
