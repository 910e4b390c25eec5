package handlers

import (
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Loggers are this process's loggers by name, with their levels.
type Loggers interface {
	Levels() map[string]string
	// SetLevel changes the level of a logger that exists, to one of LogLevels.
	SetLevel(logger, level string)
}

// LogLevels are what a logger can be set to, in Kafka's names.
var LogLevels = []string{"DEBUG", "ERROR", "FATAL", "INFO", "TRACE", "WARN"}

const rootLogger = "root"

// alterLoggers changes levels at once: they are no cluster metadata.
func (a *alteration) alterLoggers(res *alteredResource) *apiError {
	id, err := strconv.ParseInt(res.name, 10, 32)
	if err != nil {
		return invalidRequest("Node id must be an integer, but it is: %s", res.name)
	}
	if int32(id) != a.b.NodeID {
		return invalidRequest("Unexpected node id. Expected %d, but received %s", a.b.NodeID, res.name)
	}
	levels := a.b.Loggers.Levels()
	for _, c := range res.changes {
		if failed := checkLoggerChange(levels, c); failed != nil {
			return failed
		}
	}
	if a.validateOnly {
		return &apiError{}
	}
	for _, c := range res.changes {
		level := levels[rootLogger] // what a logger without a level of its own has
		if c.op == kmsg.IncrementalAlterConfigOpSet {
			level = *c.value
		}
		a.b.Loggers.SetLevel(c.name, level)
	}
	return &apiError{}
}

func checkLoggerChange(levels map[string]string, c configChange) *apiError {
	if _, exists := levels[c.name]; !exists {
		return &apiError{kerr.InvalidConfig.Code, "Logger " + c.name + " does not exist!"}
	}
	switch c.op {
	case kmsg.IncrementalAlterConfigOpSet:
		if !slices.Contains(LogLevels, *c.value) {
			return &apiError{kerr.InvalidConfig.Code, "Cannot set the log level of " + c.name + " to " + *c.value +
				" as it is not a supported log level. Valid log levels are " + strings.Join(LogLevels, ", ")}
		}
	case kmsg.IncrementalAlterConfigOpDelete:
		if c.name == rootLogger {
			return invalidRequest("Removing the log level of the root logger is not allowed")
		}
	default:
		return invalidRequest("%s operation is not allowed for the BROKER_LOGGER resource", strings.ToUpper(c.op.String()))
	}
	return nil
}
