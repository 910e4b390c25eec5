#!/usr/bin/env bash
# Stock clients, Kafka's tools and franz-go's own suite against bin/grete. What they need is fetched into
# compat-tests/.cache; a client whose toolchain is missing is skipped with the reason. COMPAT_TARGET=kafka runs the
# same against Apache Kafka.
set -euo pipefail
cd "$(dirname "$0")"
go vet ./...
# One package at a time: each starts brokers and JVMs of its own, and two cores are little.
go test -count=1 -p 1 -timeout 30m ./clients ./tools ./kgosuite 2>&1
go test -count=1 -v -run 'Toolchains' ./clients | grep -E -- '--- SKIP|toolchain|missing' || true
