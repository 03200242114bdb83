#!/bin/sh
# rsyslog comes with the system: on Debian, the packages rsyslog and rsyslog-kafka.
if ! command -v rsyslogd >/dev/null; then
  echo "rsyslog is not installed"
  exit 77
fi
if ! rsyslogd -N1 -f check.conf >/dev/null 2>&1; then
  echo "rsyslog has no imkafka (package rsyslog-kafka) or no omprog"
  exit 77
fi
