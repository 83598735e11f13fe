# Goalwright in the terminal, for a container that is the sandbox:
#   docker build --tag goalwright . && docker run --rm -it -e ANTHROPIC_API_KEY -v "$PWD:/work" goalwright run "…"
FROM python:3.13-slim AS wheel
WORKDIR /source
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY goalwright goalwright
COPY daemon daemon
COPY lsp_bridge lsp_bridge
COPY tools tools
RUN pip install --no-cache-dir build && python -m build --wheel --outdir /wheel

FROM python:3.13-slim
RUN apt-get update && apt-get install --yes --no-install-recommends bubblewrap git ripgrep && rm -rf /var/lib/apt/lists/*
COPY --from=wheel /wheel/*.whl /source/constraints.txt /tmp/wheel/
# Such as postgres, which the shared server of a team needs.
ARG EXTRAS=""
RUN pip install --no-cache-dir -c /tmp/wheel/constraints.txt "$(echo /tmp/wheel/*.whl)${EXTRAS:+[$EXTRAS]}" && rm -r /tmp/wheel
RUN useradd --create-home agent && mkdir /work && chown agent /work
USER agent
WORKDIR /work
ENTRYPOINT ["goalwright"]
CMD ["--help"]
