"""The routes: what can be asked for, and how it is answered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

from fastapi import FastAPI, Request, Response
from fastapi import Path as PathParameter
from fastapi.responses import FileResponse, JSONResponse
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser

import shadowmaskformer
from shadowmaskformer.batch import Worker
from shadowmaskformer.detect import Hint
from shadowmaskformer.errors import ConfigError, RequestError, ShadowMaskFormerError
from shadowmaskformer.photo import FORMATS
from shadowmaskformer.removal.options import Options, complete
from shadowmaskformer.serve import tasks
from shadowmaskformer.serve.limits import Limits, error_headers, problem
from shadowmaskformer.serve.metrics import CONTENT_TYPE, Metrics
from shadowmaskformer.serve.queue import Job, Queue, State

PAGE = Path(__file__).parent / "page"
EXAMPLE = Path(shadowmaskformer.__file__).parent / "assets" / "demo-photo.jpg"
FACTS = "Shadowmaskformer-Facts"
"""The header with what there is to say about an answer, as JSON."""

OPTIONS = {name: kind for name, kind in get_type_hints(Options).items() if name != "max_pixels"}

JobId = Annotated[str, PathParameter(examples=["0f9e8d7c6b5a49382716051423324150"])]

_MULTIPART = "multipart/form-data"
_STATUSES: dict[int | str, str] = {
    400: "malformed, or for another host", 401: "no token, or a wrong one", 403: "from another page",
    408: "arrives too slowly", 413: "too many bytes or pixels", 415: "not a picture of a known format, or no form",
    422: "cannot be used", 429: "more than your share", 503: "busy or stopping",
}  # fmt: skip


class HintModel(BaseModel):
    """A click (one point), a stroke (several) or a box, in the pixels of the upright photo."""

    model_config = ConfigDict(extra="forbid")
    points: list[tuple[float, float]] | None = Field(None, min_length=1, max_length=2000)
    box: tuple[float, float, float, float] | None = Field(None, description="left, top, right, bottom")
    shadow: bool = Field(True, description="false: this is not shadow")

    def hint(self) -> Hint:
        """Return it as the library knows it."""
        if (self.points is None) == (self.box is None):
            raise ConfigError("a hint has points or a box", "give one of them")
        return Hint.box(*self.box) if self.box else Hint.stroke(self.points or (), shadow=self.shadow)


class Problem(BaseModel):
    """Why a request was not served."""

    class _Error(BaseModel):
        type: str
        message: str

    error: _Error


class Info(BaseModel):
    """What this server is."""

    version: str
    reads: list[str]
    writes: list[str]
    body_bytes: int
    pixels: int
    options: list[str]


class JobModel(BaseModel):
    """How far a job is."""

    id: str
    state: State
    progress: float = Field(description="0 to 1, estimated")
    place: int = Field(description="jobs before this one")
    error: str | None = None


class Health(BaseModel):
    """The server answers."""

    status: Literal["ok"] = "ok"


_hints = TypeAdapter(Annotated[list[HintModel], Field(max_length=200)])
_kinds = {name: TypeAdapter(kind) for name, kind in OPTIONS.items()}


def create_app(workers: list[Worker], limits: Limits | None = None) -> FastAPI:
    """Make the application.

    Args:
        workers: processes that do the work.
        limits: see `Limits`.
    """
    limits = limits or Limits()
    metrics = Metrics()
    queue = Queue(workers, limits, metrics)
    metrics.watch("jobs_waiting", "Jobs that wait.", lambda: queue.counts[0])
    metrics.watch("jobs_running", "Jobs that run.", lambda: queue.counts[1])

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        await queue.start()
        yield
        await queue.stop()

    app = FastAPI(
        title="shadowmaskformer",
        version=shadowmaskformer.__version__,
        summary="Remove cast shadows from photographs.",
        docs_url=None,  # these pages load scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
        redirect_slashes=False,
    )
    _handle_errors(app, metrics)

    async def submit(request: Request, task: str, function: Callable[..., tasks.Answer], *, kept: bool = False) -> Job:
        photo, rest, size = await _read_form(request, limits, only_photo=task == "preview")
        client = request.client.host if request.client else ""
        job = Job(task, client, function, (photo, *rest), size, kept=kept)
        await queue.submit(job)
        return job

    async def answer(request: Request, task: str, function: Callable[..., tasks.Answer]) -> Response:
        job = await submit(request, task, function)
        await _finish(request, queue, job)
        return _response(job)

    @app.post("/v1/remove", **_documented("remove", "the photo without its shadow, in its own format", "image/*"))
    async def remove(request: Request) -> Response:
        """Remove the shadow from a photo. Without a mask the shadows are found first."""
        return await answer(request, "remove", tasks.remove)

    @app.post("/v1/mask", **_documented("mask", "the shadows, a gray PNG of the photo's shape", "image/png"))
    async def mask(request: Request) -> Response:
        """Find the shadows of a photo, led by hints and by the mask so far."""
        return await answer(request, "mask", tasks.find_mask)

    @app.post(
        "/v1/correction",
        **_documented("correction", "float16, little-endian, (height, width, 8)", "application/octet-stream"),
    )
    async def correction(request: Request) -> Response:
        """Say how the light changes, small, for a live preview.

        The planes are gain r g b, mask, offset r g b, weight; `x + weight * (clamp(gain * x + offset) - x)` is the
        photo without its shadow. Width and height are in the facts.
        """
        return await answer(request, "correction", tasks.correction)

    @app.post("/v1/preview", **_documented("preview", "a JPEG to look at", "image/jpeg"))
    async def preview(request: Request) -> Response:
        """Show a photo in a format that every browser reads."""
        return await answer(request, "preview", tasks.preview)

    @app.post("/v1/jobs", status_code=202, **_documented("remove", None, None), response_model=JobModel)
    async def start_job(request: Request, response: Response) -> JobModel:
        """Remove the shadow from a photo, without waiting for it."""
        job = await submit(request, "remove", tasks.remove, kept=True)
        response.headers["Location"] = f"/v1/jobs/{job.id}"
        return _described(queue, job)

    unknown = {**_responses(401, 404, 422)}

    def known(id: str) -> Job:
        job = queue.find(id)
        if job is None:
            raise RequestError("there is no such job", "its result is kept for a short time only", status=404)
        return job

    @app.get("/v1/jobs/{id}", responses=unknown)
    async def job_state(id: JobId) -> JobModel:
        """Say how far a job is."""
        return _described(queue, known(id))

    @app.get(
        "/v1/jobs/{id}/result",
        response_class=Response,
        responses={**_responses(401, 404, 409, 413, 415, 422, 503), 200: {"content": {"image/*": {}}}},
    )
    async def job_result(id: JobId) -> Response:
        """Return the photo without its shadow, once the job is done."""
        return _response(known(id))

    @app.delete("/v1/jobs/{id}", responses={**unknown, **_responses(400, 403)})
    async def cancel_job(id: JobId) -> JobModel:
        """Cancel a job; one that has ended stays as it is."""
        job = known(id)
        queue.cancel(job)
        return _described(queue, job)

    @app.get("/v1/info", responses=_responses(401))
    async def info() -> Info:
        """Say what this server reads, writes and allows."""
        return Info(
            version=shadowmaskformer.__version__,
            reads=[format.label for format in FORMATS.values()],
            writes=[format.label for format in FORMATS.values() if format.encode],
            body_bytes=limits.body_bytes,
            pixels=limits.pixels,
            options=list(OPTIONS),
        )

    @app.get("/healthz")
    async def healthz() -> Health:
        """Say that the server is there."""
        return Health()

    @app.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}, **_responses(401)})
    async def figures() -> Response:
        """Return figures for Prometheus."""
        return Response(metrics.text(), media_type=CONTENT_TYPE)

    @app.get("/example.jpg", include_in_schema=False)
    async def example() -> FileResponse:
        return FileResponse(EXAMPLE, media_type="image/jpeg")

    app.mount("/", _Page(directory=PAGE, html=True))
    return app


class _Page(StaticFiles):
    """The page's files, always asked for anew: they change with the package."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers["Cache-Control"] = "no-cache"
        return response


