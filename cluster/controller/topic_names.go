package controller

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"grete/cluster/metadata"
)

const maxTopicNameBytes = 249 // Topic.MAX_NAME_LENGTH

// checkTopicName is Kafka's Topic.validate; nil is a valid name.
func checkTopicName(name string) *fault {
	reason := ""
	switch {
	case name == "":
		reason = "the empty string is not allowed"
	case name == "." || name == "..":
		reason = "'" + name + "' is not allowed"
	case len(name) > maxTopicNameBytes && legalTopicChars(name) || len([]rune(name)) > maxTopicNameBytes:
		reason = "the length of '" + name + "' is longer than the max allowed length 249"
	case !legalTopicChars(name):
		reason = "'" + name + "' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
	default:
		return nil
	}
	return refuse(kerr.InvalidTopicException, "Topic name is invalid: %s", reason)
}

func legalTopicChars(name string) bool {
	for i := range len(name) {
		c := name[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// collision returns the name of an existing topic that differs from name in dots and underscores alone, "" when there
// is none: their metrics would have the same name.
func collision(im *metadata.Image, name string) string {
	at := strings.IndexAny(name, "._")
	if at < 0 {
		return ""
	}
	// Every candidate starts with what precedes the first dot or underscore.
	for t := range im.TopicsFrom(name[:at]) {
		if !strings.HasPrefix(t.Name, name[:at]) {
			return ""
		}
		if collides(t.Name, name) {
			return t.Name
		}
	}
	return ""
}

// collides says whether two names are the same but for dots and underscores.
func collides(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if unified(a[i]) != unified(b[i]) {
			return false
		}
	}
	return true
}

func unified(c byte) byte {
	if c == '.' {
		return '_'
	}
	return c
}
