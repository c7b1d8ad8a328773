# `make translate` runs the main job, `make test` the tests, `make docs` writes the documentation as HTML. Each makes its own
# environment first.
PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.13 || command -v python3)
VENV ?= .venv
BIN = $(VENV)/bin
GPU := $(shell command -v nvidia-smi > /dev/null && echo ,gpu)
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: translate test docs lint clean

translate: $(VENV)/.recipes
	$(BIN)/python -m recipes.translate $(ARGS)

test: $(VENV)/.tests
	$(BIN)/python -m pytest -n auto --dist loadscope --no-loadscope-reorder $(ARGS)

docs: $(VENV)/.docs
	$(BIN)/sphinx-build -q -E -W --keep-going -c docs . build/docs
	@echo "Written: build/docs/index.html"

lint: $(VENV)/.tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# The file marks that the extra of this name is installed, on machines with NVIDIA GPUs TensorFlow's CUDA libraries too.
$(VENV)/.%: setup.py | $(VENV)/complete
	@echo "Installing keras_headattn with what its $* need ($(if $(GPU),CUDA libraries too,about 2 GB), once)"
	@$(BIN)/python -m pip install --quiet --editable ".[$*$(GPU)]"
	@touch $@

# Not bin/python, which is there before pip is.
$(VENV)/complete:
	$(PYTHON) -m venv $(VENV)
	@touch $@

clean:
	rm -rf $(VENV) build docs/reference *.egg-info
