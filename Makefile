# The commands of the project. They need Python 3.11 or later, and install everything else: a private copy of uv in
# .tools/ unless a recent one is on the PATH, and the locked dependencies in .venv/. `make test` also needs Java.
#
#   make check                           the quick checks, without a JVM: run them while you work
#   make test PYTHON=/path/to/python     another interpreter for a new .venv
#   make check ARGS="-k join -x"         arguments for pytest, also of make test
#   make soak KILLS=20                   the number of kills
#
# Settings of pip and uv (PIP_*, UV_*, their configuration files) are respected.

SHELL := /bin/sh
.DEFAULT_GOAL := help

PYTHON ?=
PYTHONS := python3.13 python3.12 python3.11 python3 python
ARGS ?=
VENV := $(or $(UV_PROJECT_ENVIRONMENT),.venv)
BIN := $(VENV)/bin
TOOLS := .tools
UV_MIN := 0.8
QUICK := not spark and not kafka and not slow
# More workers than cores: many tests wait for brokers, and for processes to start and to end.
WORKERS := $(shell n=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2); n=$$(( n + n / 2 )); echo $$(( n < 8 ? n : 8 )))

# With it, each worker of pytest would rewrite the assertions of all test modules at each run.
unexport PYTHONDONTWRITEBYTECODE

say = @printf '\n==> %s\n'

.PHONY: help demo check test java setup lint format types pytest soak soak-kafka soak-real-time bench bench-kafka docs clean distclean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: java setup ## Set up, then run two applications on Spark, live in the terminal; Ctrl-C stops them
	@$(BIN)/python examples/demo.py $(ARGS)

check: lint types ## Set up, then lint, import contracts, types, and the tests without a JVM
	$(say) 'pytest, without the tests marked spark, kafka and slow'
	@HYPOTHESIS_PROFILE=quick $(BIN)/pytest -n $(WORKERS) --maxschedchunk 1 -m '$(QUICK)' $(ARGS)
	$(say) 'The quick checks passed. Left out: tests marked spark, kafka and slow, and most random examples (make test runs them)'

test: java lint types pytest ## Set up, then run every check: lint, import contracts, types, all tests
	$(say) 'All checks passed'

# Spark needs Java: check for it before anything is downloaded.
java:
	@java="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; \
	version=$$("$$java" -version 2>&1 | sed -n 's/.* version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1); \
	if [ "$${version:-0}" -lt 17 ]; then \
	    if [ -n "$$version" ]; then echo "error: Spark needs Java 17 or later, and $$java is version $$version" >&2; \
	    else echo "error: Spark needs Java 17 or later, and there is no $$java" >&2; fi; \
	    if command -v apt-get >/dev/null; then how='sudo apt-get install openjdk-17-jre-headless'; \
	    elif command -v dnf >/dev/null; then how='sudo dnf install java-17-openjdk-headless'; \
	    elif command -v brew >/dev/null; then how='brew install openjdk@17'; \
	    else how='see adoptium.net'; fi; \
	    echo "  hint: install it: $$how" >&2; \
	    exit 1; \
	fi

# Not a file target: `uv sync` determines what is out of date, and returns quickly if nothing is.
setup: ## Create or update .venv with the locked dependencies
	@set -eu; \
	is_python() { "$$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }; \
	is_recent_uv() { \
	    "$$1" --version 2>/dev/null | awk -v min="$(UV_MIN)" '{ \
	        split($$2, have, "."); split(min, want, "."); \
	        ok = have[1] + 0 > want[1] + 0 || (have[1] + 0 == want[1] + 0 && have[2] + 0 >= want[2] + 0) } \
	        END { exit !ok }'; }; \
	python=; \
	for candidate in $(or $(PYTHON),$(PYTHONS) $(BIN)/python); do \
	    if is_python "$$candidate"; then \
	        python=$$("$$candidate" -c 'import sys; print(sys.executable)'); break; \
	    fi; \
	done; \
	if [ -z "$$python" ]; then \
	    echo 'error: no Python 3.11 or later found (tried: $(or $(PYTHON),$(PYTHONS)))' >&2; \
	    echo '  hint: install one, or name it: make $(or $(MAKECMDGOALS),setup) PYTHON=/path/to/python3' >&2; \
	    exit 1; \
	fi; \
	if is_recent_uv uv; then uv=uv; \
	else \
	    uv=$(TOOLS)/bin/uv; \
	    if ! is_recent_uv "$$uv"; then \
	        printf '\n==> %s\n' "Install uv into $(TOOLS) (none of version $(UV_MIN) or later on the PATH)"; \
	        rm -rf $(TOOLS); \
	        if "$$python" -m venv $(TOOLS) >/dev/null 2>&1; then \
	            $(TOOLS)/bin/python -m pip install --quiet 'uv>=$(UV_MIN)'; \
	        elif "$$python" -m pip --version >/dev/null 2>&1 && "$$python" -m venv --without-pip $(TOOLS); then \
	            "$$python" -m pip --python $(TOOLS)/bin/python install --quiet 'uv>=$(UV_MIN)'; \
	        else \
	            rm -rf $(TOOLS); \
	            echo "error: $$python has neither a working venv module nor pip" >&2; \
	            echo '  hint: install them (on Debian and Ubuntu the package is python3-venv), or install uv' >&2; \
	            exit 1; \
	        fi; \
	    fi; \
	fi; \
	printf '\n==> %s\n' "Set up $(VENV) with $$("$$uv" --version | cut -d ' ' -f 1-2)"; \
	unset VIRTUAL_ENV; \
	if [ -n '$(PYTHON)' ] || [ ! -e $(BIN)/python ]; then \
	    "$$uv" sync --locked --compile-bytecode --no-python-downloads --python "$$python"; \
	else \
	    "$$uv" sync --locked --compile-bytecode --no-python-downloads; \
	fi; \
	"$(BIN)/python" -m compileall -q src; \
	"$(BIN)/python" --version; \
	"$(BIN)/python" -m millstream.dev.class_archive

lint: setup ## Check style (ruff) and the direction of imports (import-linter)
	$(say) 'ruff check'
	@$(BIN)/ruff check .
	$(say) 'ruff format --check'
	@$(BIN)/ruff format --check .
	$(say) 'import contracts'
	@$(BIN)/lint-imports --no-cache --no-logo

format: setup ## Format the code and apply the safe fixes
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

types: setup ## Check types (mypy, strict)
	$(say) 'mypy'
	@$(BIN)/mypy

pytest: setup ## Run the tests and the examples of the documentation; pass arguments with ARGS="..."
	$(say) 'pytest'
	@$(BIN)/pytest -n $(WORKERS) --maxschedchunk 1 $(ARGS)

soak: setup ## Kill an application on Spark KILLS times (200), and verify its results
	@$(BIN)/python -m tests.fault.soak $(or $(KILLS),200)

soak-kafka: setup ## The same with a Kafka broker, which is killed, too (KILLS defaults to 100)
	@$(BIN)/python -m tests.fault.soak $(or $(KILLS),100) --kafka

soak-real-time: setup ## The same in real-time execution, with kills of single workers (100); ARGS=--kafka: with a broker
	@$(BIN)/python -m tests.fault.soak $(or $(KILLS),100) --real-time $(ARGS)

bench: setup ## Run the benchmarks
	@set -eu; found=; \
	for script in bench/bench_*.py; do \
	    [ -e "$$script" ] || continue; \
	    found=yes; printf '\n==> %s\n' "$$script"; $(BIN)/python "$$script"; \
	done; \
	[ -n "$$found" ] || echo 'There are no benchmarks (bench/bench_*.py).'

bench-kafka: setup ## Compare applications on Kafka with Kafka Streams and Quix
	@$(BIN)/python bench/kafka/compare.py $(ARGS)

docs: setup ## Generate the reference pages from the code, and the pictures of the examples
	$(say) 'reference pages'
	@$(BIN)/python docs/generate_reference.py
	@$(BIN)/python docs/generate_pictures.py

clean: ## Remove caches and build output
	rm -rf build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests docs examples bench -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## Remove .venv and .tools as well
	rm -rf $(VENV) $(TOOLS)
