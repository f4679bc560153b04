# FastLoop in a container, as an ordinary user and with the 64 MiB of /dev/shm that containers have:
#
#     docker build -t fastloop .
#     docker run --rm --init -v "$PWD:/work" --user "$(id -u):$(id -g)" fastloop launch ppo_cartpole
#
# TORCH may name another release, or the file of a build without CUDA, which is gigabytes smaller.
# tests/process/test_distribution.py runs these commands, without Docker.
FROM python:3.11-slim AS build
RUN apt-get update && apt-get install --yes --no-install-recommends g++
COPY . /source
RUN pip wheel --no-deps --wheel-dir /wheels /source

FROM python:3.11-slim
ARG TORCH=torch==2.13.0
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir "$TORCH" && pip install --no-cache-dir /wheels/*.whl
RUN useradd --create-home fastloop && mkdir /work && chown fastloop /work
USER fastloop
WORKDIR /work
ENTRYPOINT ["fastloop"]
CMD ["--help"]
