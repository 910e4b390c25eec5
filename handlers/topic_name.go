package handlers

import (
	"fmt"
	"strings"
)

// maxTopicNameLength is Kafka's Topic.MAX_NAME_LENGTH.
const maxTopicNameLength = 249

// checkTopicName returns what is wrong with a topic's name, in Kafka's words, or "".
func checkTopicName(name string) string {
	const prefix = "Topic name is invalid: "
	switch {
	case name == "":
		return prefix + "the empty string is not allowed"
	case name == "." || name == "..":
		return prefix + "'" + name + "' is not allowed"
	case len(name) > maxTopicNameLength:
		return fmt.Sprintf("%sthe length of '%s' is longer than the max allowed length %d", prefix, name, maxTopicNameLength)
	case strings.ContainsFunc(name, func(r rune) bool { return !legalInTopicName(r) }):
		return prefix + "'" + name + "' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
	}
	return ""
}

func legalInTopicName(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("._-", r)
}
