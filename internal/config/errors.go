package config

import (
	"errors"
	"maps"
	"slices"
)

var (
	// ErrUnknownTopicConfig and its kin name a property nobody knows; the texts are Kafka's.
	ErrUnknownTopicConfig         = errors.New("Unknown topic config name")
	ErrUnknownGroupConfig         = errors.New("Unknown group config name")
	ErrUnknownClientMetricsConfig = errors.New("Unknown client metrics configuration")
	// ErrTieredStorage: remote.storage.enable without the remote log storage system.
	ErrTieredStorage = errors.New("Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage.")
)

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
