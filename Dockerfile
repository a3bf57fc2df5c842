# docker build -t tangram:0.1.0 .
FROM python:3.13-slim AS build
WORKDIR /src
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.13-slim
# Kernels are compiled here for a kind of CPU, not for this machine: x86-64-v3 is any server since 2015. For arm64 build
# with --build-arg NUMBA_CPU_NAME=generic. The two NUMBA_ variables must be the same when the image runs.
ARG NUMBA_CPU_NAME=x86-64-v3
ENV NUMBA_CPU_NAME=$NUMBA_CPU_NAME NUMBA_CACHE_DIR=/var/cache/tangram HOME=/tmp PYTHONUNBUFFERED=1
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels pip install --no-cache-dir /wheels/*.whl
RUN python -c "from scheduler.kernels.warm import warm; warm()"
USER 65532:65532
EXPOSE 8889
ENTRYPOINT ["tangram"]
CMD ["serve"]
