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

# Targets compile with the same flags, so that they share what is in Go's build cache. No program here is linked
# with debugging information, and a sixth of the compiler's time would go into it.
PLAIN := $(shell $(GO) env GOFLAGS)
export GOFLAGS := $(strip $(PLAIN) -trimpath -gcflags=all=-dwarf=false)
# Tools of others are built as they are built elsewhere, so that the cache may have them already.
lint workflows snapshot: export GOFLAGS := $(PLAIN)

# With PARTS=n, a target that says "In PARTS" does every n-th piece of its work, and other pieces with each commit, so
# that n commits cover all of it. Without PARTS, it does everything. SLICE chooses the pieces: it is the number of
# commits up to this one. A shallow clone cannot count them and takes the commit's hash, so chance chooses; set SLICE
# there to a number that grows, such as the build's.
PARTS ?= 1
ifeq ($(origin SLICE),undefined)
ifeq ($(shell git rev-parse --is-shallow-repository 2>/dev/null),false)
SLICE := $(shell git rev-list --count HEAD)
else
SLICE  = $(shell echo 'PARTS: in a shallow clone, chance chooses the pieces; set SLICE to a number that grows' >&2; \
	printf '%d' 0x$$(git rev-parse --short=7 HEAD 2>/dev/null || echo 1))
endif
endif
PART   = awk '(NR + $(SLICE)) % $(PARTS) == 0'

.PHONY: build run test test-scripts test-browser test-modules test-kafka test-docker test-kubernetes test-install \
	race lint vet scenarios scenarios-kafka prove prove-short prove-agreement prove-runs prove-library prove-suite \
	strangers strangers-bugs strangers-slow strangers-short parity-links apps learn corpus corpus-runs fuzz bench \
	ratios allocations licenses workflows figures snapshot schemas docs clean

# Each package is compiled by a process of its own, which starts with a small heap and spends 15 to 30 % of its time
# on a large package in the garbage collector. COMPILING lets it use a GiB first, which only the largest packages
# need. It is set for the compilers alone: dlqbench and its tests run with Go's defaults.
build:
	$(COMPILING) $(GO) build -ldflags "-s -w -X main.version=$(VERSION)" -o dlqbench ./cmd/dlqbench

run: build
	./dlqbench run $(SCENARIO)

# The quick tests, with the scripts that run the program. They need only Go: they download Go modules, install
# nothing, and skip what needs a program that is missing. Many tests wait for runs, so twice as many packages are
# tested at a time as there are processors. vet has targets of its own (make vet, make lint).
COMPILING := GOGC=off GOMEMLIMIT=1GiB
test:
	$(GO) test -short -p $$((2 * $$(getconf _NPROCESSORS_ONLN))) -vet=off -ldflags '-s -w' \
		-toolexec 'env $(COMPILING)' ./...
	@echo 'Not run here: test-scripts, test-browser (Chromium), test-modules, test-kafka (Java, Maven), test-docker,' \
		'scenarios, prove.'

# The scripts that make test leaves out, because they start many runs or wait for sessions of Kafka.
test-scripts:
	$(GO) test -count=1 -run TestSlowScripts ./cmd/dlqbench

# The pages of reports and drills, in Chromium or Chrome.
test-browser:
	DLQBENCH_BROWSER=1 $(GO) test -count=1 -short -run Browser ./internal/testkit/browsertest \
		$$(git grep -l testkit/browsertest -- '*_test.go' | xargs -n1 dirname | sort -u | sed 's,^,./,')

# Tests that are modules of their own, because of their dependencies: a store on FerretDB (in place of MongoDB), and the
# alerts in Prometheus' rule engine. In PARTS.
test-modules:
	for module in $$(printf '%s\n' ferretdb alerts | $(PART)); do \
		(cd test/$$module && $(GO) vet ./... && $(GO) test -toolexec 'env $(COMPILING)' ./...) || exit 1; done

# The tests with Apache Kafka as processes: a cluster with TLS, SASL and ACLs, and, in PARTS, the provider itself,
# drills, and clients in Go, Java and Python through the tap. What can't be run here is skipped, with the reason.
test-kafka: build
	./dlqbench kafka install
	DLQBENCH_KAFKA_TESTS=1 $(GO) test -count=1 -p 1 -v ./internal/env/cluster/external ./test/external \
		$$($(GO) list ./internal/env/cluster/process ./test/... | \
			grep -v -e /external -e /containers -e /services | $(PART)) \
		| grep -E '^(ok|FAIL|panic|---|    ---|exit status)|_test\.go:'; exit $${PIPESTATUS[0]}

