# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV   ?= .venv
PIP     = $(VENV)/bin/pip --disable-pip-version-check --quiet
BIN     = $(VENV)/bin

.PHONY: demo test test-all check format bench sanitize clean

demo: $(VENV)/.core  ## remove the shadow from the packaged photo; writes demo-output/
	@mkdir -p demo-output
	@cp src/shadowmaskformer/assets/demo-photo.jpg src/shadowmaskformer/assets/demo-mask.png demo-output/
	@$(BIN)/shadowmaskformer remove demo-output/demo-photo.jpg --mask demo-output/demo-mask.png \
		-o demo-output/demo-result.jpg --compare --overwrite

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

# The core alone: what somebody with a photograph installs. No PyTorch.
$(VENV)/.core: pyproject.toml constraints.txt src/shadowmaskformer/engine/CMakeLists.txt \
		$(wildcard src/shadowmaskformer/engine/csrc/*/*)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install -c constraints.txt -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.core
	$(PIP) install -c constraints.txt -e '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) build demo-output benchmarks/results
