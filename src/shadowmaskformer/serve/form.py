"""What comes in: a form of files and fields, read by hand so that every part of it is counted and known."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Annotated, Any, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request

from shadowmaskformer.detect.hints import Hint
from shadowmaskformer.errors import ConfigError, RequestError
from shadowmaskformer.removal.options import Options, complete
from shadowmaskformer.serve.limits import Limits

OPTIONS = {name: kind for name, kind in get_type_hints(Options).items() if name != "max_pixels"}
"""The options of a removal that a request may set, and their types."""
READING = ("frame",)
MARKING = ("frame", "invert_mask", "exact_mask")
"""Those of them that count when a photo is only read, and when its shadow is only marked."""

SPARE = 4
"""How many parts more than it knows a form may have before it is malformed: so few are read, and refused by name."""

_MULTIPART = "multipart/form-data"
_CLICK = '[{"points": [[512, 380]]}]'
_MEANINGS = {
    name: " ".join(text.split())
    for name, text in re.findall(r"^ {8}(\w+): (.+(?:\n {12}.+)*)", Options.__doc__ or "", re.MULTILINE)
}  # of the options, as their class describes them


class HintModel(BaseModel):
    """A click (one point), a stroke (several) or a box, in the pixels of the upright photo."""

    model_config = ConfigDict(extra="forbid")
    points: list[tuple[float, float]] | None = Field(None, min_length=1, max_length=2000)
    box: tuple[float, float, float, float] | None = Field(None, description="left, top, right, bottom")
    shadow: bool = Field(True, description="false: this is not shadow")

    def hint(self) -> Hint:
        """Return it as the library knows it."""
        if (self.points is None) == (self.box is None) or (self.box and not self.shadow):
            raise ConfigError("a hint has points, or a box around a shadow", "give one of them")
        return Hint.box(*self.box) if self.box else Hint.stroke(self.points or (), shadow=self.shadow)


_hints = TypeAdapter(Annotated[list[HintModel], Field(max_length=200)])
_kinds = {name: TypeAdapter(kind) for name, kind in OPTIONS.items()}


@dataclass(frozen=True)
class Form:
    """A request, read."""

    photo: bytes
    mask: bytes | None
    hints: list[Hint]
    options: Options

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return len(self.photo) + len(self.mask or b"")


class _Parser(MultiPartParser):
    spool_max_size = 1 << 40  # in memory: the bytes were counted, and the disk may be read-only


async def read_form(request: Request, limits: Limits, options: Collection[str] = tuple(OPTIONS)) -> Form:
    """Read the form of a request that may set `options`; with `READING` there is neither mask nor hints.

    Raises:
        RequestError: not a form, or parts that are missing, unknown or repeated.
        ConfigError: an option of the wrong kind or out of its range.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _MULTIPART:
        raise RequestError("the request is not a form", f"send {_MULTIPART} with a part `photo`", status=415)
    fields = options if options is READING else ("hints", *options)
    files = ("photo",) if options is READING else ("photo", "mask")
    parser = _Parser(
        request.headers,
        request.stream(),
        max_files=len(files) + SPARE,
        max_fields=len(fields) + SPARE,
        max_part_size=limits.field_bytes,
    )
    try:
        form = await parser.parse()
    except ClientDisconnect as error:
        raise RequestError("the client left before the form was whole", status=400) from error
    except (MultiPartException, ValueError) as error:
        raise RequestError(f"the form is malformed ({error})", status=400) from error
    texts: dict[str, str] = {}
    data: dict[str, bytes] = {}
    try:
        for name, value in form.multi_items():
            kind, wanted = ("file", files) if isinstance(value, UploadFile) else ("field", fields)
            if name in (files if kind == "field" else fields):
                other, value = ("file", "@FILE") if kind == "field" else ("text", "VALUE")
                remedy = f"send it as a {other}; with curl: -F {name}={value}"
                raise RequestError(f"{name!r} came as a {kind}", remedy, status=422)
            if name not in wanted:
                remedy = f"the {kind}s are {', '.join(wanted)}"
                raise RequestError(f"{name!r} is no {kind} of this form", remedy, status=422)
            if name in texts or name in data:
                raise RequestError(f"{name!r} is given twice", status=422)
            if isinstance(value, UploadFile):
                data[name] = await value.read()
            else:
                texts[name] = value
    finally:
        await form.close()
    if "photo" not in data:
        raise RequestError("the part `photo` is missing", "send the photo as a file of this name", status=422)
    hints = [each.hint() for each in _parsed("hints", _hints.validate_json, texts.pop("hints", "[]"))]
    given = {name: _parsed(name, _kinds[name].validate_python, text) for name, text in texts.items()}
    chosen: Options = {**given, "max_pixels": limits.pixels}  # type: ignore[typeddict-item]
    complete(chosen)
    return Form(data["photo"], data.get("mask"), hints, chosen)


def _parsed(name: str, validate: Callable[[Any], Any], text: str) -> Any:
    try:
        return validate(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = "".join(f"[{part!r}]" for part in first["loc"])
        given = text if first["type"] == "json_invalid" else first["input"]
        raise ConfigError(f"{name}{where} is {str(given)[:40]!r}", _remedy(name)) from error


def _remedy(name: str) -> str:
    if name == "hints":
        return "give a list in JSON, each with points or box, and perhaps shadow"
    schema = _kinds[name].json_schema()
    kind = next(each["type"] for each in schema.get("anyOf", [schema]) if each["type"] != "null")
    return {"number": "give a number", "integer": "give a whole number", "boolean": "give true or false"}[kind]


def documented(options: Collection[str] = tuple(OPTIONS)) -> dict[str, Any]:
    """Return the form that `read_form` reads as the OpenAPI document describes it."""
    properties: dict[str, Any] = {"photo": {"type": "string", "format": "binary", "description": "a picture file"}}
    if options is not READING:
        hints = _hints.json_schema()
        hints["items"] = hints.pop("$defs")["HintModel"]  # a reference would lead out of the document
        properties["mask"] = {
            "type": "string", "format": "binary",
            "description": "a picture file of the photo's shape, white = shadow; without it the shadow is found",
        }  # fmt: skip
        properties["hints"] = {
            "type": "string", "contentMediaType": "application/json", "contentSchema": hints,
            "description": "clicks, strokes and boxes, as JSON", "example": _CLICK,
        }  # fmt: skip
    properties |= {name: {**_kinds[name].json_schema(), "description": _MEANINGS.get(name, "")} for name in options}
    examples = {
        "a mask": {"value": {"photo": "@beach.jpg", "mask": "@mask.png"}},
        "a click": {"value": {"photo": "@beach.jpg", "hints": _CLICK}},
    }
    form = {
        "schema": {"type": "object", "properties": properties, "required": ["photo"], "additionalProperties": False},
        "examples": {"a photo": {"value": {"photo": "@beach.tif"}}} if options is READING else examples,
    }
    return {"requestBody": {"required": True, "content": {_MULTIPART: form}}}
