#!/usr/bin/env bash
# subjects.sh [hexkit] [pyrallel-consumer]: judges these published packages from PyPI, both by default, on the embedded
# broker and, where Kafka is installed, on a process broker. Where a package breaks its own document (docs/findings),
# exactly that must be found: the script fails when a finding is gone, and when there is another one. A run that is
# inconclusive, because the machine stood still, says neither; the script fails if there are more than two of them. Exit
# code 77: nothing was run, and one line says why. DLQBENCH is the program (default: ./dlqbench).
set -u
cd "$(dirname "$0")/.."
program=$(realpath "${DLQBENCH:-./dlqbench}")
[ -x "$program" ] || { echo "no program at $program: make build"; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

[ $# -gt 0 ] || set -- hexkit pyrallel-consumer
for subject in "$@"; do
	(cd "subjects/$subject" && sh ../venv.sh) >"$work/venv.log" 2>&1
	code=$?
	if [ $code -eq 77 ] || { [ $code -ne 0 ] &&
		grep -qiE 'connection|resolve|timed out|no matching distribution' "$work/venv.log"; }; then
		echo "skipped: subjects/$subject can't be built here: $(tail -n 1 "$work/venv.log")"
		exit 77
	fi
	[ $code -eq 0 ] || { cat "$work/venv.log"; exit 1; }
done

# judge NAME REQUIRED ALLOWED ARGUMENTS…: runs a scenario; its anomalies must be all of REQUIRED, and none that is
# neither there nor in ALLOWED.
judge() {
	local name=$1 required=$2 allowed=$3 began=$SECONDS
	shift 3
	# How punctual the load is does not matter here: a busy machine must not make the runs inconclusive.
	"$program" run --quiet --out "$work/$name" "$@" --set expect.max_slip=10s >"$work/$name.log" 2>&1
	local code=$?
	# One instance in some hundreds never comes back from pyrallel-consumer's own clean-up (docs/findings), and tells
	# where it stands. There, and nowhere else, a stop may hang.
	if grep -qs ' in _cleanup$' "$work/$name"/latest/logs/instance-*.log; then
		allowed="$allowed graceful-stop/stop-timeout"
		grep -h -A 30 '^Timeout (' "$work/$name"/latest/logs/instance-*.log
	fi
	if "$python" - "$work/$name/latest/verdict.json" "$code" "$required" "$allowed" \
		>"$work/$name.said" 2>&1 <<'PYTHON'
import json, sys

path, code, required, allowed = sys.argv[1], int(sys.argv[2]), set(sys.argv[3].split()), set(sys.argv[4].split())
with open(path, encoding="utf-8") as file:
    verdict = json.load(file)
found = {f"{one['name']}/{anomaly['name']}" for one in verdict["invariants"] for anomaly in one["anomalies"] or []}
wrong = [f"unexpected: {name}" for name in sorted(found - required - allowed)]
if code == 4 and not wrong:
    print("; ".join(verdict["reasons"]))
    sys.exit(4)
wrong += [f"not found: {name}" for name in sorted(required - found)]
if not required and code != 0 and not found:
    wrong.append(f"exit code {code}: {verdict['verdict']} {verdict.get('reasons')}")
print("; ".join(wrong) or (f"{len(found)} findings, as expected" if found else "pass"))
sys.exit(bool(wrong))
PYTHON
	then
		echo "ok    $name ($((SECONDS - began)) s): $(cat "$work/$name.said")"
	elif [ $? -eq 4 ]; then
		echo "OPEN  $name ($((SECONDS - began)) s): $(cat "$work/$name.said")" | tee -a "$work/open"
	else
		echo "WRONG $name ($((SECONDS - began)) s): $(cat "$work/$name.said")"
		sed 's/^/      /' "$work/$name.log"
		for log in "$work/$name"/latest/logs/instance-*.log; do
			echo "      --- the end of $(basename "$log")"
			tail -n 40 "$log" | cut -c 1-300 | sed 's/^/      /'
		done
		return 1
	fi
}

stalled="no-loss/stalled liveness/stalled"
hexkit=subjects/hexkit pyrallel=subjects/pyrallel-consumer
python=subjects/$1/.venv/bin/python
kafka=$("$program" kafka list 2>/dev/null | grep -c jars)
command -v java >/dev/null || kafka=0
[ "$kafka" -gt 0 ] || echo "no process broker here (Java and dlqbench kafka install): only the embedded one"

# defaults NAME PYTHON-FOLDER PROGRAM: the program says what of the defaults is not as the document has it.
defaults() {
	if env -u KAFKA_MAX_RETRIES "$2/.venv/bin/python" -c "$3" >"$work/$1.said" 2>&1; then
		echo "ok    $1"
	else
		echo "WRONG $1: $(tail -n 1 "$work/$1.said")"
		return 1
	fi
}

hexkit_lane() {
	local wrong=0
	defaults hexkit-defaults $hexkit '
from hexkit.providers.akafka.config import KafkaConfig
c = KafkaConfig(service_name="s", service_instance_id="i", kafka_servers=["k"])
said = (c.kafka_max_retries, c.kafka_enable_dlq, c.kafka_dlq_topic, c.kafka_retry_backoff)
assert said == (0, False, "dlq", 0), said' || wrong=1
	judge hexkit-no-retries "" "" hexkit-dlq --subject $hexkit/no-retries.yaml || wrong=1
	judge hexkit-dlq "" "" hexkit-dlq --subject $hexkit/no-backoff.yaml || wrong=1
	judge hexkit-retry-topic "" "" hexkit-retry-topic --subject $hexkit/subject.yaml || wrong=1
	judge hexkit-dlq-off "" "" hexkit-dlq-off --subject $hexkit/no-dlq.yaml || wrong=1
	judge hexkit-non-ascii "no-loss/stalled" "$stalled" hexkit-dlq --subject $hexkit/no-backoff.yaml \
		--set workload.error_text=non-ascii || wrong=1
	[ "$kafka" -eq 0 ] ||
		judge hexkit-dlq-kafka "" "" hexkit-dlq --subject $hexkit/no-backoff.yaml --cluster process || wrong=1
	return $wrong
}

pyrallel_lane() {
	local wrong=0
	defaults pyrallel-defaults $pyrallel '
from pyrallel_consumer import KafkaConfig
c = KafkaConfig(BOOTSTRAP_SERVERS=["k"], CONSUMER_GROUP="g")
e = c.parallel_consumer.execution
said = (e.max_retries, e.retry_backoff_ms, e.exponential_backoff, e.max_retry_backoff_ms, e.retry_jitter_ms,
    c.dlq_enabled, c.model_dump()["DLQ_TOPIC_SUFFIX"])
assert said == (3, 1000, True, 30000, 200, True, ".dlq"), said' || wrong=1
	judge pyrallel-retry-dlq "" "" parallel-consumer-retry-dlq --subject $pyrallel/async.yaml || wrong=1
	judge pyrallel-retry-dlq-process "" "" parallel-consumer-retry-dlq --subject $pyrallel/process.yaml || wrong=1
	judge pyrallel-silent "commit-after-dlq/commit-before-dlq" \
		"$stalled halt-on-dlq-failure/commit-advanced-while-dlq-down" \
		parallel-consumer-retry-dlq --subject $pyrallel/async.yaml --set workload.duration=12s --set workload.rate=30/s \
		--set 'workload.outcomes={success: 97, exhausted: 3}' \
		--set 'faults=[{at: 500ms, for: 11s, kafka: {api: Produce, topic: dlq, drop_request: true}}]' || wrong=1
	# Instances are killed, and a commit that fails in the rebalance is requested again after it (docs/findings, 6).
	judge pyrallel-dlq-off "" "liveness/stalled commit-after-outcome/commit-regressed" \
		parallel-consumer-dlq-off --subject $pyrallel/no-dlq.yaml || wrong=1
	judge pyrallel-refused "no-loss/lost commit-after-dlq/commit-without-dlq" \
		"$stalled halt-on-dlq-failure/commit-advanced-while-dlq-down" \
		dlq-publish-failure --subject $pyrallel/async.yaml || wrong=1
	# A record is only lost if it stands behind one that hangs, in the same batch: at the scenario's own rate that may
	# happen to none.
	judge pyrallel-timeouts "no-loss/stalled" "$stalled duplicates/duplicate backoff/backoff-late" \
		parallel-consumer-timeouts --subject $pyrallel/process.yaml --set workload.rate=300/s --set workload.duration=3s \
		--set 'workload.outcomes={success: 98, timeout: 2}' || wrong=1
	[ "$kafka" -eq 0 ] || judge pyrallel-timeouts-kafka "" "" parallel-consumer-timeouts \
		--subject $pyrallel/async.yaml --cluster process || wrong=1
	return $wrong
}

# Both packages mostly wait, so they are judged side by side.
lanes=() code=0
for subject in "$@"; do
	"${subject%-consumer}_lane" &
	lanes+=($!)
done
for lane in "${lanes[@]}"; do wait "$lane" || code=1; done
[ ! -e "$work/open" ] || [ "$(wc -l <"$work/open")" -le 2 ] || code=1
exit $code