# The tests with containers, in PARTS, and one run. `.ci/docker.sh make test-docker` also starts an engine where none
# runs, and makes an image of Kafka.
test-docker: build
	$(GO) test -count=1 -p 1 $$($(GO) list ./internal/env/cluster/docker ./internal/env/postgres ./test/containers \
		./test/drill | $(PART))
	./dlqbench run --quiet --cluster docker --image "$(DLQBENCH_DOCKER_IMAGE)" dlq-publish-failure

# A campaign on a Kubernetes cluster, and runs across its pods. They need DLQBENCH_KUBECONFIG, DLQBENCH_KUBERNETES_IMAGE
# and, as the dlqbench of that image, DLQBENCH_KUBERNETES_PROGRAM; without them they are skipped.
test-kubernetes:
	$(GO) test -count=1 -timeout 50m -v -run OnKubernetes ./cmd/dlqbench

# Scenarios on three brokers of Apache Kafka, one after another: two that also run on the embedded one, those that only a
# real Kafka can run, and one with a consumer in a group that only a real Kafka has. In PARTS.
ON_KAFKA ?= dlq-publish-failure share-group \
	producer-fenced min-isr-lost coordinator-reload leader-epochs frozen-broker rolling-brokers dlq-broker-killed \
	share-broker-letters
STREAMS  := consumer-rolling-restart --subject test/strangers/frameworks/streams/protocol.yaml
scenarios-kafka: build
	part=$$(printf '%s\n' $(ON_KAFKA) streams | $(PART)); code=0; \
	own=$$(grep -vx streams <<<"$$part"); \
	[ -z "$$own" ] || ./dlqbench run --quiet --cluster process --set cluster.brokers=3 $$own || code=1; \
	! grep -qx streams <<<"$$part" || ./dlqbench run --quiet --cluster process $(STREAMS) || code=1; exit $$code

# The race detector, on the packages that start goroutines. It needs cgo, hence a C compiler. Pages in a browser are
# left out, and so is cmd/dlqbench: it has no logic, and its scripts run what these tests run. In PARTS.
RACED := ./assertions ./consumer ./store/... ./faults ./faults/... ./history \
	./scenarios ./internal/env/cluster/... ./internal/drill/... ./internal/run ./internal/livemetrics \
	./internal/env/storewatch ./internal/env/subject ./internal/env/tap ./internal/tui ./internal/env/workload
race:
	CGO_ENABLED=1 $(GO) test -race -short -skip Browser $$($(GO) list $(RACED) | $(PART))

lint:
	$(GO) run $(LINT) run ./...

# All platforms of users compile and vet: Linux and macOS, on amd64 and arm64. On Windows, the program does; it says
# there which commands need WSL.
vet:
	$(GO) build -o runs/vet ./ci/vet
	for target in linux/amd64 linux/arm64 darwin/amd64 darwin/arm64; do \
		echo "vet $$target"; GOOS=$${target%/*} GOARCH=$${target#*/} runs/vet ./... || exit 1; \
	done
	echo "vet windows/amd64"; GOOS=windows GOARCH=amd64 runs/vet -test=false ./cmd/dlqbench

# Every shipped scenario that the reference consumer can run (make apps runs registry-outage), judged. Scenarios run
# side by side where that can't disturb what is measured.
scenarios: build
	./dlqbench run --quiet --parallel 10 $$(./dlqbench list --cluster embedded --reference | awk '/^  / {print $$1}')

# Verdicts can be trusted: planted bugs are caught, correct consumers are never accused (those that others wrote among
# them), and the checkers agree with the reference checker. It takes hours; docs/proof.md sums it up. PROVE runs one
# proof, with other settings: PROVE="soundness --first 100000 --runs 100000 --for 8h".
prove: build
	$(if $(PROVE),,./dlqbench prove completeness --suite default)
	./dlqbench prove $(or $(PROVE),--strangers test/strangers)
	$(if $(PROVE),,$(MAKE) prove-agreement AGREEMENT='-seeds 50000')

# Which planted bugs the shipped scenarios name. That takes many hours, so it continues from the runs in docs/data for
# the time FOR, and writes the tables of docs/proof again. It ends with an error until every bug has a scenario
# that names it with all seeds; the runs count all the same.
FOR      ?= 1h
MEASURED := docs/data/completeness.json
prove-library: build
	-./dlqbench prove completeness --suite library --quiet --for $(FOR) --resume $(MEASURED)
	UPDATE_GOLDEN=1 $(GO) test ./internal/verify -run TestTheDocumentSaysWhatWasMeasured

# Which planted bugs of ordinary consumers the suite of dlqbench init names, in PARTS.
SUITE_SEEDS ?= 5
prove-suite: build
	./dlqbench prove completeness --suite default --quiet --parallel 4 --first $$(($(SLICE) * 5)) --seeds $(SUITE_SEEDS) \
		$$(./dlqbench demo --all | $(PART) | awk '{print "--bug", $$1}')

