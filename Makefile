# Bare `make` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
GOFLAGS_STATIC := CGO_ENABLED=0
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
ROOMS := ./...
FUZZTIME ?= 15s

# PLATFORMS are those that the program builds for. CI runs the tests on Linux alone.
PLATFORMS := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 freebsd/amd64 freebsd/arm64 windows/amd64

.PHONY: help build run test unit race fuzz compat oracle bench lint vuln platforms long mutants clean

help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  \1\t/' | expand -t 12

build: ## build bin/grete, one static binary
	$(GOFLAGS_STATIC) go build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/grete ./cmd/broker

run: build ## build and start a broker: data in ./data, listening on localhost:9092
	./bin/grete serve

test: lint unit compat oracle ## everything: lint, unit, compat and oracle tests; fetches what it needs

unit: ## the fast tests beside the code
	go test $(ROOMS)

race: ## the fast tests under the race detector
	go test -race $(ROOMS)

fuzz: ## every native fuzz target for FUZZTIME (15s) each
	bash scripts/fuzz.sh $(FUZZTIME)

compat: build ## stock clients and Kafka's tools against bin/grete
	bash compat-tests/run.sh

oracle: build ## wire scenarios: our answers against those recorded from Kafka 4.4; says why it skips
	cd compat-tests && go test -v -count=1 -timeout 20m ./oracle/... | grep -vE '^ *(=== |--- PASS)'

bench: build ## figures against the floor and Kafka in one run; writes docs/BENCHMARKS.md (ONLY=cluster: those of three brokers)
	cd compat-tests && go run ./bench $(if $(ONLY),-only $(ONLY)) -out ../docs/BENCHMARKS.md

long: ## the long targets: crash clones, recovery, histories, 10,000 simulated hours (hours)
	GRETE_LONG=1 go test -timeout 12h $(ROOMS)

mutants: ## the simulation must be able to fail: rules taken out of the program, one at a time
	SIM_MUTANTS=1 go test -v -count=1 -timeout 4h -run TestMutants ./internal/sim

lint: platforms ## gofmt, tidy modules, vet, staticcheck of both modules, import directions, every platform
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); echo "run gofmt on the files above"; exit 1; }
	@bash scripts/tidy.sh
	go vet $(ROOMS)
	go run $(STATICCHECK) $(ROOMS)
	go test ./internal/archtest/
	cd compat-tests && go vet ./... && go run $(STATICCHECK) ./...

vuln: ## known vulnerabilities in what both modules call; needs https://vuln.go.dev, or GOVULNDB=URL of another database
	@bash scripts/vuln.sh

platforms: ## build and vet the program for every platform
	@for p in $(PLATFORMS); do \
	  export GOOS=$${p%/*} GOARCH=$${p#*/} CGO_ENABLED=0; \
	  go build -o /dev/null ./cmd/broker && go vet $(ROOMS) || { echo "$$p fails"; exit 1; }; \
	done

clean: ## remove what was built
	rm -rf bin
