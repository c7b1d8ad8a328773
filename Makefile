# `make translate` runs the main job, `make check` the fast tests and the linter, `make test` the tests, `make test-all` also those that repeat others (nightly),
# `make test-torch` those on Keras's PyTorch backend, `make docs` writes the documentation as HTML, `make serve-check` runs exports in an older TensorFlow and in OpenVINO, with ARGS="--serving IMAGE" in TensorFlow Serving too. Each makes its own environments first.
PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.13 || command -v python3)
VENV ?= .venv
BIN = $(VENV)/bin
GPU := $(shell command -v nvidia-smi > /dev/null && echo ,gpu)
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: translate check test test-all test-torch docs lint serve-check clean

translate: $(VENV)/.recipes
	$(BIN)/python -m recipes.translate $(ARGS)

check: lint
	$(BIN)/python -m pytest -n auto --dist loadscope --no-loadscope-reorder -m "not slow and not nightly" $(ARGS)

test: $(VENV)/.tests
	$(BIN)/python -m pytest -n auto --dist loadscope --no-loadscope-reorder -m "not nightly" $(ARGS)

test-all: $(VENV)/.tests
	HEADATTN_FULL=1 $(BIN)/python -m pytest -n auto --dist loadscope --no-loadscope-reorder $(ARGS)

test-torch: $(VENV)/.tests $(VENV)-torch/complete
	HEADATTN_FULL=1 HEADATTN_TORCH=$(abspath $(VENV)-torch/bin/python) $(BIN)/python -m pytest tests/backends -k torch $(ARGS)

docs: $(VENV)/.docs
	$(BIN)/sphinx-build -q -E -W --keep-going -c docs . build/docs
	@echo "Written: build/docs/index.html"

lint: $(VENV)/.tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

serve-check: $(VENV)/.tests $(VENV)-tensorflow-2.20/complete $(VENV)-openvino/complete
	$(BIN)/python -m tests.serving.check --tensorflow $(VENV)-tensorflow-2.20/bin/python --openvino $(VENV)-openvino/bin/python $(ARGS)

# The file marks that the extra of this name is installed, on machines with NVIDIA GPUs TensorFlow's CUDA libraries too.
$(VENV)/.%: setup.py pyproject.toml | $(VENV)/complete
	@echo "Installing keras_headattn with what its $* need ($(if $(GPU),CUDA libraries too,about 2 GB), once)"
	@$(BIN)/python -m pip install --quiet --editable ".[$*$(GPU)]"
	@touch $@

# Not bin/python, which is there before pip is.
$(VENV)/complete:
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)-tensorflow-2.20/complete: PACKAGES = tensorflow==2.20.0 tensorflow-text==2.20.1
$(VENV)-openvino/complete: PACKAGES = openvino==2026.4.1
# Without TensorFlow; the wheel of PyTorch brings CUDA libraries, about 4 GB, and is not imported without them.
$(VENV)-torch/complete: PACKAGES = "torch>=2.13" "keras>=3.15" onnx onnxruntime pytest matplotlib safetensors
$(VENV)-%/complete:
	@echo 'Installing $(PACKAGES), once'
	@$(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m pip install --quiet $(PACKAGES)
	@touch $@

clean:
	rm -rf $(VENV) $(VENV)-* build docs/reference *.egg-info
