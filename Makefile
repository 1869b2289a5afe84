# Everything runs in .venv, made here: `make demo` and `make test` need Python 3.11, make and git only.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

.PHONY: demo test format lint types imports bench clean

demo: $(READY)
	$(BIN)/python examples/support_desk/demo.py

# In order of patience: what fails in seconds comes first. Three at a time, since some wait for clocks
# most of their time; in the order of their folders, so that the longest do not all come last.
test: $(READY) lint types imports
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(READY)
	$(BIN)/mypy .

imports: $(READY)
	$(BIN)/lint-imports

bench: $(READY)
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV)

# From nothing, not on top of what was there: a requirement that was taken out must be missed.
# Dependency groups came with pip 25.1.
$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; say where: make PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv --clear $(VENV)
	$(PIP) install 'pip>=25.1'
	$(PIP) install --editable '.[server]' --group dev
	touch $@
