# dlqbench: `make run` judges the reference consumer, `make test` passes the tests. Only Go is needed.
# Everything else here is for those who work on dlqbench itself.

SHELL := /bin/bash
export CGO_ENABLED = 0
GO       ?= go
SCENARIO ?= dlq-publish-failure
LINT     := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
ACTIONLINT := github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
BENCHSTAT := golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da
GORELEASER := github.com/goreleaser/goreleaser/v2@v2.15.1
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

# With PARTS=n, the targets that say so do every n-th piece of their work, other ones for each commit: CI has little time, and sees all of it in n
# commits. Without it they do everything. Which pieces is up to SLICE, the number of commits up to this one: it grows by one with each. A shallow clone does
# not have it, and takes the commit's hash: then chance decides when a piece has its turn, and make says so. Set SLICE there to a number that grows.
PARTS ?= 1
ifeq ($(origin SLICE),undefined)
ifeq ($(shell git rev-parse --is-shallow-repository 2>/dev/null),false)
SLICE := $(shell git rev-list --count HEAD)
else
SLICE  = $(shell echo 'slices: no history to count commits in, so chance decides which come when; set SLICE to a number that grows, such as the number of the build' >&2; \
	printf '%d' 0x$$(git rev-parse --short=7 HEAD 2>/dev/null || echo 1))
endif
endif
PART   = awk '(NR + $(SLICE)) % $(PARTS) == 0'

.PHONY: build run test test-browser test-modules test-kafka test-docker test-kubernetes test-install race lint vet scenarios scenarios-kafka prove prove-short prove-agreement prove-runs prove-library prove-suite strangers strangers-bugs strangers-slow strangers-short parity-links apps learn corpus corpus-runs fuzz bench licenses workflows figures snapshot schemas docs clean

# The compiler spends 15 to 30 % of its time on a large package in its garbage collector, as each package is compiled by
# a process that starts with a small heap. It may use a GiB instead, which only the largest packages need. The variables are set for
# this command alone: what dlqbench and the tests measure runs with Go's defaults.
build:
	$(COMPILING) $(GO) build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o dlqbench ./cmd/dlqbench

run: build
	./dlqbench run $(SCENARIO)

# The quick tests, the program's own scripts included. They need Go alone: they install and download nothing but Go
# modules, and skip what needs a program that is not here. The proof (make prove) and the shipped scenarios
# (make scenarios) take minutes and are run apart. Many tests wait for runs, so twice as many packages are tested at a time
# as there are processors. The compilers are given what they are given in make build; vet runs apart (make vet, make lint).
COMPILING := GOGC=off GOMEMLIMIT=1GiB
test:
	$(GO) test -short -p $$((2 * $$(getconf _NPROCESSORS_ONLN))) -vet=off -ldflags '-s -w' -toolexec 'env $(COMPILING)' ./...
	@echo "not run here: pages in a browser (make test-browser needs Chromium), the modules beside (make test-modules), the tests with real brokers (make test-kafka needs Java and Maven), with containers (.ci/docker.sh), and the proof (make prove)"

# The pages, in Chromium or Chrome.
test-browser:
	DLQBENCH_BROWSER=1 $(GO) test -count=1 -short -run Browser ./internal/testkit/browsertest \
		$$(git grep -l testkit/browsertest -- '*_test.go' | xargs -n1 dirname | sort -u | sed 's,^,./,')

# Tests that need so much from others that they are modules of their own: a store on FerretDB (in place of MongoDB), the alerts in Prometheus' own rule engine.
test-modules:
	cd test/ferretdb && $(GO) vet ./... && $(GO) test ./...
	cd test/alerts && $(GO) vet ./... && $(GO) test ./...

# The tests with Apache Kafka as processes: a cluster with TLS, SASL and ACLs; and, in PARTS, the provider itself, clients in Go, Java and Python through
# the tap, drills. What can't be run here is skipped, with the reason.
test-kafka: build
	./dlqbench kafka install
	DLQBENCH_KAFKA_TESTS=1 $(GO) test -count=1 -p 1 -v ./internal/env/cluster/external ./test/external \
		$$($(GO) list ./internal/env/cluster/process ./test/... | grep -v -e /external -e /containers -e /services | $(PART)) \
		| grep -E '^(ok|FAIL|panic|---|    ---|exit status)|_test\.go:'; exit $${PIPESTATUS[0]}

