# Every target does its own set-up; on a fresh machine only Python 3.11 or later and make are needed.
# PYTHON=... chooses the interpreter: for the virtual environment when it is first made, for the gpu targets always.

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
INSTALL := $(PY) -m pip install --quiet --disable-pip-version-check
# Every package at its version, with the hash that is written down; nothing is built, so no package's code runs.
# BINARY= lets pip build what has no wheel for the machine.
BINARY := --only-binary :all:
LOCKED := --require-hashes $(BINARY) --requirement
# And wavesim itself, from this folder. Its folders on Python's path are found before any folder called wavesim, such as
# this one seen from the folder above; the finder that pip installs comes after.
EDITABLE := $(INSTALL) --no-build-isolation --no-deps --editable . && printf '%s\n' "$(CURDIR)" "$(CURDIR)/gpu" \
  > "$$($(PY) -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/wavesim.pth"
# Each worker takes a run of neighbouring tests, which share fixtures, and then steals from the others.
PARALLEL := --numprocesses auto --dist worksteal

FIRST := lab/tree/notebooks/01_start_here.ipynb

.DEFAULT_GOAL := help
.PHONY: help lines lock setup demo test test-timed test-rest quick validate check fuzz safety-cases images tour course slides results gallery pages docs lab may-run-lab lite lite-test binder binder-test gpu-test gpu-smoke gpu-bench gpu-sanitize gpu-peers clean

help:
	@echo "make demo       predicted and measured effect of tile-level synchronisation: a table and an HTML page"
	@echo "make test       the tests that need no GPU, on all cores   (it ends with what it left out and what adds that)"
	@echo "make quick      the unit tests but for the slow ones: under a minute"
	@echo "make validate   every prediction made again, and its scores: ten minutes of one core   (make test does a third)"
	@echo "make lab        JupyterLab on the first notebook   (LAB_ARGS=--allow-root as root, as in a container)"
	@echo "make lite       a site with the notebooks that run in any browser, with no network: build/lite/site (needs npm)"
	@echo "make lite-test  every notebook of that site, in Chromium: three minutes of two cores"
	@echo "make binder-test  what make and Binder install, from the package index, and the first notebook in it"
	@echo "make binder     the link that opens this checkout's GitHub repository on mybinder.org"
	@echo "make check      lint, format and types"
	@echo "make lines      lines of Python per room, and the tracked bytes"
	@echo "make fuzz       ten minutes of damaged and hostile input   (TARGET=sqlite MINUTES=30 for one kind, longer)"
	@echo "make safety-cases  plans called safe against brute force: half an hour of one core   (CASES=500 of each kind)"
	@echo "make images     the README's pictures, drawn again"
	@echo "make tour       the README's moving picture, drawn again (needs Chromium)"
	@echo "make course     docs/course: the course, what students get wrong, the quiz, from notebooks and graders"
	@echo "make slides     the lecture's slides, one file: build/slides.html (needs Chromium)"
	@echo "make results    what docs and README say of the newest gpu/results, and build/results.html"
	@echo "make gallery    the pictures of docs/gallery.md, drawn again (needs Chromium)"
	@echo "make pages      every notebook as a static page: build/pages/index.html"
	@echo "make docs       the documentation as a site, with the API and the notebooks: build/site/index.html"
	@echo "make setup      the virtual environment $(VENV) with everything"
	@echo "make gpu-test   the GPU's tests      (PYTHON=an interpreter with CuPy and pytest; installs nothing;"
	@echo "                GPU_ARGS='-n 8 --dist worksteal' for eight at once)"
	@echo "make gpu-smoke  a few of the GPU's tests, one of each kind"
	@echo "make gpu-bench  the GPU's benchmarks (PYTHON=an interpreter with CuPy; installs nothing)"
	@echo "make gpu-sanitize  memcheck and racecheck of the GPU's kernels (needs compute-sanitizer)"
	@echo "make gpu-peers  all that is measured on two GPUs of one host, most worth first, results in build/two-gpus"
	@echo "                (PYTHON=an interpreter with CuPy and PyTorch; MINUTES=9 at most; again: goes on; installs nothing)"
	@echo "make lock       versions, hashes, licences and the list of parts (SBOM), written again; UPGRADE=--upgrade"
	@echo "make clean      remove $(VENV) and build outputs"

setup: $(VENV)/.has-all

# The resolver is in an environment of its own, at the version that it wrote down for itself. Its pip checks
# the hashes.
lock: $(VENV)/.has-python
	$(PY) -m venv build/lock
	build/lock/bin/python -m pip install --quiet --disable-pip-version-check $(LOCKED) requirements/lock.txt
	$(PY) requirements/lock.py --uv build/lock/bin/uv $(UPGRADE)
	$(MAKE) $(VENV)/.has-all
	$(PY) requirements/parts.py

demo: $(VENV)/.has-demo
	@mkdir -p build
	$(VENV)/bin/wavesim demo --html build/demo.html

# What is timed runs last, with nothing beside it, and only its files are read; everything else on all cores.
# The run's name lets all commands of a run use one build of the site.
RUN := $(or $(RUN),$(shell date +%s%N))
export RUN
test: $(VENV)/.has-all
	@status=0; $(MAKE) -s test-rest || status=1; $(MAKE) -s test-timed || status=1; exit $$status

test-timed: $(VENV)/.has-all
	@$(PY) -m pytest -m "alone and not gpu" --testrunuid=$(RUN) $$(grep -rl --include='test_*.py' 'mark\.alone' tests)

test-rest: $(VENV)/.has-all
	@status=0; \
	$(PY) -m pytest -m "not gpu and not alone and not lite" --testrunuid=$(RUN) $(PARALLEL) || status=1; \
	echo "left out: most of the site without an installation (make lite-test); two thirds of the predictions"; \
	echo "  (make validate); whatever needs a GPU (make gpu-test)"; \
	exit $$status

binder-test: $(VENV)/.has-all
	$(PY) -m pytest -m installs tests/project/test_binder.py tests/project/test_requirements.py

quick: $(VENV)/.has-all
	$(PY) -m pytest -q -m "not gpu and not alone and not slow" $(PARALLEL) tests/unit tests/project/test_architecture.py \
	  tests/project/test_code_rules.py tests/project/test_adding_parts.py

# Every prediction and score; the tests hold a third of the predictions to the committed ones, another each day.
validate: $(VENV)/.has-all
	$(VENV)/bin/wavesim validate

check: $(VENV)/.has-all
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

# The same with any Python; nothing is installed.
lines:
	$(PYTHON) tools/count_lines.py

# What comes from outside: files, command lines, names, messages. tests/fuzz/run.py lists the targets.
TARGET := all
MINUTES := 10
fuzz: $(VENV)/.has-all
	$(PY) tests/fuzz/run.py $(TARGET) --minutes $(MINUTES)

# Clusters, split-K, Stream-K and two copies of random plans against brute force; goes on where it was interrupted.
CASES := 5000
safety-cases: $(VENV)/.has-all
	PYTHONPATH=.:tests/support $(PY) tests/support/safety_kinds.py --cases $(CASES)

images: $(VENV)/.has-all
	$(PY) tools/draw_images.py

course: $(VENV)/.has-all
	$(PY) tools/write_course.py

slides: $(VENV)/.has-all
	$(PY) tools/make_slides.py

tour: $(VENV)/.has-all
	$(PY) tools/draw_tour.py

results: $(VENV)/.has-all
	$(VENV)/bin/wavesim results --html build/results.html --docs docs

gallery: $(VENV)/.has-all
	$(PY) tools/draw_gallery.py

pages: $(VENV)/.has-all
	$(PY) tools/render_pages.py --out build/pages

docs: $(VENV)/.has-all
	$(PY) tools/build_site.py

# Contrast and width of its pages, at three widths, light and dark; needs a Chromium.
look: docs
	$(PY) tools/check_look.py build/site

lab: may-run-lab $(VENV)/.has-all
	$(PY) -m jupyterlab --ServerApp.root_dir=. $(LAB_ARGS) notebooks/01_start_here.ipynb

# Jupyter refuses to run as root, and its words name an option that is none of make's. Said before anything is installed.
may-run-lab:
	@[ "$$(id -u)" != 0 ] || case "$(LAB_ARGS)" in *--allow-root*) ;; *) \
	  echo "as root, as in a container: make lab LAB_ARGS=--allow-root" >&2; exit 1;; esac

# In an environment of its own: its kernel's extension breaks a JupyterLab beside it.
# PYODIDE= is the folder of a whole Pyodide distribution, which holds NumPy; npm's holds none.
LITE := build/lite
lite: $(LITE)/env/.has-all
	$(LITE)/env/bin/python lite/build.py --out $(LITE) $(if $(PYODIDE),--pyodide $(PYODIDE))

# The first notebook is timed with nothing beside it.
lite-test: $(VENV)/.has-all
	@status=0; run=--testrunuid=$(RUN); \
	$(PY) -m pytest -m "alone and lite" $$run tests/browser/test_lite_site.py || status=1; \
	$(PY) -m pytest -m "lite and not alone" $$run $(PARALLEL) tests/browser/test_lite_site.py || status=1; \
	exit $$status

$(LITE)/env/.has-all: requirements/lite.txt | $(VENV)/.has-python
	$(PYTHON) -m venv $(LITE)/env
	$(LITE)/env/bin/python -m pip install --quiet --disable-pip-version-check $(LOCKED) requirements/lite.txt
	@touch $@

binder:
	@git remote get-url origin 2>/dev/null | sed -E 's#\.git$$##' | \
	  sed -nE 's#^(https://github\.com/|git@github\.com:)([^/]+/[^/]+)$$#https://mybinder.org/v2/gh/\2/HEAD?urlpath=$(FIRST)#p' | grep . || \
	  { echo "the git remote 'origin' is no GitHub repository; Binder needs a public one" >&2; exit 1; }

gpu-test:
	@$(PYTHON) -c "import cupy; cupy.cuda.runtime.getDeviceCount()" 2>/dev/null || \
	  { echo "no GPU or no CuPy: run on a machine with an NVIDIA GPU, PYTHON=an interpreter with CuPy and pytest" >&2; exit 1; }
	PYTHONPATH=.:gpu $(PYTHON) -m pytest -q -m gpu tests/gpu --compile-ahead
	PYTHONPATH=.:gpu $(PYTHON) -u -m pytest -v -m gpu tests/gpu $(GPU_ARGS)

# One test of each kind: every kernel backend, plan, policy and mutant once.
gpu-smoke:
	PYTHONPATH=.:gpu $(PYTHON) -m pytest -q -m gpu_smoke tests/gpu --compile-ahead
	PYTHONPATH=.:gpu $(PYTHON) -m pytest -m gpu_smoke tests/gpu

# memcheck and racecheck over every kernel at small sizes.
gpu-sanitize:
	PYTHON=$(PYTHON) tests/gpu/sanitize.sh

gpu-bench:
	PYTHONPATH=.:gpu $(PYTHON) -m wavesim_gpu bench

# PEERS_ARGS=--dry-run lists the shapes anywhere. `measure two-gpus-trials` tries results, skew and a rank that ends.
PEERS := build/two-gpus
gpu-peers:
	PYTHONPATH=.:gpu $(PYTHON) -m wavesim_gpu measure two-gpus --out $(PEERS) --minutes $(MINUTES) $(PEERS_ARGS)

clean:
	rm -rf $(VENV) build dist wavesim.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/.has-python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "wavesim needs Python 3.11 or later; '$(PYTHON)' is missing or older: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' || \
	  { echo "'$(PYTHON)' has no venv module: on Debian or Ubuntu, apt-get install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.has-demo: $(VENV)/.has-python pyproject.toml requirements/demo.txt
	$(INSTALL) $(LOCKED) requirements/demo.txt
	$(EDITABLE)
	@touch $@

$(VENV)/.has-all: $(VENV)/.has-python pyproject.toml requirements/dev.txt
	$(INSTALL) $(LOCKED) requirements/dev.txt
	$(EDITABLE)
	@touch $(VENV)/.has-demo $@
