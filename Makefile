# Two commands: `make demo` shows Scumble at work, `make test` checks everything.
# Each creates .venv and installs what it needs; Python 3.11 or newer is all that must be there.

# The oldest Python that is at hand and new enough; `make PYTHON=...` overrules.
PYTHON ?= $(firstword $(foreach v,3.11 3.12 3.13,$(shell command -v python$(v))) python3)
BIN := .venv/bin

.PHONY: demo test test-slow clean

demo: .venv/demo
	@for network in edsr-x4 carn-x4 rfdn-x4; do \
	  $(BIN)/scumble inspect $$network | sed -n '1p; /[0-9] GMACs  /p; /[0-9]  parameters  /p'; echo; \
	done
	$(BIN)/python examples/prune_demo.py

test: .venv/test
	PATH="$(abspath $(BIN)):$$PATH" scripts/check

# What takes minutes and rarely breaks: crowds of processes, videos, clusters, every network whole.
test-slow: .venv/test
	$(BIN)/pytest -n 2 -m slow

.venv/demo: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/pip install --quiet -c constraints.txt -e .
	@touch $@

.venv/test: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/pip install --quiet -c constraints.txt -e '.[dev]'
	@touch $@ .venv/demo

.venv/bin/python:
	$(PYTHON) -m venv .venv

clean:
	rm -rf .venv
