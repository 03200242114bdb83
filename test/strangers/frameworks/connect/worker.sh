#!/bin/sh
# A worker of Kafka Connect in standalone mode, as connect-standalone.sh starts one, or, with the argument distributed, as
# connect-distributed.sh does. Its failed tasks are restarted through its REST interface every five seconds, as operators
# do (Strimzi's autoRestart). CONFIG is the folder with worker.properties and connector.properties or, for a distributed
# worker, connector.json; REST is the worker's address.
if [ "${1:-}" = distributed ]; then
	set -- ConnectDistributed "$CONFIG/worker.properties"
else
	set -- ConnectStandalone "$CONFIG/worker.properties" "$CONFIG/connector.properties"
fi
main=$1
shift
java -Xmx192m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp 'src/main/resources:target/libs/*' \
	"org.apache.kafka.connect.cli.$main" "$@" &
worker=$!
trap 'kill -TERM $worker' TERM INT
(
	if [ "$main" = ConnectDistributed ]; then
		until curl -sf -o /dev/null -X PUT -H 'Content-Type: application/json' --data "@$CONFIG/connector.json" \
			"$REST/connectors/payments/config"; do
			sleep 1 && kill -0 $worker || exit
		done
	fi
	while sleep 5 && kill -0 $worker; do
		curl -s -o /dev/null -X POST "$REST/connectors/payments/restart?includeTasks=true&onlyFailed=true"
	done
) 2>/dev/null &
wait $worker
code=$?
while kill -0 $worker 2>/dev/null; do # a trap interrupts the wait
	wait $worker
	code=$?
done
exit $code