# The tests with containers, in PARTS, and one run. .ci/docker.sh make test-docker: it starts an engine where there is none, and makes an image of Kafka.
test-docker: build
	$(GO) test -count=1 -p 1 $$($(GO) list ./internal/env/cluster/docker ./internal/env/postgres ./test/containers ./test/drill | $(PART))
	./dlqbench run --quiet --cluster docker --image "$(DLQBENCH_DOCKER_IMAGE)" dlq-publish-failure

# A campaign on a Kubernetes cluster: DLQBENCH_KUBECONFIG, DLQBENCH_KUBERNETES_IMAGE and DLQBENCH_KUBERNETES_PROGRAM, the
# dlqbench of the image, name what it needs; it is skipped without them.
test-kubernetes:
	$(GO) test -count=1 -v -run TestCampaignOnKubernetes ./cmd/dlqbench

# Scenarios on three brokers of Apache Kafka, one after another: those that also run on the embedded one, and those that only a real Kafka shows.
ON_KAFKA ?= dlq-publish-failure share-group \
	producer-fenced min-isr-lost coordinator-reload leader-epochs frozen-broker rolling-brokers dlq-broker-killed share-broker-letters
scenarios-kafka: build
	./dlqbench run --quiet --cluster process --set cluster.brokers=3 $(ON_KAFKA)

# The race detector needs cgo, hence a C compiler. Only what starts goroutines of its own: consumer, store and workers, faults, taps, workload, harness, drills, live
# views. Pages in a browser are left out, and so is cmd/dlqbench: it has flags and no logic, and its scripts run what these tests run. In PARTS.
RACED := ./assertions ./consumer ./store/... ./faults ./faults/... ./history \
	./scenarios ./internal/env/cluster/... ./internal/drill/... ./internal/run ./internal/livemetrics ./internal/env/storewatch ./internal/env/subject ./internal/env/tap ./internal/tui ./internal/env/workload
race:
	CGO_ENABLED=1 $(GO) test -race -short -skip Browser $$($(GO) list $(RACED) | $(PART))

lint:
	$(GO) run $(LINT) run ./...

# Users sit on Linux and macOS, amd64 and arm64: all four must build and vet. On Windows the program builds, and says
# which commands need WSL. In PARTS: one of each system always, the others in turn.
vet:
	for target in linux/amd64 darwin/arm64 $$(printf '%s\n' linux/arm64 darwin/amd64 | $(PART)); do \
		echo "vet $$target"; GOOS=$${target%/*} GOARCH=$${target#*/} $(GO) vet ./... || exit 1; \
	done
	GOOS=windows GOARCH=amd64 $(GO) build -o /dev/null ./cmd/dlqbench

# Every shipped scenario that the reference consumer can run (make apps runs registry-outage), judged; side by side where that can't disturb what is measured.
scenarios: build
	./dlqbench run --quiet --parallel 4 $$(./dlqbench list --cluster embedded --reference | awk '/^  / {print $$1}')

# That verdicts can be trusted: planted bugs are caught, correct consumers never accused, those that others wrote among them, checkers agree with their
# definitions. It takes hours; docs/proof.md has the tables. Longer still: PROVE="soundness --first 100000 --runs 100000 --for 8h".
prove: build
	$(if $(PROVE),,./dlqbench prove completeness --suite default)
	./dlqbench prove $(or $(PROVE),--strangers test/strangers)
	$(if $(PROVE),,$(MAKE) prove-agreement AGREEMENT='-seeds 50000')

# Which planted bugs the shipped scenarios name. It takes many hours, so it goes on, for a time, from the runs in docs/data, and writes the tables of
# docs/proof.md again. It ends with an error until every bug has a scenario that names it with all seeds; the runs count all the same.
FOR      ?= 1h
MEASURED := docs/data/completeness.json
prove-library: build
	-./dlqbench prove completeness --suite library --quiet --for $(FOR) --resume $(MEASURED)
	$(GO) test ./internal/verify -run TestTheDocumentSaysWhatWasMeasured -update

