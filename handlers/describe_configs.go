package handlers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/internal/config"
	"grete/protocol"
)

// DescribeConfigs describes topics, this broker, its loggers, the brokers' defaults, groups and client metrics
// subscriptions. One resource of an unknown type spoils the whole request, as in Kafka.
func DescribeConfigs(b *Broker, _ context.Context, r *protocol.Request) {
	req := r.Body.(*kmsg.DescribeConfigsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeConfigsResponse)
	spoilt := unknownResource(req)
	for i := range req.Resources {
		d := configDescription{b: b, req: req, resource: &req.Resources[i]}
		entries, err := []kmsg.DescribeConfigsResponseResourceConfig(nil), spoilt
		if spoilt == nil {
			entries, err = d.entries()
		}
		result := kmsg.NewDescribeConfigsResponseResource()
		result.ResourceType, result.ResourceName = d.resource.ResourceType, d.resource.ResourceName
		result.ErrorMessage = kmsg.StringPtr("")
		if err != nil {
			result.ErrorCode, result.ErrorMessage = err.Code, &err.Message
		}
		result.Configs = d.selected(entries)
		resp.Resources = append(resp.Resources, result)
	}
	r.Respond(resp)
}

// describable are the resource types that have configurations.
var describable = []kmsg.ConfigResourceType{
	kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger,
	kmsg.ConfigResourceTypeClientMetrics, kmsg.ConfigResourceTypeGroupConfig,
}

func unknownResource(req *kmsg.DescribeConfigsRequest) *apiError {
	for _, res := range req.Resources {
		if !slices.Contains(describable, res.ResourceType) {
			return invalidRequest(invalidRequestMessage)
		}
	}
	return nil
}

// configDescription describes one resource of a request.
type configDescription struct {
	b        *Broker
	req      *kmsg.DescribeConfigsRequest
	resource *kmsg.DescribeConfigsRequestResource
}

// apiError is an error as it goes to a client.
type apiError struct {
	Code    int16
	Message string
}

func invalidRequest(format string, args ...any) *apiError {
	return &apiError{kerr.InvalidRequest.Code, fmt.Sprintf(format, args...)}
}

func (d *configDescription) entries() ([]kmsg.DescribeConfigsResponseResourceConfig, *apiError) {
	name := d.resource.ResourceName
	switch d.resource.ResourceType {
	case kmsg.ConfigResourceTypeTopic:
		return d.topic(name)
	case kmsg.ConfigResourceTypeBroker:
		return d.broker(name)
	case kmsg.ConfigResourceTypeBrokerLogger:
		return d.loggers(name)
	case kmsg.ConfigResourceTypeClientMetrics:
		if name == "" {
			return nil, invalidRequest("Client metrics subscription name must not be empty")
		}
		return d.encode(config.DescribeClientMetrics(d.b.Image().Configs(metadata.ClientMetricsResource, name))), nil
	default: // a group
		if name == "" {
			return nil, invalidRequest("Group name must not be empty")
		}
		return d.encode(d.b.config().DescribeGroup(d.b.Image().Configs(metadata.GroupResource, name))), nil
	}
}

func (d *configDescription) topic(name string) ([]kmsg.DescribeConfigsResponseResourceConfig, *apiError) {
	if message := checkTopicName(name); message != "" {
		return nil, &apiError{kerr.InvalidTopicException.Code, message}
	}
	if d.b.Image().Topic(name) == nil {
		return nil, &apiError{Code: kerr.UnknownTopicOrPartition.Code}
	}
	return d.encode(d.b.config().DescribeTopic(d.b.Image().Configs(metadata.TopicResource, name))), nil
}

func (d *configDescription) broker(name string) ([]kmsg.DescribeConfigsResponseResourceConfig, *apiError) {
	own, clusterDefault := d.b.dynamicConfigs()
	if name == "" {
		return append(d.encode(d.b.config().DescribeBroker(true)), d.dynamics(clusterDefault, config.FromClusterDefault, false)...), nil
	}
	id, err := strconv.ParseInt(name, 10, 32)
	if err != nil {
		return nil, invalidRequest("Broker id must be an integer, but it is: %s", name)
	}
	if int32(id) != d.b.NodeID {
		return nil, invalidRequest("Unexpected broker id, expected %d or empty string, but received %s", d.b.NodeID, name)
	}
	all := append(d.encode(d.b.config().DescribeBroker(false)), d.dynamics(own, config.FromBroker, true)...)
	return append(all, d.dynamics(clusterDefault, config.FromClusterDefault, true)...), nil
}

