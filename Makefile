# SPDX-License-Identifier: Apache-2.0
# make demo | make test | make studies [SET=ci|quick|full] [STUDIES=pipe,bend] | make validation | make lint | make api
# make site | make bench | make lock | make slurm | make cuda | make mpi
# Needs Python 3.11 or newer and make; everything else goes into .venv.

PYTHON ?= python3
BIN := .venv/bin
CORES ?= all
SET ?= quick
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r
# Compiled when it is first imported: of 11,000 modules a run needs a fourth. Some environments forbid to keep that.
export PYTHONDONTWRITEBYTECODE :=
CUDA := $(shell command -v nvidia-smi >/dev/null 2>&1 && nvidia-smi -L >/dev/null 2>&1 && echo .venv/.cuda)

.PHONY: demo test collected studies validation smoke lint style types api site bench schema slurm cuda mpi lock clean
.DELETE_ON_ERROR:

demo: .venv/.run $(CUDA)
	$(BIN)/snakemake --cores $(CORES) --config cases=demo
	@echo
	@echo "Report:  file://$(CURDIR)/results/demo/report.html"

# Three at a time on two cores: a fifth of the time a test waits for what it has started, such as a browser or ranks.
test: .venv/.dev
	$(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder --durations=20 -m "not slow"

# Imports all tests and keeps their bytecode, which each worker of `test` would else make, in 5 s of processor time.
collected: .venv/.dev
	@$(BIN)/python -m pytest --collect-only -qq -m "not slow" >.venv/collected || { cat .venv/collected; exit 1; }

# Also writes what the ladder's cases measure into docs/validation/; a case that fails or does not run shows there.
validation: .venv/.dev
	rm -f docs/evidence/*.json docs/figures/ladder-*.png
	HEMO_EVIDENCE=$(CURDIR)/docs NUMBA_NUM_THREADS=1 \
	  $(BIN)/python -m pytest -n auto --dist worksteal --timeout 3600 -m "slow or ladder"; status=$$?; \
	$(BIN)/python -m validation.evidence && exit $$status

smoke: .venv/.run $(CUDA)
	$(BIN)/snakemake --cores $(CORES) --config cases=tiny

lint: style types site

style: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/snakefmt --check Snakefile pipeline/rules

types: .venv/.dev
	$(BIN)/mypy

# Pages of the API from the docstrings. A module that cannot be imported alone, or a type that is not known where it is
# named, is an error. The processor is asked for by a program when it is first looked at, which pdoc else would not run.
api: .venv/.dev
	PDOC_ALLOW_EXEC=1 $(BIN)/python -W error::UserWarning -m pdoc --no-show-source -d numpy -o docs/api \
	  hemolattice solver pipeline '!solver.__main__'

# The pages of docs/ and those of the API; a link that leads nowhere is an error.
site: api
	$(BIN)/sphinx-build --quiet --fail-on-warning --builder html --doctree-dir .venv/doctrees docs docs/site
	rm -rf docs/site/api
	cp -r docs/api docs/site/api

studies: .venv/.run $(CUDA)
	$(BIN)/snakemake --cores $(CORES) --config validation=$(SET) $(STUDIES:%=studies=%) -- validation

bench: .venv/.run $(CUDA)
	$(BIN)/python benchmarks/bench.py

# On a cluster, whose login node has no GPU: make slurm cuda
slurm: .venv/.slurm

cuda: .venv/.cuda

mpi: .venv/.mpi

schema: .venv/.run
	$(BIN)/python -m pipeline.case.case_file > config/case.schema.json
	$(BIN)/python -m pipeline.case.settings.reference config/case.schema.json > docs/settings.md
	$(BIN)/python -m pipeline.case.settings.reference config/case.schema.json config/cases/demo.yaml > .venv/demo.yaml
	mv .venv/demo.yaml config/cases/demo.yaml
	$(BIN)/python -m pipeline.network.network_file > config/network.schema.json
	$(BIN)/python -m pipeline.network.key_page config/network.schema.json > docs/network-keys.md

.venv/.venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "$(PYTHON) is older than Python 3.11; name a newer one: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -m venv .venv || \
	  { echo "$(PYTHON) cannot make a virtual environment; on Debian and Ubuntu: apt install python3-venv"; exit 1; }
	touch $@

.venv/.run: requirements.lock | .venv/.venv
	@echo "Installing the packages of requirements.lock into .venv (once; some minutes)"
	$(INSTALL) requirements.lock
	touch $@

.venv/.dev: requirements-dev.lock | .venv/.run
	@echo "Installing the packages of requirements-dev.lock into .venv (once)"
	$(INSTALL) requirements-dev.lock
	touch $@

.venv/.cuda: requirements-cuda.lock | .venv/.run
	@echo "Installing the packages of requirements-cuda.lock into .venv (once)"
	$(INSTALL) requirements-cuda.lock
	touch $@

.venv/.slurm: requirements-slurm.lock | .venv/.run
	@echo "Installing the packages of requirements-slurm.lock into .venv (once)"
	$(INSTALL) requirements-slurm.lock
	touch $@

.venv/.mpi: requirements-mpi.lock | .venv/.run
	@echo "Installing the packages of requirements-mpi.lock into .venv (once)"
	$(INSTALL) requirements-mpi.lock
	touch $@

# Needs uv. The locks hold hashes for all supported Python versions and platforms, and no address of an index.
COMPILE := uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-header pyproject.toml
lock:
	$(COMPILE) -o requirements.lock
	$(COMPILE) --extra cuda -c requirements.lock -o requirements-cuda.lock
	$(COMPILE) --extra slurm -c requirements.lock -o requirements-slurm.lock
	$(COMPILE) --extra mpi -c requirements.lock -o requirements-mpi.lock
	$(COMPILE) --extra dev --extra slurm -c requirements-cuda.lock -c requirements-slurm.lock -c requirements-mpi.lock \
	  -o requirements-dev.lock

clean:
	rm -rf results .snakemake
