# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV   ?= .venv
PIP     = $(VENV)/bin/pip --disable-pip-version-check --quiet
BIN     = $(VENV)/bin
# The dependencies of the package, as pyproject.toml lists them.
CORE    = $(shell sed -n '/^dependencies = \[/,/^\]/s/^ *"\(.*\)",$$/"\1"/p' pyproject.toml)

.PHONY: demo test test-all check format bench sanitize cross clean

demo: $(VENV)/.core  ## remove the shadow from the packaged photo; writes demo-output/
	@mkdir -p demo-output
	@cp src/shadowmaskformer/assets/demo-photo.jpg src/shadowmaskformer/assets/demo-mask.png demo-output/
	@$(BIN)/shadowmaskformer remove demo-output/demo-photo.jpg --mask demo-output/demo-mask.png \
		-o demo-output/demo-result.jpg --compare --overwrite
	@echo "the photo, its mask, the result and a comparison are in demo-output/"

test: $(VENV)/.dev  ## every test that takes seconds
	$(BIN)/python -m pytest -m "not slow"

test-all: $(VENV)/.dev  ## the slow ones too
	$(BIN)/python -m pytest

check: $(VENV)/.dev  ## lint, format, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.dev  ## speed against the plain network, in one interleaved run; writes benchmarks/results/
	$(BIN)/shadowmaskformer benchmark -o benchmarks/results

sanitize: $(VENV)/.dev  ## the C++ engine under address, undefined-behaviour and thread sanitizers
	for kind in address,undefined thread; do \
		$(BIN)/cmake -S src/shadowmaskformer/engine -B build/$$kind -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN))/ninja \
			-DSMF_PYTHON=OFF -DSMF_SANITIZE=$$kind && \
		$(BIN)/cmake --build build/$$kind && build/$$kind/engine_check || exit 1; \
	done

CROSS = aarch64-linux-gnu
QEMU  = $(shell command -v qemu-aarch64 || command -v qemu-aarch64-static)

cross: $(VENV)/.dev  ## the C++ engine for aarch64, run under QEMU, so that NEON has run
	@command -v $(CROSS)-g++ >/dev/null && test -n "$(QEMU)" || \
		{ echo "make cross needs the Debian packages g++-$(CROSS) and qemu-user"; exit 1; }
	$(BIN)/cmake -S src/shadowmaskformer/engine -B build/$(CROSS) -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN))/ninja \
		-DSMF_PYTHON=OFF -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_CXX_COMPILER=$(CROSS)-g++
	$(BIN)/cmake --build build/$(CROSS)
	for isa in baseline scalar; do \
		SHADOWMASKFORMER_ISA=$$isa $(QEMU) -L /usr/$(CROSS) build/$(CROSS)/engine_check || exit 1; \
	done

# The core alone: what removing a shadow needs. No PyTorch.
$(VENV)/.core: pyproject.toml constraints.txt src/shadowmaskformer/engine/CMakeLists.txt \
		$(wildcard src/shadowmaskformer/engine/csrc/*/*)
	@test -x $(BIN)/python || { echo "1/3 making a Python environment in $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "2/3 installing NumPy, Pillow, safetensors, tifffile, imagecodecs and tqdm (up to a minute)"
	@$(PIP) install -c constraints.txt $(CORE)
	@echo "3/3 building and installing shadowmaskformer with its C++ engine (up to two minutes)"
	@$(PIP) install -c constraints.txt -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.core
	@echo "installing PyTorch, linters and test tools (several minutes)"
	@$(PIP) install -c constraints.txt -e '.[dev]'
	@command -v chromium >/dev/null || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
		echo "installing chromium" && apt-get install -qq -y chromium >/dev/null; } || \
		echo "there is no chromium: the tests of the page will be skipped"
	@touch $@

clean:
	rm -rf $(VENV) build demo-output benchmarks/results