# Correct consumers in Go, Python, Java and JavaScript that were written without knowledge of dlqbench, in the shipped
# scenarios, and under faults that are drawn from the number of the run. One that this machine can't build is listed as
# SKIPPED. Before them, strangers-bugs, and a service with records and calls of its own, as it is and with a mistake.
STRANGERS ?= --runs 600
strangers: build strangers-bugs
	$(GO) test -count=1 ./test/services
	./dlqbench prove strangers --strangers test/strangers $(STRANGERS)
	./dlqbench prove strangers --strangers test/strangers $(STRANGERS) --drawn

# Strangers whose verdict in a scenario is known: with mistakes, and some without. In PARTS.
BUGGED = $$(sed -n 's/^\t\t"\(.*\.yaml\)": *{.*/\1/p' internal/verify/strangers_bugs_test.go | $(PART))
strangers-bugs:
	for one in $(BUGGED); do $(GO) test -count=1 -v -timeout 30m -run "TestBugsOfAStrangerAreNamed/^$${one//\//\$$/^}\$$" \
		./internal/verify || exit 1; done

# Four strangers that are slow in legal ways, in each scenario that applies to all of them: sessions of 45 s with eager
# assignment, ready after 10 s, commits every 5 s, 30 s of retries for each record.
strangers-slow: build
	./dlqbench prove strangers --strangers test/strangers --parallel 3 --runs 164 \
		$(addprefix --stranger stranger-,eager-range slow-start commits-every-5s patient)

# The applications of examples/apps, by their own suites, as they are and with planted bugs. In PARTS.
APPS = $$(for app in examples/apps/*/; do app=$$(basename $$app); echo $$app/correct; \
	for bug in test/apps/$$app/*.patch; do echo $$app/$$(basename $$bug .patch); done; done | $(PART))
apps:
	for one in $(APPS); do DLQBENCH_APPS=1 $(GO) test -count=1 -v -timeout 10m \
		-run "TestApps/^$${one%/*}$$/^$${one#*/}$$" ./test/apps || exit 1; done

# Four of the runs of make strangers in shipped scenarios, and four under drawn faults, others with each commit. The
# drawn ones recur after four rounds of all strangers: no change may be refused for what it did not cause and chance
# found.
SHORT = ./dlqbench prove strangers --strangers test/strangers --quiet --parallel 3 --runs 4
strangers-short: build
	$(SHORT) --first $$(($(SLICE) * 4))
	$(SHORT) --first $$(($(SLICE) * 4 % 472)) --drawn

