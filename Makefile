# The two commands a newcomer needs are "make serve" and "make test". Everything is installed below this directory.

PYTHON ?= python3
BIN := .venv/bin
PEERS := tests/peers

.PHONY: serve test check gates bench soak lock peers fix rules clean

serve: .venv/installed  ## Serve the skills in examples/skills on this machine
	@$(BIN)/skillquay serve examples/skills

test: gates .peers/installed  ## Everything CI runs
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest --numprocesses 2
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

check: gates  ## The fast part: format, lint, types, the rule table, unit tests
	$(BIN)/pytest -m "not peers" --numprocesses 2 --quiet

gates: .venv/installed
	$(BIN)/ruff format --check --quiet
	$(BIN)/ruff check --quiet
	$(BIN)/mypy
	$(BIN)/python -m tools.rule_table --check
	$(BIN)/python -m tools.interop_table --check

fix: .venv/installed  ## Format, and mend what the linter can mend
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

rules: .venv/installed  ## Write docs/rules.md and the table in docs/dialects.md from the tests
	$(BIN)/python -m tools.rule_table
	$(BIN)/python -m tools.interop_table

bench: .venv/installed .peers/installed  ## Measure, in ratios
	$(BIN)/python -m bench

soak: .venv/installed  ## Five minutes of files that change under load: does every read fit its entry?
	$(BIN)/python -m bench.soak

peers: .peers/installed  ## Install the other readers of skills that the tests ask

lock: .venv/installed  ## Choose the newest versions the project allows, and pin them
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header --no-emit-index-url --upgrade \
	  --extra all --group dev pyproject.toml -o requirements.lock

.venv/installed: requirements.lock pyproject.toml
	$(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $@

.peers/installed: $(wildcard $(PEERS)/requirements-*.txt) $(PEERS)/package-lock.json
	$(PYTHON) -m venv --clear .peers/fastmcp
	.peers/fastmcp/bin/python -m pip install --quiet --disable-pip-version-check -r $(PEERS)/requirements-fastmcp.txt
	$(PYTHON) -m venv --clear .peers/skills-ref
	.peers/skills-ref/bin/python -m pip install --quiet --disable-pip-version-check -r $(PEERS)/requirements-skills-ref.txt
	$(PYTHON) -m venv --clear .peers/agent-framework
	.peers/agent-framework/bin/python -m pip install --quiet --disable-pip-version-check -r $(PEERS)/requirements-agent-framework.txt
	cp $(PEERS)/package.json $(PEERS)/package-lock.json .peers/
	PATH="$(CURDIR)/.peers/fastmcp/bin:$$PATH" npm ci --prefix .peers --ignore-scripts --no-audit --no-fund
	@touch $@

clean:
	rm -rf .venv .peers build .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache
