#!/bin/sh
# Copies strangers to the folder DIR, with clients of versions that many services still run:
#
#   sh test/strangers/older.sh DIR
#   dlqbench prove strangers --strangers DIR
#
# They are correct, but for the one on kafka-python 2.0.2, which may end when a broker does (docs/findings).
set -eu
from=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
cp "$from"/*.sh "$1"
to=$(cd "$1" && pwd)

# copy STRANGER VERSION FILE COMMAND: its sources, without what was built, and FILE changed by a command for sed.
copy() {
	name=$1-$(echo "$2" | tr . -)
	rm -rf "${to:?}/$name"
	mkdir "$to/$name"
	cd "$to/$name"
	(cd "$from/$1" && tar -c --exclude=.venv --exclude=node_modules --exclude=target --exclude=bin --exclude=subjects \
		--exclude='*.yaml' .) | tar -x
	sed "s/^name: .*/name: $name/" "$from/$1/subject.yaml" >subject.yaml
	change "$3" "$4"
}

change() { # change FILE COMMAND
	sed "$2" "$1" >"$1.new"
	mv "$1.new" "$1"
}

tidy() {
	rm go.sum
	go mod tidy
}

copy kafka-python 2.0.2 requirements.txt 's/^kafka-python==.*/kafka-python==2.0.2/'
change consumer.py 's/, "", -1)/, "")/' # its offsets have no leader epoch
copy kafka-python 2.2.15 requirements.txt 's/^kafka-python==.*/kafka-python==2.2.15/'
copy aiokafka 0.8.1 requirements.txt 's/^aiokafka==.*/aiokafka==0.8.1/'
echo kafka-python==2.0.2 >>requirements.txt # it takes any, and needs this one
copy aiokafka 0.10.0 requirements.txt 's/^aiokafka==.*/aiokafka==0.10.0/'
copy confluent-kafka 2.0.2 requirements.txt 's/^confluent-kafka==.*/confluent-kafka==2.0.2/'
copy confluent-kafka 2.6.2 requirements.txt 's/^confluent-kafka==.*/confluent-kafka==2.6.2/'
copy java 3.4.1 pom.xml '/kafka-clients/{n;s/>.*</>3.4.1</;}'
copy kafkajs 1.16.0 package.json 's/"kafkajs": ".*"/"kafkajs": "1.16.0"/'
change consumer.js "s/subscribe({ topics: \(.*\)\.split(','),/subscribe({ topic: \1,/" # it takes one topic
npm install --package-lock-only --legacy-peer-deps --no-audit --no-fund >/dev/null
copy sarama 1.38.1 go.mod 's#IBM/sarama v.*#Shopify/sarama v1.38.1#'
change main.go 's#IBM/sarama#Shopify/sarama#' && tidy
copy sarama 1.43.3 go.mod 's#IBM/sarama v.*#IBM/sarama v1.43.3#' && tidy
copy franz-go 1.15.4 go.mod 's#franz-go v.*#franz-go v1.15.4#' && tidy
copy kafka-go 0.4.38 go.mod 's#kafka-go v.*#kafka-go v0.4.38#' && tidy
