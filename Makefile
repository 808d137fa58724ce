# nat-go. `make demo` and `make test` do all the set-up they need on a machine with Go, a C compiler, make and Rust.
# Three targets run tests: test, verify and verify-full. They differ in what they need.

GO        ?= go
CACHE     := $(abspath .cache)
# tokenizers: link the tokenizer library. The other tags disable two unused features of gRPC and the validator that
# would force the linker to keep every exported method in the program: 5 MB, half of it resident.
TAGS      := tokenizers,grpcnotrace,validator_novalidatefn
# The folder that holds libtokenizers.a, which is found, downloaded or built once and then kept in the user's cache.
LIBDIR     = $(shell sh collator/tokenizer/lib.sh 2>/dev/null | tail -n 1)
WITH_LIB   = CGO_LDFLAGS="-L$(LIBDIR) $$CGO_LDFLAGS"
FUZZTIME  ?= 10s
# The target architecture: amd64 or arm64.
ARCH      ?= amd64
LINT_VERSION := v2.15.0
VALE_VERSION := v3.21.0
ACTIONLINT_VERSION := v1.7.12
# Nothing here needs debug information, which takes a tenth of the compiler's time. All targets share the flags, and
# therefore the build cache.
NO_DEBUG  := -gcflags=all=-dwarf=false
export GOFLAGS := $(filter-out $(NO_DEBUG),$(shell $(GO) env GOFLAGS)) $(NO_DEBUG)
# The user documentation, whose wording is checked.
PAGES      = README.md CONTRIBUTING.md $(shell find builders collator configs examples kernels plugins ttc/ledger -name '*.md' \
	-not -path '*/testdata/*' -not -path '*/.venv/*' -not -path '*/out/*')

.PHONY: help demo trial test build wheel release image portable lib lint words gen bench same pace fuzz verify verify-full referee clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' Makefile

# The first part of the demo doesn't need a tokenizer. If nothing is built yet, it skips the tokenizer library, which
# needs Rust and takes most of a cold build's time; make build then reuses the packages compiled here from the build
# cache.
BUILT := $(wildcard bin/nat-go)
demo: $(if $(BUILT),build,trial) ## set up, then turn a real NAT run into a preference data set; after make build: all of the demo
	@sh examples/demo/run.sh $(or $(BUILT),$(CACHE)/trial/nat-go first)

trial:
	GOGC=off GOMEMLIMIT=768MiB $(GO) build -tags $(TAGS:tokenizers,%=%) -ldflags '-s -w' -o $(CACHE)/trial/nat-go ./cmd/nat-go

test: lib ## set up, then run the tests that need nothing else
	@$(WITH_LIB) sh .ci/test $(TAGS) -short

# The compiler spends a quarter of its time collecting garbage. Without that, it needs a few hundred MiB more for its
# largest package. Its output, and where the build cache keeps it, remain the same.
build: lib ## build bin/nat-go
	$(WITH_LIB) GOGC=off GOMEMLIMIT=768MiB $(GO) build -tags $(TAGS) -ldflags '-s -w' -o bin/nat-go ./cmd/nat-go

wheel: portable ## write the Python wheel to dist, for every Linux with glibc 2.17 or newer; ARCH=arm64: the other one
	@rm -f dist/nat_go-*_$(if $(filter arm64,$(ARCH)),aarch64,x86_64).whl
	$(GO) run ./cmd/dist -binary bin/portable/$(ARCH)/nat-go wheel

# Needs a clean checkout of a tag; on any other commit, the version is a Go pseudo-version.
release: ## write all that publishing takes to dist: wheels, archives, sources, a bill of materials, checksums
	rm -rf dist
	for arch in amd64 arm64; do \
		.ci/portable $$arch && $(GO) run ./cmd/dist -binary bin/portable/$$arch/nat-go wheel archive || exit 1; \
	done
	$(GO) run ./cmd/dist -binary bin/portable/amd64/nat-go sdist bill checksums

