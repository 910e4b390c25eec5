#!/usr/bin/env bash
# Stock clients, Kafka's tools, franz-go's own suite, Streams, Connect and checked histories under faults against
# bin/grete. What they need is fetched into compat-tests/.cache; a client whose toolchain is missing is skipped with
# the reason. COMPAT_TARGET=kafka runs the same against Apache Kafka.
set -euo pipefail
cd "$(dirname "$0")"
# One package at a time: each starts brokers and JVMs of its own, and two cores are little; but clients mostly wait, so
# four of a package's parallel tests run side by side. -v prints why a test is skipped.
go test -count=1 -p 1 -parallel 4 -v -timeout 30m ./clients ./tools ./kgosuite ./cluster ./compaction ./faults ./streams ./connect ./history/...
