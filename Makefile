# dlqbench: `make run` judges the reference consumer, `make test` passes the tests. Only Go is needed.
# Everything else here is for those who work on dlqbench itself.

export CGO_ENABLED = 0
GO       ?= go
SCENARIO ?= dlq-publish-failure
LINT     := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

.PHONY: build run test race lint vet scenarios mutants bench schemas fuzz clean

build:
	$(GO) build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o dlqbench ./cmd/dlqbench

run: build
	./dlqbench run $(SCENARIO)

# The quick tests, the program's own scripts included. The planted bugs (make mutants) and the shipped scenarios (make scenarios)
# take minutes and are run apart.
test:
	$(GO) test -short ./...

# The race detector needs cgo, hence a C compiler.
race:
	CGO_ENABLED=1 $(GO) test -race -short ./...

lint:
	$(GO) run $(LINT) run ./...

# Users sit on Linux and macOS, amd64 and arm64: all four must build and vet.
vet:
	for target in linux/amd64 linux/arm64 darwin/amd64 darwin/arm64; do \
		echo "vet $$target"; GOOS=$${target%/*} GOARCH=$${target#*/} $(GO) vet ./... || exit 1; \
	done

# Every shipped scenario, judged with the reference consumer.
scenarios: build
	./dlqbench run --quiet $$(./dlqbench list | awk '{print $$1}')

# Every planted bug must be named, and the correct consumer must pass the very same scenario.
mutants:
	$(GO) test -count=1 -v -parallel 2 -timeout 20m ./internal/proof

# What dlqbench costs, as ratios measured in turns: see docs/performance.md. For example BENCH="-only 1,5 -json figures.json".
bench: build
	$(GO) run ./internal/bench -dlqbench ./dlqbench $(BENCH)

schemas:
	$(GO) generate ./scenarios ./reports

clean:
	rm -rf dlqbench runs dist
