# SPDX-License-Identifier: Apache-2.0
# docker build --tag hemolattice .                                          for CPUs
# docker build --tag hemolattice --build-arg LOCK=requirements-cuda.lock .    for NVIDIA GPUs, too
FROM python:3.12-slim-bookworm

# What the report's pictures are rendered with where there is no screen
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libegl1 libgl1-mesa-dri \
    && rm -rf /var/lib/apt/lists/*

ARG LOCK=requirements.lock
COPY ${LOCK} /opt/requirements.lock
RUN python -m pip install --no-cache-dir --disable-pip-version-check --require-hashes -r /opt/requirements.lock

# Whoever runs it may write here: results, Snakemake's records, what Numba compiles
WORKDIR /hemolattice
COPY Snakefile LICENSE ./
COPY config/ config/
COPY data/ data/
COPY pipeline/ pipeline/
COPY solver/ solver/
COPY validation/ validation/
RUN useradd --uid 1000 --create-home hemolattice && mkdir results && chmod -R a+rwX .
ENV HOME=/tmp

USER hemolattice
ENTRYPOINT ["snakemake"]
CMD ["--cores", "all"]