// dynamics are values of one layer whose names are no properties of the static configuration. Names that nobody defined
// may be secrets of some plugin: where they are listed, their values are hidden.
func (d *configDescription) dynamics(values map[string]string, source config.Source, strangers bool) []kmsg.DescribeConfigsResponseResourceConfig {
	var out []kmsg.DescribeConfigsResponseResourceConfig
	for _, name := range slices.Sorted(maps.Keys(values)) {
		def := config.DynamicDefs.Lookup(name)
		if config.BrokerDefs.Lookup(name) != nil || def == nil && !strangers {
			continue
		}
		c := kmsg.NewDescribeConfigsResponseResourceConfig()
		c.Name, c.Source = name, kmsg.ConfigSource(source)
		if def == nil {
			c.ReadOnly, c.IsSensitive = true, true
		} else {
			c.Value, c.ConfigType = kmsg.StringPtr(values[name]), kmsg.ConfigType(def.Type)
		}
		if d.req.IncludeSynonyms {
			c.ConfigSynonyms = encodeSynonyms([]config.Setting{{Name: name, Value: c.Value, Source: source}})
		}
		out = append(out, c)
	}
	return out
}

func (d *configDescription) loggers(name string) ([]kmsg.DescribeConfigsResponseResourceConfig, *apiError) {
	if name == "" {
		return nil, invalidRequest("Broker id must not be empty")
	}
	id, err := strconv.ParseInt(name, 10, 32)
	if err != nil {
		return nil, invalidRequest("Broker id must be an integer, but it is: %s", name)
	}
	if int32(id) != d.b.NodeID {
		return nil, invalidRequest("Unexpected broker id, expected %d but received %s", d.b.NodeID, name)
	}
	levels := d.b.Loggers.Levels()
	var out []kmsg.DescribeConfigsResponseResourceConfig
	for _, logger := range slices.Sorted(maps.Keys(levels)) {
		c := kmsg.NewDescribeConfigsResponseResourceConfig()
		c.Name, c.Value, c.Source = logger, kmsg.StringPtr(levels[logger]), kmsg.ConfigSourceDynamicBrokerLoggerConfig
		c.Documentation = new(string)
		out = append(out, c)
	}
	return out, nil
}

func (d *configDescription) encode(all []config.Described) []kmsg.DescribeConfigsResponseResourceConfig {
	out := make([]kmsg.DescribeConfigsResponseResourceConfig, 0, len(all))
	for _, e := range all {
		c := kmsg.NewDescribeConfigsResponseResourceConfig()
		c.Name, c.Value, c.IsSensitive = e.Def.Name, e.Value, e.Def.Sensitive()
		c.Source, c.ConfigType = kmsg.ConfigSource(e.Source), kmsg.ConfigType(e.Def.Type)
		c.ReadOnly = e.Def.Update == config.ReadOnly
		if d.req.IncludeSynonyms {
			c.ConfigSynonyms = encodeSynonyms(e.Synonyms)
		}
		if d.req.IncludeDocumentation {
			c.Documentation = &e.Def.Doc
		}
		out = append(out, c)
	}
	return out
}

func encodeSynonyms(all []config.Setting) []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym {
	out := make([]kmsg.DescribeConfigsResponseResourceConfigConfigSynonym, 0, len(all))
	for _, s := range all {
		c := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
		c.Name, c.Value, c.Source = s.Name, s.Value, kmsg.ConfigSource(s.Source)
		out = append(out, c)
	}
	return out
}

// selected keeps the names asked for; none means all.
func (d *configDescription) selected(all []kmsg.DescribeConfigsResponseResourceConfig) []kmsg.DescribeConfigsResponseResourceConfig {
	if len(d.resource.ConfigNames) == 0 {
		return all
	}
	return slices.DeleteFunc(all, func(c kmsg.DescribeConfigsResponseResourceConfig) bool {
		return !slices.Contains(d.resource.ConfigNames, c.Name)
	})
}

// dynamicConfigs are this broker's dynamic values and the cluster's default ones.
func (b *Broker) dynamicConfigs() (own, clusterDefault map[string]string) {
	im := b.Image()
	return im.Configs(metadata.BrokerResource, strconv.Itoa(int(b.NodeID))), im.Configs(metadata.BrokerResource, "")
}