image: portable ## write a container image of the same program to dist, for docker load and registries
	@rm -f dist/*.oci.tar
	$(GO) run ./cmd/dist -binary bin/portable/$(ARCH)/nat-go image

portable:
	.ci/portable $(ARCH)

lib: ## fetch or build libtokenizers, once
	@sh collator/tokenizer/lib.sh >/dev/null

lint: lib $(CACHE)/bin/golangci-lint $(CACHE)/bin/natlint $(CACHE)/bin/actionlint words ## vet and lint
	$(CACHE)/bin/actionlint
	$(WITH_LIB) $(GO) vet -tags $(TAGS) ./...
	$(GO) vet ./...
	$(GO) vet -tags cshared -cgocall=false ./cmd/libnatgo
	$(WITH_LIB) $(GO) vet -tags $(TAGS) -vettool=$(CACHE)/bin/natlint ./...
	$(WITH_LIB) $(CACHE)/bin/golangci-lint run

words: $(CACHE)/bin/vale ## check spelling and style of the pages
	$(CACHE)/bin/vale --config .ci/vale/vale.ini --output line $(PAGES)

$(CACHE)/bin/vale:
	GOBIN=$(CACHE)/bin $(GO) install github.com/vale-cli/vale/v3/cmd/vale@$(VALE_VERSION)

$(CACHE)/bin/golangci-lint:
	GOBIN=$(CACHE)/bin $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)

$(CACHE)/bin/actionlint:
	GOBIN=$(CACHE)/bin $(GO) install github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT_VERSION)

$(CACHE)/bin/natlint: $(shell find .ci/lint -name '*.go' -not -path '*/testdata/*')
	cd .ci/lint && $(GO) test ./... && $(GO) build -o $@ .

gen: ## generate the protocol code, the kernels and the pages of settings and codes; leaves a clean tree clean
	sh plugins/proto/gen.sh
	sh kernels/_generate/gen.sh
	$(GO) run ./cmd/nat-go schema --markdown > configs/README.md
	$(GO) run ./cmd/nat-go explain --all > ttc/ledger/README.md

bench: lib ## measure, beside peers where they are installed
	$(WITH_LIB) $(GO) test -tags $(TAGS) -timeout 2h -run '^$$' -bench . -benchmem ./...

same: lib ## compare what a fixed set of jobs leaves, made in every way, with the committed hashes; UPDATE=1 writes them
	$(WITH_LIB) $(GO) test -tags $(TAGS) -count 1 ./cmd/nat-go/internal/e2e/same $(if $(UPDATE),-update)

pace: lib ## compare time and memory with another build, in turns: OLD=path/to/nat-go
	$(WITH_LIB) NATGO_PACE_OLD=$(abspath $(OLD)) $(GO) test -tags $(TAGS) -count 1 -v -timeout 30m -run TestPace ./cmd/nat-go/internal/e2e/pace

ORACLE = $(NATGO_CONFORMANCE)/chat
referee: TOKENIZER ?= $(ORACLE)/tokens/tokenizers/qwen2_5.json
referee: lib ## measure which stack trains which tokens and write the page; ROLLOUTS, TOOLS, TOKENIZER: files; PART=speed or rows
	.ci/trl-environment .cache/trl
	$(WITH_LIB) $(GO) build -tags $(TAGS) -o $(CACHE)/referee/nat-go ./cmd/nat-go
	NATGO=$(CACHE)/referee/nat-go .cache/trl/bin/python examples/referee/referee.py \
		--traces $(or $(ROLLOUTS),$(ORACLE)/traces/gpt-4o-airline-dev.json) --tools $(or $(TOOLS),$(ORACLE)/traces/tools.json) \
		--tokenizer $(TOKENIZER) $(if $(PART),--part $(PART))
	$(if $(PART),,.cache/trl/bin/python examples/referee/museum.py .cache/referee $(TOKENIZER))

fuzz: lib ## run every fuzzer for FUZZTIME
	@$(WITH_LIB) sh .ci/fuzz $(FUZZTIME)

verify: ## what CI runs: the above, all other tests, linters, wheel, fuzzers; installs some GB, and says what
	bash .ci/run

verify-full: ## soaks, all traces and long sweeps: hours
	bash .ci/verify-full

clean: ## remove what was built here
	rm -rf bin dist .cache out
