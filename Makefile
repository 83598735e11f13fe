# Two commands do all set-up on a machine that has Python 3.11 or newer, Node.js 20 or newer, npm, git and make:
#   make run    VS Code on the sample workspace, with the extension       make test    every test
# Each step is redone only when what it is made from has changed. Works with GNU make 3.81 and with -j.

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	if $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then echo $$p; break; fi; done)
VENV := .venv
PY := $(VENV)/bin/python
EXT := vscode-extension
VSIX := $(EXT)/goalwright.vsix
INSTALLED := $(VENV)/.installed
# uv installs in seconds what takes pip a minute. It does not know pip's settings: where it finds no index, pip installs.
PIP := $(PY) -m pip install --quiet --disable-pip-version-check --no-input --no-compile
WANTED := -c constraints.txt -e '.[dev]'
COMPILED := .build/.tests-compiled
MODULES := $(EXT)/node_modules/.package-lock.json
PYTHON_SOURCES := $(shell find goalwright daemon lsp_bridge tools -name __pycache__ -prune -o -type f -print 2>/dev/null)
EXT_SOURCES := $(shell find $(EXT)/src $(EXT)/scripts $(EXT)/media $(EXT)/schemas $(EXT)/l10n -name __pycache__ -prune -o -type f -print 2>/dev/null) \
	$(wildcard $(EXT)/package.json $(EXT)/package.nls*.json $(EXT)/tsconfig*.json $(EXT)/.vscodeignore $(EXT)/*.md)

# What readers see: documents, prompts, and English texts of the user interface.
SPELLED := $(wildcard *.md docs/*.md tools/*.md daemon/agents/*.md daemon/context/*.md daemon/context/families/*.md $(EXT)/*.md) \
	goalwright daemon lsp_bridge tools $(EXT)/package.nls.json $(EXT)/src
# More arguments for pytest and the benchmarks: make test ARGS='-k diff -x'
ARGS ?=
# make run: PORT=8000 for a fixed port, WORKSPACE=folder for a folder of one's own instead of the sample
PORT ?=
WORKSPACE ?=

.DEFAULT_GOAL := help
.PHONY: help run demo test unit exhaustive check docs hooks bench generate screenshots vsix venv browser vscode language-servers prepare-test clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | awk -F'|' '{printf "%-20s %s\n", $$1, $$2}'

run: $(INSTALLED) $(VSIX) ## VS Code on a copy of the sample workspace, the extension installed (PORT=, WORKSPACE=)
	@exec $(PY) -m tests.e2e.vscode.run --vsix $(VSIX) $(if $(PORT),--port '$(PORT)') $(if $(WORKSPACE),--workspace '$(WORKSPACE)')

demo: $(INSTALLED) ## the scripted demo in the terminal; needs no key and ends by itself
	@exec $(VENV)/bin/goalwright demo

# -j: the downloads do not wait for each other.
test: ## everything, the end-to-end tests in real VS Code included (ARGS='-k name')
	@$(MAKE) -j4 prepare-test
	@$(PY) -m tests.suite $(ARGS)

unit: $(INSTALLED) ## the fast Python tests only
	@$(PY) -m pytest -n auto --dist worksteal tests/unit tests/contract $(ARGS)

exhaustive: prepare-test ## every test with all examples of each property, and 200 kills (much longer)
	GOALWRIGHT_EXAMPLES=full $(PY) -m tests.suite $(ARGS)
	$(PY) -m tests.evals.killing

check: $(INSTALLED) $(MODULES) ## lint, format, types, import rules, generated files, prose, documentation
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/basedpyright
	$(VENV)/bin/lint-imports
	$(PY) $(EXT)/scripts/generate.py --check
	$(PY) -m tests.prose
	$(VENV)/bin/codespell $(SPELLED)
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --quiet --strict
	cd $(EXT) && npm run --silent check

docs: $(INSTALLED) ## the documentation as a site, in .build/site
	@NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --quiet --strict && echo .build/site/index.html

hooks: ## a git hook that checks the subjects of commits
	@git config core.hooksPath tests/prose/hooks && echo 'git runs tests/prose/hooks/commit-msg'

bench: $(INSTALLED) ## benchmarks: start, overhead a turn, memory, beside other agents (ARGS=--full for the parts, too)
	@$(PY) -m tests.evals.benchmarks $(ARGS)

generate: $(INSTALLED) ## rewrite the generated files
	$(PY) $(EXT)/scripts/generate.py
	$(PY) -m tests.prose --prune

screenshots: prepare-test ## take the pictures in docs/screenshots anew, in real VS Code and a browser
	GOALWRIGHT_SCREENSHOTS=docs/screenshots $(PY) -m pytest tests/e2e -k 'planned_approved or demo_fixes or of_two_hunks or names_its_rule or fix_with_goalwright_on or compared_and_one_is_used or pictures_of_the_page or edges_show_their_work or every_state_of_the_chat or shown_page_by_page' $(ARGS)

vsix: $(VSIX) ## the extension as a file to install
venv: $(INSTALLED) ## the Python environment in .venv

clean: ## remove everything that make has made
	rm -rf .build $(VENV) $(EXT)/node_modules $(EXT)/dist $(EXT)/*.vsix
	rm -rf .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# -- set-up

$(INSTALLED): pyproject.toml constraints.txt
	@test -n '$(PYTHON)' || { echo 'error: Python 3.11 or newer is needed (or name one: make PYTHON=/path/to/python)' >&2; exit 1; }
	@$(PY) -c '' 2>/dev/null || { echo 'Making $(VENV) ...'; rm -rf $(VENV); $(PYTHON) -m venv $(VENV); } || \
		{ rm -rf $(VENV); echo 'error: $(PYTHON) cannot make a virtual environment (on Debian and Ubuntu: apt-get install python3-venv)' >&2; exit 1; }
	@echo 'Installing the Python packages into $(VENV) ...'
	@$(PIP) -c constraints.txt uv 2>/dev/null && $(VENV)/bin/uv pip install --quiet --python $(PY) $(WANTED) 2>/dev/null \
		|| $(PIP) $(WANTED)
	@$(PY) -I -c 'import lsp_bridge.cli.run.command, lsp_bridge.cli.run.turn; from lsp_bridge.cli.preloader import import_all; import_all()' # compiles what every start needs
	@touch $@

$(MODULES): $(EXT)/package.json $(EXT)/package-lock.json
	@echo 'Installing the packages that build the extension ...'
	@cd $(EXT) && npm ci --no-fund --no-audit --loglevel=error
	@touch $@

$(VSIX): $(INSTALLED) $(MODULES) $(EXT_SOURCES) $(PYTHON_SOURCES) pyproject.toml constraints.txt
	@echo 'Building the extension ...'
	@cd $(EXT) && said=$$(npm run --silent package 2>&1) || { echo "$$said" >&2; exit 1; }
	@touch $@

# Not after $(INSTALLED): npm is all they need, and pip keeps only one core busy.
vscode:
	@$(PYTHON) -m tests.e2e.vscode.install

language-servers:
	@$(PYTHON) -m tests.evals.language_servers.install

# Without a browser the tests that need it fail and say so; the others are still worth running.
browser:
	@$(PYTHON) -m tests.e2e.vscode.browser --install || true

# Once, in two halves: otherwise each of the processes that run the tests compiles all of them.
$(COMPILED): $(INSTALLED)
	@printf '%s\n' tests/unit/daemon 'tests --ignore=tests/unit/daemon' | xargs -P2 -L1 \
		env -u PYTHONDONTWRITEBYTECODE $(PY) -m pytest --collect-only -qq -p no:cacheprovider >/dev/null 2>&1 || true
	@mkdir -p $(@D) && touch $@

prepare-test: $(INSTALLED) $(COMPILED) $(VSIX) vscode language-servers browser