class _Parser(MultiPartParser):
    spool_max_size = 1 << 40  # in memory: the bytes were counted, and the disk may be read-only


async def _read_form(
    request: Request, limits: Limits, *, only_photo: bool
) -> tuple[bytes, tuple[Any, ...], int]:
    """Return the photo, the other arguments of a task, and the number of bytes.

    Raises:
        RequestError: not a form, or parts that are missing, unknown or repeated.
        ConfigError: an option of the wrong kind or out of its range.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _MULTIPART:
        raise RequestError("the request is not a form", f"send {_MULTIPART} with a part `photo`", status=415)
    fields = ("frame",) if only_photo else ("hints", *OPTIONS)
    files = ("photo",) if only_photo else ("photo", "mask")
    parser = _Parser(
        request.headers,
        request.stream(),
        max_files=len(files),
        max_fields=len(fields),
        max_part_size=limits.field_bytes,
    )
    try:
        items = (await parser.parse()).multi_items()
    except (MultiPartException, ValueError) as error:
        raise RequestError(f"the form is malformed ({error})", status=400) from error
    texts: dict[str, str] = {}
    data: dict[str, bytes] = {}
    for name, value in items:
        wanted = fields if isinstance(value, str) else files
        if name not in wanted or name in texts or name in data:
            kind = "field" if isinstance(value, str) else "file"
            what = "given twice" if name in wanted else f"no {kind} of this form; the {kind}s are {', '.join(wanted)}"
            raise RequestError(f"{name!r} is {what}", status=422)
        if isinstance(value, str):
            texts[name] = value
        else:
            data[name] = await value.read()
            await value.close()
    if "photo" not in data:
        raise RequestError("the part `photo` is missing", "send the photo as a file of this name", status=422)
    hints = [each.hint() for each in _parsed("hints", _hints.validate_json, texts.pop("hints", "[]"))]
    given = {name: _parsed(name, _kinds[name].validate_python, text) for name, text in texts.items()}
    options: Options = {**given, "max_pixels": limits.pixels}  # type: ignore[typeddict-item]
    complete(options)
    size = sum(map(len, data.values()))
    return data["photo"], (options,) if only_photo else (data.get("mask"), hints, options), size


def _parsed(name: str, validate: Callable[[Any], Any], text: str) -> Any:
    try:
        return validate(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = "".join(f"[{part!r}]" for part in first["loc"])
        raise ConfigError(f"{name}{where} is {text[:40]!r}", first["msg"].replace("{", "(").replace("}", ")")) from error


async def _finish(request: Request, queue: Queue, job: Job) -> None:
    """Wait for a job; a client that leaves cancels it."""

    async def leave() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    waits = {asyncio.create_task(leave()), asyncio.create_task(job.finished.wait())}
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waits:
            each.cancel()
        queue.cancel(job)


def _response(job: Job) -> Response:
    """Return what a job has to show, or raise why it has nothing."""
    if job.error is not None:
        raise job.error
    if job.state == "cancelled":
        raise RequestError("the job was cancelled", status=409)
    if job.answer is None:
        raise RequestError("the job is not done yet", "ask for its state first", status=409)
    answer = job.answer
    headers = {FACTS: json.dumps(answer.facts), "Cache-Control": "no-store"}
    if "ending" in answer.facts:
        headers["Content-Disposition"] = f'attachment; filename="no-shadow{answer.facts["ending"]}"'
    return Response(answer.data, media_type=answer.media_type, headers=headers)


def _described(queue: Queue, job: Job) -> JobModel:
    error = job.error.said("http") if job.error else None
    return JobModel(
        id=job.id, state=job.state, progress=round(job.progress, 3), place=queue.place(job), error=error
    )


def _handle_errors(app: FastAPI, metrics: Metrics) -> None:
    def answer(request: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException):
            error = RequestError(str(error.detail).lower(), status=error.status_code)
        if not isinstance(error, ShadowMaskFormerError):
            error = RequestError("the server made a mistake", "report it with what you sent", status=500)
        return JSONResponse(problem(error), error.http_status, error_headers(error))

    for kind in (ShadowMaskFormerError, HTTPException, Exception):
        app.add_exception_handler(kind, answer)

    @app.middleware("http")
    async def count(request: Request, proceed: Callable[[Request], Any]) -> Response:
        response = await proceed(request)
        route = request.scope.get("route")
        metrics.answered(getattr(route, "path", "other"), response.status_code)
        return response


def _responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    texts = {**_STATUSES, 404: "unknown", 409: "not done, or cancelled"}
    return {status: {"model": Problem, "description": texts[status]} for status in statuses}


def _documented(task: str, what: str | None, media_type: str | None) -> dict[str, Any]:
    """Return the part of the OpenAPI document that FastAPI cannot derive: the form is read by hand."""
    properties: dict[str, Any] = {"photo": {"type": "string", "format": "binary", "description": "a picture file"}}
    if task != "preview":
        properties["mask"] = {
            "type": "string", "format": "binary",
            "description": "a picture file of the photo's shape, white = shadow; without it the shadow is found",
        }  # fmt: skip
        properties["hints"] = {
            "type": "string", "contentMediaType": "application/json", "contentSchema": _hints.json_schema(),
            "description": "clicks, strokes and boxes, as JSON", "example": '[{"points": [[512, 380]]}]',
        }  # fmt: skip
    names = OPTIONS if task != "preview" else ("frame",)
    properties |= {name: _kinds[name].json_schema() for name in names}
    examples = {
        "a mask": {"value": {"photo": "@beach.jpg", "mask": "@mask.png"}},
        "a click": {"value": {"photo": "@beach.jpg", "hints": '[{"points": [[512, 380]]}]'}},
    }
    form = {
        "schema": {
            "type": "object", "properties": properties, "required": ["photo"], "additionalProperties": False,
        },
        "examples": examples if task != "preview" else {"a photo": {"value": {"photo": "@beach.tif"}}},
    }  # fmt: skip
    responses = _responses(*(int(status) for status in _STATUSES))
    documented: dict[str, Any] = {
        "responses": responses, "openapi_extra": {"requestBody": {"required": True, "content": {_MULTIPART: form}}},
    }  # fmt: skip
    if what is not None and media_type is not None:
        documented["response_class"] = Response
        responses[200] = {
            "description": what,
            "content": {media_type: {"schema": {"type": "string", "format": "binary"}}},
            "headers": {FACTS: {"description": "size, warnings and more, as JSON", "schema": {"type": "string"}}},
        }
    return documented
