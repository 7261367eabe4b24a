# The page and the API. Runs without root and with a read-only file system; photos stay in memory.
FROM python:3.12-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
COPY . /source
RUN python -m venv /app && /app/bin/pip install --no-cache-dir -c /source/constraints.txt '/source[serve,heif]'

FROM python:3.12-slim
COPY --from=build /app /app
RUN useradd --system --uid 10001 shadowmaskformer
USER 10001
ENV PYTHONDONTWRITEBYTECODE=1
EXPOSE 8430
HEALTHCHECK CMD ["/app/bin/python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8430/healthz', timeout=2)"]
# Others can reach a container's port, so it asks for a token: -e SHADOWMASKFORMER_TOKEN=SECRET
ENTRYPOINT ["/app/bin/shadowmaskformer", "serve", "--no-browser", "--host", "0.0.0.0"]