# Which planted bugs of ordinary consumers the suite of dlqbench init names, in PARTS.
SUITE_SEEDS ?= 5
prove-suite: build
	./dlqbench prove completeness --suite default --quiet --parallel 4 --first $$(($(SLICE) * 5)) --seeds $(SUITE_SEEDS) \
		$$(./dlqbench demo --all | $(PART) | awk '{print "--bug", $$1}')

# Correct consumers in Go, Python, Java and JavaScript that know nothing of dlqbench, in the shipped scenarios. What this machine can't build is told as SKIPPED.
# Before them, those that are told to make mistakes, and a service with records and calls of its own, also with a mistake.
STRANGERS ?= --runs 600
strangers: build strangers-bugs
	$(GO) test -count=1 ./test/services
	./dlqbench prove strangers --strangers test/strangers $(STRANGERS)

# Strangers in scenarios in which it is known what must be said about them: those with mistakes, and some without. In PARTS.
BUGGED = $$(sed -n 's/^\t\t"\(.*\.yaml\)": *{.*/\1/p' internal/verify/strangers_bugs_test.go | $(PART))
strangers-bugs:
	for one in $(BUGGED); do $(GO) test -count=1 -v -timeout 30m -run "TestBugsOfAStrangerAreNamed/^$${one//\//\$$/^}\$$" \
		./internal/verify || exit 1; done

# Each scenario that applies to all of them, under each of four conditions that are legal and slow: sessions of 45 s with eager assignment, ready after
# 10 s, commits every 5 s, 30 s of retries for each record.
strangers-slow: build
	./dlqbench prove strangers --strangers test/strangers --parallel 3 --runs 148 \
		$(addprefix --stranger stranger-,eager-range slow-start commits-every-5s patient)

# The applications of examples/apps, by their own suites, as they are and with planted bugs. In PARTS.
APPS = $$(for app in examples/apps/*/; do app=$$(basename $$app); echo $$app/correct; for bug in test/apps/$$app/*.patch; do \
	echo $$app/$$(basename $$bug .patch); done; done | $(PART))
apps:
	for one in $(APPS); do DLQBENCH_APPS=1 $(GO) test -count=1 -v -timeout 10m -run "TestApps/^$${one%/*}$$/^$${one#*/}$$" \
		./test/apps || exit 1; done

# Six of those runs, the next ones with each commit.
strangers-short: build
	./dlqbench prove strangers --strangers test/strangers --quiet --parallel 3 --first $$(($(SLICE) * 6)) --runs 6

