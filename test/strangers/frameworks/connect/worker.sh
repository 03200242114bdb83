#!/bin/sh
# A worker of Kafka Connect in standalone mode, as connect-standalone.sh starts one, whose failed tasks are restarted
# through its REST interface every five seconds, as operators do (Strimzi's autoRestart). CONFIG is the folder with
# worker.properties and connector.properties, REST the worker's address.
java -Xmx192m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp 'src/main/resources:target/libs/*' \
	org.apache.kafka.connect.cli.ConnectStandalone "$CONFIG/worker.properties" "$CONFIG/connector.properties" &
worker=$!
trap 'kill -TERM $worker' TERM INT
(
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
