"""Open a page in the browser that removes shadows, and an API for programs.

Everything runs on this computer; nothing leaves it. Ctrl-C ends it.

examples:
  shadowmaskformer serve
      opens the page
  shadowmaskformer serve --no-browser --port 9000
      the API at http://localhost:9000/v1/, described by http://localhost:9000/openapi.json
  shadowmaskformer serve --host 0.0.0.0 --token SECRET
      for other computers too; each request must bring the token
"""

from __future__ import annotations

import argparse
import os

from shadowmaskformer.cli.mask import add_runtime

HELP = "a page in the browser, and an API"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this computer only)")
    parser.add_argument("--port", type=int, default=8430, help="default: 8430; 0 takes a free one")
    parser.add_argument(
        "--token",
        default=os.environ.get("SHADOWMASKFORMER_TOKEN"),
        help="secret that requests must bring; needed with another --host (default: $SHADOWMASKFORMER_TOKEN)",
    )
    parser.add_argument("--workers", type=int, metavar="N", help="photos at a time (default: 2)")
    parser.add_argument("--no-browser", action="store_true", help="do not open the page")
    parser.add_argument("--weights", help="shipped name, folder, hf:owner/name, .onnx or .xml file (default: default)")
    add_runtime(parser)


def run(args: argparse.Namespace) -> int:
    import contextlib
    import threading
    import webbrowser
    from urllib.parse import quote

    from shadowmaskformer.cli.console import EXIT_OK
    from shadowmaskformer.errors import MissingExtraError
    from shadowmaskformer.removal.remover import ShadowRemover

    try:
        from shadowmaskformer.serve.server import Server
    except ImportError as error:
        if isinstance(error, MissingExtraError) or (error.name or "").startswith("shadowmaskformer"):
            raise
        raise MissingExtraError(f"serving needs {error.name}", "pip install 'shadowmaskformer[serve]'") from error
    remover = {"weights": args.weights, "runtime": args.runtime, "device": args.device}
    ShadowRemover(**remover, threads=1)  # says what is wrong with it before anything listens
    server = Server(host=args.host, port=args.port, token=args.token, workers=args.workers, **remover)
    secret = f"#token={quote(args.token, safe='')}" if args.token else ""
    page = f"{server.url}/{secret}"
    print(f"shadowmaskformer is at {page}  (Ctrl-C ends it)", flush=True)
    if others := server.url_for_others:
        print(f"from other computers and phones: {others}/{secret}", flush=True)
    if not args.no_browser:
        threading.Timer(0.5, webbrowser.open, (page,)).start()
    with contextlib.suppress(KeyboardInterrupt):  # the usual end
        server.serve_forever()
    return EXIT_OK
