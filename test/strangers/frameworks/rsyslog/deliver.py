#!/usr/bin/env python3
"""Delivers what rsyslog's omprog writes, a record in each line, and confirms it as omprog's documentation says: "OK",
or a text that makes rsyslog try again."""

import sys
import urllib.error
import urllib.request


def deliver(line):
    """Returns None when the reading is delivered or refused for good, else why it is to be tried again."""
    request = urllib.request.Request(sys.argv[1] + "/v1/attempt", data=line.encode(), method="POST")
    try:
        urllib.request.urlopen(request, timeout=1).read()
    except urllib.error.HTTPError as error:
        if error.code in (429, 503):
            return str(error)
        print(f"error: refused for good: {error}: {line[:80]}", file=sys.stderr, flush=True)
    except OSError as error:
        return repr(error)


def confirm(text):
    print(text, flush=True)


if __name__ == "__main__":
    confirm("OK")
    for line in sys.stdin:
        failure = deliver(line.rstrip("\n"))
        confirm("OK" if failure is None else f"Error: {failure}")
