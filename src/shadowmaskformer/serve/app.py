"""The routes: what can be asked for, and how it is answered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Request, Response
from fastapi import Path as PathParameter
from fastapi.responses import FileResponse, JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

import shadowmaskformer
from shadowmaskformer.batch import Worker
from shadowmaskformer.errors import RequestError, ShadowMaskFormerError
from shadowmaskformer.photo import FORMATS
from shadowmaskformer.serve import tasks
from shadowmaskformer.serve.form import MARKING, OPTIONS, READING, documented, read_form
from shadowmaskformer.serve.limits import WITH_TOKEN, Limits, error_headers, problem
from shadowmaskformer.serve.metrics import CONTENT_TYPE, Metrics
from shadowmaskformer.serve.queue import Job, Queue, State

PAGE = Path(__file__).parent / "page"
EXAMPLE = Path(shadowmaskformer.__file__).parent / "assets" / "demo-photo.jpg"
FACTS = "Shadowmaskformer-Facts"
"""The header with what there is to say about an answer, as JSON."""

JobId = Annotated[str, PathParameter(examples=["0f9e8d7c6b5a49382716051423324150"])]

_MEDIA_TYPES = {".css": "text/css", ".html": "text/html", ".js": "text/javascript", ".svg": "image/svg+xml"}
_STATUSES: dict[int | str, str] = {
    400: "malformed, or for another host", 401: "no token, or a wrong one", 403: "from another page",
    408: "arrives too slowly", 413: "too many bytes or pixels", 415: "not a picture of a known format, or no form",
    422: "cannot be used", 429: "more than your share", 503: "busy, short of memory or stopping",
}  # fmt: skip


class ErrorModel(BaseModel):
    """What was found, and what to do about it."""

    type: str
    message: str


class Problem(BaseModel):
    """Why a request was not served."""

    error: ErrorModel


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
    progress: float = Field(description="share of the work that is done, 0 to 1, as the worker counts it")
    place: int = Field(description="jobs before this one")
    error: ErrorModel | None = Field(None, description="why it failed, as the result would say")


class Health(BaseModel):
    """The server answers."""

    status: Literal["ok"] = "ok"


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
    _handle_errors(app)
    app.state.metrics, app.state.queue = metrics, queue

    async def submit(
        request: Request,
        task: str,
        function: Callable[..., tasks.Answer],
        options: Collection[str] = tuple(OPTIONS),
        *,
        kept: bool = False,
    ) -> Job:
        form = await read_form(request, limits, options)
        client = request.client.host if request.client else ""
        arguments = (form.photo, form.mask, form.hints, form.options)
        job = Job(task, client, function, arguments, form.size, kept=kept)
        await queue.submit(job)
        return job

    async def answer(
        request: Request,
        task: str,
        function: Callable[..., tasks.Answer],
        options: Collection[str] = tuple(OPTIONS),
    ) -> Response:
        job = await submit(request, task, function, options)
        await _finish(request, queue, job)
        return _response(job)

    @app.post("/v1/remove", **_documented("the photo without its shadow, in its own format", "image/*"))
    async def remove(request: Request) -> Response:
        """Remove the shadow from a photo. Without a mask the shadows are found first."""
        return await answer(request, "remove", tasks.remove)

    @app.post("/v1/mask", **_documented("the shadows, a gray PNG of the photo's shape", "image/png", MARKING))
    async def mask(request: Request) -> Response:
        """Find the shadows of a photo, led by hints and by the mask so far."""
        return await answer(request, "mask", tasks.find_mask, MARKING)

    @app.post(
        "/v1/correction",
        **_documented("float16, little-endian, (height, width, 8)", "application/octet-stream"),
    )
    async def correction(request: Request) -> Response:
        """Say how the light changes, small, for a live preview.

        The planes are gain r g b, mask, offset r g b, weight; `x + weight * (clamp(gain * x + offset) - x)` is the
        photo without its shadow. Width and height are in the facts.
        """
        return await answer(request, "correction", tasks.correction)

    @app.post("/v1/preview", **_documented("a JPEG to look at", "image/jpeg", READING))
    async def preview(request: Request) -> Response:
        """Show a photo in a format that every browser reads."""
        return await answer(request, "preview", tasks.preview, READING)

    @app.post("/v1/jobs", status_code=202, **_documented(None, None), response_model=JobModel)
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
        """Cancel a job, or forget the result of one that is done."""
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

    @app.head("/healthz", include_in_schema=False)
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

    for file in sorted(PAGE.iterdir()):
        _add_file(app, file)
    _document_token(app)
    return app


def _add_file(app: FastAPI, file: Path) -> None:
    """Serve one file of the page: by its exact name, so that no path leads elsewhere."""

    async def serve() -> FileResponse:
        # Asked for anew each time: the files change with the package.
        return FileResponse(file, media_type=_MEDIA_TYPES[file.suffix], headers={"Cache-Control": "no-cache"})

    for path in (f"/{file.name}", *(["/"] if file.name == "index.html" else [])):
        app.add_api_route(path, serve, include_in_schema=False)


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
    error = ErrorModel(**problem(job.error)["error"]) if job.error else None
    return JobModel(id=job.id, state=job.state, progress=round(job.progress, 3), place=queue.place(job), error=error)


def _handle_errors(app: FastAPI) -> None:
    def answer(request: Request, error: Exception) -> Response:
        headers: dict[str, str] = {}
        if isinstance(error, HTTPException):
            headers.update(error.headers or {})  # such as Allow
            error = RequestError(str(error.detail).lower(), status=error.status_code)
        if not isinstance(error, ShadowMaskFormerError):
            error = RequestError("the server made a mistake", "report it with what you sent", status=500)
        return JSONResponse(problem(error), error.http_status, headers | error_headers(error))

    for kind in (ShadowMaskFormerError, HTTPException, Exception):
        app.add_exception_handler(kind, answer)


def _document_token(app: FastAPI) -> None:
    """Say in the OpenAPI document which requests bring the token; FastAPI does not know the guard that asks for it."""
    plain, meaning = app.openapi, "the server's token, if it was started with one"

    def openapi() -> dict[str, Any]:
        document = plain()
        scheme = {"type": "http", "scheme": "bearer", "description": meaning}
        document["components"]["securitySchemes"] = {"token": scheme}
        for path, operations in document["paths"].items():
            for operation in operations.values() if path.startswith(WITH_TOKEN) else ():
                operation["security"] = [{"token": []}, {}]  # the empty one: a server without a token asks for none
        return document

    app.openapi = openapi  # made when it is first asked for, as FastAPI's own


def _responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    texts = {**_STATUSES, 404: "unknown", 409: "not done, or cancelled"}
    return {status: {"model": Problem, "description": texts[status]} for status in statuses}


def _documented(what: str | None, media_type: str | None, options: Collection[str] = tuple(OPTIONS)) -> dict[str, Any]:
    """Return the part of the OpenAPI document that FastAPI cannot derive: forms and answers are bytes."""
    responses = _responses(*(int(status) for status in _STATUSES))
    found: dict[str, Any] = {"responses": responses, "openapi_extra": documented(options)}
    if what is not None and media_type is not None:
        found["response_class"] = Response
        responses[200] = {
            "description": what,
            "content": {media_type: {"schema": {"type": "string", "format": "binary"}}},
            "headers": {FACTS: {"description": "size, warnings and more, as JSON", "schema": {"type": "string"}}},
        }
    return found
