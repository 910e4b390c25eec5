package controller

import (
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/internal/config"
)

// newValue is what one setting makes of a property; nil removes it.
func (v *view) newValue(at metadata.ConfigResource, s setting, current map[string]string) (*string, *fault) {
	switch s.op {
	case kmsg.IncrementalAlterConfigOpSet:
		return s.value, nil
	case kmsg.IncrementalAlterConfigOpDelete:
		return nil, nil
	case kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract:
	default:
		return nil, bare(kerr.UnknownServerError) // as Kafka, which trips over it
	}
	if d := definition(at.Type, s.name); d == nil || d.Type != config.List || s.value == nil {
		return nil, notAList(s)
	}
	items := v.listItems(at.Type, s.name, current)
	for _, item := range strings.Split(*s.value, ",") {
		at := slices.Index(items, item)
		switch {
		case s.op == kmsg.IncrementalAlterConfigOpAppend && at < 0:
			items = append(items, item)
		case s.op == kmsg.IncrementalAlterConfigOpSubtract && at >= 0:
			items = slices.Delete(items, at, at+1)
		}
	}
	value := strings.Join(items, ",")
	return &value, nil
}

// definition finds what Kafka's KafkaConfigSchema knows: topics' and brokers' properties.
func definition(t metadata.ResourceType, name string) *config.Def {
	switch t {
	case metadata.TopicResource:
		return config.TopicDefs.Lookup(name)
	case metadata.BrokerResource:
		return config.BrokerDefs.Lookup(name)
	}
	return nil
}

func notAList(s setting) *fault {
	verb := "APPEND"
	if s.op == kmsg.IncrementalAlterConfigOpSubtract {
		verb = "SUBTRACT"
	}
	return refuse(kerr.InvalidConfig, "Can't %s to key %s because its type is not LIST.", verb, s.name)
}

// listItems is the list that a change starts from: the override, or the definition's default.
func (v *view) listItems(t metadata.ResourceType, name string, current map[string]string) []string {
	text, set := current[name]
	if !set && t == metadata.TopicResource {
		text, _ = config.Layers{}.TopicText(name, nil)
	} else if !set {
		text = config.Layers{}.Text(name)
	}
	return slices.DeleteFunc(strings.Split(text, ","), func(item string) bool { return item == "" })
}

// checkConfigs checks a resource's properties as they will be, and that it exists: in this order, as Kafka does.
func (v *view) checkConfigs(a alteration, next map[string]string) *fault {
	switch a.at.Type {
	case metadata.TopicResource:
		return v.checkTopicConfigs(a.at.Name, next)
	case metadata.BrokerResource:
		return checkBrokerName(a.at.Name)
	case metadata.GroupResource:
		if a.at.Name == "" {
			return refuse(kerr.InvalidRequest, "Default group resources are not allowed.")
		}
		if err := v.config.ValidateGroup(next); err != nil {
			return refuse(kerr.InvalidConfig, "%s", err)
		}
	case metadata.ClientMetricsResource:
		return checkClientMetrics(a.at.Name, next)
	}
	return nil
}

func checkBrokerName(name string) *fault {
	switch id, err := strconv.ParseInt(name, 10, 32); {
	case name == "":
		return nil
	case err != nil:
		return refuse(kerr.InvalidRequest, "Unable to parse broker name as a base 10 number.")
	case id < 0:
		return refuse(kerr.InvalidRequest, "Invalid negative broker ID.")
	}
	return nil
}

func (v *view) checkTopicConfigs(name string, next map[string]string) *fault {
	if name == "" {
		return refuse(kerr.InvalidRequest, "Default topic resources are not allowed.")
	}
	if f := checkTopicName(name); f != nil {
		return f
	}
	if err := v.config.ValidateTopic(next); err != nil {
		return refuse(kerr.InvalidConfig, "%s", err)
	}
	if v.image.Topic(name) == nil {
		return refuse(kerr.UnknownTopicOrPartition, "The topic '%s' does not exist.", name)
	}
	return nil
}

func checkClientMetrics(name string, next map[string]string) *fault {
	if name == "" {
		return refuse(kerr.InvalidRequest, "Subscription name can't be empty")
	}
	invalidRequest, err := config.ValidateClientMetrics(next)
	switch {
	case err == nil:
		return nil
	case invalidRequest:
		return refuse(kerr.InvalidRequest, "%s", err)
	}
	return refuse(kerr.InvalidConfig, "%s", err)
}
