"""Scoring under named protocols."""

from shadowmaskformer.evaluate.as_used import MaskChange
from shadowmaskformer.evaluate.evaluation import ALL, UNSEEN, Evaluation, EvaluationSet, evaluate
from shadowmaskformer.evaluate.methods import (
    EvaluationPicture,
    Input,
    MaskSource,
    Predictions,
    RemoverMethod,
    ScoredMethod,
)
from shadowmaskformer.evaluate.protocols import PROTOCOLS, PictureScores, Protocol, Reference, ResultKind, protocols
from shadowmaskformer.evaluate.summary import Estimate, Summary, summarise

__all__ = [
    "ALL",
    "PROTOCOLS",
    "UNSEEN",
    "Estimate",
    "Evaluation",
    "EvaluationPicture",
    "EvaluationSet",
    "Input",
    "MaskChange",
    "MaskSource",
    "PictureScores",
    "Predictions",
    "Protocol",
    "Reference",
    "RemoverMethod",
    "ResultKind",
    "ScoredMethod",
    "Summary",
    "evaluate",
    "protocols",
    "summarise",
]