# Links through a toxiproxy server give the verdicts that dlqbench's own links give, in each shipped scenario with a
# network fault, with every toxic once, and for planted bugs that such scenarios name. docs/toxiproxy.md has the table.
LINKED = $(shell grep -l 'network:' scenarios/library/*.yaml | xargs -n1 basename -s .yaml | grep -v '^registry-') \
	test/toxiproxy/every-toxic.yaml dlq-link-down:commit-before-dlq-ack downstream-outage:one-retry-too-many \
	ragged-links:metadata-missing
parity-links: build
	./dlqbench parity $(LINKED) --on embedded --on toxiproxy:start

# dlqbench learn writes the contract that the authors of thirteen consumers promise; for six of them it finds out what
# they read, write and call, too. In PARTS.
LEARNED := go claims ledger orders payments receipts shipments franz-go sarama confluent-kafka aiokafka java kafkajs \
	claims-from-its-command ledger-from-its-command orders-from-its-command payments-from-its-command \
	receipts-from-its-command shipments-from-its-command
learn:
	$(GO) test -count=1 -v -timeout 90m ./internal/learn -run \
		"TestContractsAreLearned/^($$(printf '%s\n' $(LEARNED) | $(PART) | paste -sd '|' -))$$" \
		| grep -E '^(ok|FAIL|panic|---|    ---)|_test\.go:'; exit $${PIPESTATUS[0]}

# The proof in minutes: each planted bug once, in PARTS, with other seeds for each commit. The generated histories are
# the same for each commit: no change may be refused for a disagreement that it did not cause and that chance found.
# The nightly workflow sets AGREEMENT to judge others.
AGREEMENT ?= -seeds 2000
prove-short: prove-agreement prove-runs
prove-agreement:
	$(GO) test -count=1 -timeout 0 -v ./internal/verify/agreement -run 'Agree$$' $(AGREEMENT)
prove-runs: build
	./dlqbench prove completeness --quiet --parallel 6 --first $$(($(SLICE) * 20)) --seeds 1 \
		$$(./dlqbench demo --all | $(PART) | awk '{print "--bug", $$1}')
	./dlqbench prove soundness --quiet --parallel 6 --first $$(($(SLICE) * 20)) --runs 10000 --for 30s

# Stored runs that guard a redesign of the judges. `make corpus-runs`, with a build that is trusted, fills the corpus
# with every shipped scenario, every planted bug and the modes of soundness, in about half an hour and 350 MB, and with
# the scenarios of scenarios-kafka on Apache Kafka, in seven minutes and 13 MB, where Java and Maven are there. `make
# corpus` then judges all of it in seconds with the code as it is, and prints each verdict, count and counterexample
# that changed.
CORPUS ?= runs/corpus
corpus-runs: build
	rm -rf $(CORPUS)
	-./dlqbench kafka install && ./dlqbench run --quiet --cluster process --set cluster.brokers=3 \
		--out $(CORPUS)/kafka $(ON_KAFKA)
	-./dlqbench run --quiet --parallel 4 --out $(CORPUS)/scenarios \
		$$(./dlqbench list --cluster embedded --reference | awk '/^  / {print $$1}')
	-./dlqbench prove completeness soundness --quiet --keep-runs --out $(CORPUS)/proof --parallel 4 --seeds 1 --runs 100
	$(GO) run ./internal/verify/corpus -accept $(CORPUS)
corpus:
	$(GO) run ./internal/verify/corpus $(CORPUS)

# Fuzzing of everything that decodes data from outside. FUZZRUNS is a number of inputs, not a time: at the end of a
# time, Go before 1.27 sometimes reports "context deadline exceeded" as a failure (go.dev/issue/75804). In PARTS.
FUZZRUNS ?= 30000
fuzz:
	@grep -ro --include='*_test.go' '^func Fuzz[A-Za-z0-9]*' . | sort | $(PART) | while IFS=: read -r file target; do \
		dir=$$(dirname $$file) target=$${target#func }; echo "$$dir $$target"; \
		$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZRUNS)x -fuzzminimizetime 100x $$dir </dev/null || exit 1; \
	done

# What the hot paths allocate: the recorder, the generator, the tap, the downstream stub, the judges. Unlike times,
# allocations hardly vary, so more of them than recorded are an error. UPDATE=-update records them.
ALLOCATED = $(GO) test -run '^$$' -benchmem
allocations:
	set -o pipefail; { \
		$(ALLOCATED) -benchtime 2x -bench '^Benchmark(Write|Read)$$' ./history && \
		$(ALLOCATED) -benchtime 2x -bench '^BenchmarkJudgeInMemory$$' ./assertions && \
		$(ALLOCATED) -count 2 -benchtime 200000x -bench '^Benchmark(Record|Build)$$' ./history ./internal/env/workload && \
		$(ALLOCATED) -count 3 -benchtime 5000x -bench '^Benchmark(RoundTrip|Stub)$$' ./internal/env/tap \
			./internal/env/workload; } \
		| $(GO) run ./internal/cost/allocations $(UPDATE) internal/cost/allocations/bounds.txt

# The overhead of dlqbench: ROUNDS rounds, in each of which all ways of doing the same work have their turn, and
# benchstat's comparison of the ways. See docs/performance.md. For example BENCH='Produce|Run' ROUNDS=3
# BENCHFLAGS=-real.
BENCH  ?= .
ROUNDS ?= 6
bench: build
	mkdir -p runs && $(GO) test -c -o runs/cost.test ./internal/cost
	set -o pipefail; cd internal/cost && for round in $$(seq $(ROUNDS)); do \
		../../runs/cost.test -test.run '^$$' -test.bench '$(BENCH)' -test.benchtime 1x $(BENCHFLAGS) || exit 1; \
	done | tee ../../runs/bench.txt
	$(GO) run $(BENCHSTAT) -col /way runs/bench.txt

# The ratios of make bench that are recorded: an error if the median of the rounds is below all that was recorded.
# ADD=-add records them. As processor time is measured, other work disturbs them less; nothing else should run beside.
ratios: build
	mkdir -p runs && $(GO) test -c -o runs/cost.test ./internal/cost
	set -o pipefail; cd internal/cost && for round in 1 2 3 4 5; do \
		../../runs/cost.test -test.run '^$$' -test.bench '^Benchmark(Produce|Consume|Reference)$$' -test.benchtime 1x \
		|| exit 1; done | $(GO) run ./ratios $(ADD) ratios/recorded.txt

# `go install` of a version works with an empty GOPATH, from a module proxy made of this commit.
test-install:
	ci/test-install.sh

# The licences of all modules in the binary are permissive, and NOTICE repeats their notices. Release archives contain
# the file that this writes.
licenses:
	ci/licenses.sh dist/THIRD_PARTY_LICENSES

# The workflows in .github are valid.
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
docs:
	UPDATE_GOLDEN=1 $(GO) test -run TestPagesSayWhatExplainSays ./cmd/dlqbench

clean:
	rm -rf dlqbench runs dist
