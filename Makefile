# The two commands a newcomer needs are "make serve" and "make test". Everything is installed below this directory.

PYTHON ?= python3
BIN := .venv/bin
PEERS := tests/peers

.PHONY: serve test check bench lock peers fix rules clean

serve: .venv/installed  ## Check and list the skills in examples/skills
	@$(BIN)/skillquay lint examples/skills
	@echo
	@$(BIN)/skillquay list examples/skills

test: check .peers/installed  ## Everything CI runs
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

check: .venv/installed  ## The fast part: format, lint, types, unit tests, the rule table
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/python -m tools.rule_table --check
	$(BIN)/pytest -m "not peers" -q

fix: .venv/installed  ## Format, and mend what the linter can mend
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

rules: .venv/installed  ## Write docs/rules.md from the tests
	$(BIN)/python -m tools.rule_table

bench: .venv/installed  ## Measure, in ratios
	$(BIN)/python -m bench

peers: .peers/installed  ## Install the other readers of skills that the tests ask

lock: .venv/installed  ## Choose the newest versions the project allows, and pin them
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header --no-emit-index-url --upgrade \
	  --group dev pyproject.toml -o requirements.lock

.venv/installed: requirements.lock pyproject.toml
	$(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $@

clean:
	rm -rf .venv .peers build .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache
