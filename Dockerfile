# syntax=docker/dockerfile:1
# bertkit on CPUs. The folder of the data is mounted at /work, and the cache of models and data is a volume.
#
#   docker build -t bertkit .
#   docker build -t bertkit --build-arg EXTRAS=serve,onnx .    (or EXTRAS=all)
#   docker run --rm -v "$PWD:/work" -v bertkit-cache:/cache bertkit quickstart
#   docker run --rm -v "$PWD:/work" -v bertkit-cache:/cache --user "$(id -u):$(id -g)" bertkit predict my-sst2 "a fine film"
FROM python:3.11-slim

# torch first: its layer is large and changes only with its version. Its usual build for Linux brings CUDA along; for the
# smaller one, give the options that pytorch.org shows for pip and CPUs: --build-arg TORCH_OPTIONS="--index-url …".
ARG TORCH_OPTIONS=
COPY constraints.txt /src/
RUN --mount=type=cache,target=/root/.cache/pip \
    pip install --root-user-action ignore -c /src/constraints.txt torch $TORCH_OPTIONS

ARG EXTRAS=
COPY pyproject.toml README.md LICENSE /src/
COPY recipes /src/recipes/
COPY bertkit /src/bertkit/
RUN --mount=type=cache,target=/root/.cache/pip \
    pip install --root-user-action ignore -c /src/constraints.txt "/src${EXTRAS:+[$EXTRAS]}"

# /cache is writable for every user, since --user gives the owner of the mounted folder.
RUN useradd --uid 1000 --create-home bertkit && mkdir -p /work /cache && chown bertkit /work && chmod 1777 /cache
ENV HF_HOME=/cache HOME=/tmp PYTHONUNBUFFERED=1
USER bertkit
WORKDIR /work
VOLUME /cache
ENTRYPOINT ["bertkit"]
CMD ["--help"]
