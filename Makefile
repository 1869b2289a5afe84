# Everything runs in .venv, made here; `make demo` and `make test` need Python 3.11, make and git only.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test format lint types imports bench clean

demo: $(READY)
	$(BIN)/python examples/support_desk/demo.py

test: $(READY) lint types imports
	$(BIN)/python -m pytest -n 2 --dist loadfile

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

$(READY): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check 'pip>=25.1'
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[server]' --group dev
	touch $@