# That links through a toxiproxy server give the verdicts that links of dlqbench's own give: each shipped scenario with a network fault, every toxic
# once, and planted bugs that such scenarios name. docs/toxiproxy.md has the table.
LINKED = $(shell grep -l 'network:' scenarios/library/*.yaml | xargs -n1 basename -s .yaml | grep -v '^registry-') test/toxiproxy/every-toxic.yaml \
	dlq-link-down:commit-before-dlq-ack downstream-outage:one-retry-too-many ragged-links:metadata-missing
parity-links: build
	./dlqbench parity $(LINKED) --on embedded --on toxiproxy:start

# That what dlqbench learn finds out about consumers is what their authors promise. In PARTS.
LEARNED := go claims ledger orders payments receipts shipments franz-go sarama confluent-kafka aiokafka java kafkajs
learn:
	$(GO) test -count=1 -v -timeout 20m ./internal/learn -run \
		"TestContractsAreLearned/^($$(printf '%s\n' $(LEARNED) | $(PART) | paste -sd '|' -))$$" \
		| grep -E '^(ok|FAIL|panic|---|    ---)|_test\.go:'; exit $${PIPESTATUS[0]}

# The same in minutes: each planted bug once, in PARTS, and runs with other seeds for each commit. The generated histories are the same for each commit,
# because a landing must not be refused for a disagreement that it did not cause and that chance found. The nightly workflow sets AGREEMENT to judge others.
AGREEMENT ?= -seeds 2000
prove-short: prove-agreement prove-runs
prove-agreement:
	$(GO) test -count=1 -timeout 0 -v ./internal/verify/agreement -run 'Agree$$' $(AGREEMENT)
prove-runs: build
	./dlqbench prove completeness --quiet --parallel 6 --first $$(($(SLICE) * 20)) --seeds 1 \
		$$(./dlqbench demo --all | $(PART) | awk '{print "--bug", $$1}')
	./dlqbench prove soundness --quiet --parallel 6 --first $$(($(SLICE) * 20)) --runs 10000 --for 30s

# The net under a redesign of the judges. `make corpus-runs` with a build that is trusted fills the corpus: every shipped scenario,
# every planted bug, soundness's modes. It takes about half an hour and 150 MB. `make corpus` then judges all of it in seconds, with
# the code as it stands, and tells each verdict, count or example that changed.
CORPUS ?= runs/corpus
corpus-runs: build
	rm -rf $(CORPUS)
	-./dlqbench run --quiet --parallel 4 --out $(CORPUS)/scenarios $$(./dlqbench list --cluster embedded --reference | awk '/^  / {print $$1}')
	-./dlqbench prove completeness soundness --quiet --keep-runs --out $(CORPUS)/proof --parallel 4 --seeds 1 --runs 100
	$(GO) run ./internal/verify/corpus -accept $(CORPUS)
corpus:
	$(GO) run ./internal/verify/corpus $(CORPUS)

# Some fuzzing for everything that decodes what comes from outside. A number of inputs, not a time: at the end of a time, Go before 1.27 now and then
# reports "context deadline exceeded" as a failure of the target (go.dev/issue/75804).
# In PARTS.
FUZZRUNS ?= 30000
fuzz:
	@grep -ro --include='*_test.go' '^func Fuzz[A-Za-z0-9]*' . | sort | $(PART) | while IFS=: read -r file target; do \
		dir=$$(dirname $$file) target=$${target#func }; echo "$$dir $$target"; \
		$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZRUNS)x -fuzzminimizetime 100x $$dir </dev/null || exit 1; \
	done

# What dlqbench costs: ROUNDS rounds, in each of which all ways of doing the same work have their turn, and benchstat's
# comparison of the ways. See docs/performance.md. For example BENCH='Produce|Run' ROUNDS=3 BENCHFLAGS=-real.
BENCH  ?= .
ROUNDS ?= 6
bench: build
	mkdir -p runs && $(GO) test -c -o runs/cost.test ./internal/cost
	set -o pipefail; cd internal/cost && for round in $$(seq $(ROUNDS)); do \
		../../runs/cost.test -test.run '^$$' -test.bench '$(BENCH)' -test.benchtime 1x $(BENCHFLAGS) || exit 1; \
	done | tee ../../runs/bench.txt
	$(GO) run $(BENCHSTAT) -col /way runs/bench.txt

# go install of a version works with nothing of ours on the machine: from a module proxy made of this commit.
test-install:
	ci/test-install.sh

# The licences of all modules in the binary are permissive, and NOTICE repeats their notices. Release archives contain
# the file that this writes.
licenses:
	ci/licenses.sh dist/THIRD_PARTY_LICENSES

# The workflows in .github are what GitHub takes.
workflows:
	$(GO) run $(ACTIONLINT) -color=false

# Lines of code, modules, and the size of the binary; docs/development.md has them.
figures: build
	ci/figures.sh $(FIGURES)

# The release, without publishing it: dist/ gets archives, checksums and SBOMs. Building goreleaser takes minutes the
# first time. SNAPSHOT=--skip=... leaves out what this machine can't do.
SNAPSHOT ?= $(if $(shell command -v syft),,--skip=sbom) $(if $(shell docker buildx version 2>/dev/null),,--skip=docker)
snapshot:
	$(GO) run $(GORELEASER) release --snapshot --clean $(SNAPSHOT)

schemas:
	$(GO) generate ./scenarios ./reports ./internal/gate ./internal/bench

# The pages of docs/invariants and docs/faults, from what dlqbench explain says.
docs: build
	./dlqbench explain --pages docs

clean:
	rm -rf dlqbench runs dist
