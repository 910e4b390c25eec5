package handlers

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/config"
	"grete/protocol"
)

// AlterConfigs replaces all of a resource's dynamic configuration. What concerns this broker alone is checked here,
// the rest by the controller.
func AlterConfigs(b *Broker, ctx context.Context, r *protocol.Request) {
	req := r.Body.(*kmsg.AlterConfigsRequest)
	a := alteration{b: b, r: r, validateOnly: req.ValidateOnly}
	for _, res := range req.Resources {
		out := alteredResource{kind: res.ResourceType, name: res.ResourceName}
		for _, c := range res.Configs {
			out.changes = append(out.changes, configChange{c.Name, kmsg.IncrementalAlterConfigOpSet, c.Value})
		}
		a.resources = append(a.resources, out)
	}
	a.precheck()
	rest := *req
	if rest.Resources = remaining(&a, req.Resources); len(rest.Resources) > 0 {
		answer, err := b.change(ctx, r, &rest)
		if decided, ok := answer.(*kmsg.AlterConfigsResponse); ok && err == nil {
			for _, d := range decided.Resources {
				a.decide(d.ResourceType, d.ResourceName, d.ErrorCode, d.ErrorMessage)
			}
		}
		a.decideRest(err)
	}
	resp := req.ResponseKind().(*kmsg.AlterConfigsResponse)
	for _, res := range a.resources {
		out := kmsg.NewAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName, out.ErrorCode, out.ErrorMessage = res.kind, res.name, res.result.Code, res.message()
		resp.Resources = append(resp.Resources, out)
	}
	r.Respond(resp)
}

// IncrementalAlterConfigs changes single entries (KIP-339), those of this broker's loggers too. kmsg's types of the two
// requests have nothing in common but their looks.
func IncrementalAlterConfigs(b *Broker, ctx context.Context, r *protocol.Request) {
	req := r.Body.(*kmsg.IncrementalAlterConfigsRequest)
	a := alteration{b: b, r: r, validateOnly: req.ValidateOnly, incremental: true}
	for _, res := range req.Resources {
		out := alteredResource{kind: res.ResourceType, name: res.ResourceName}
		for _, c := range res.Configs {
			out.changes = append(out.changes, configChange{c.Name, c.Op, c.Value})
		}
		a.resources = append(a.resources, out)
	}
	a.precheck()
	rest := *req
	if rest.Resources = remaining(&a, req.Resources); len(rest.Resources) > 0 {
		answer, err := b.change(ctx, r, &rest)
		if decided, ok := answer.(*kmsg.IncrementalAlterConfigsResponse); ok && err == nil {
			for _, d := range decided.Resources {
				a.decide(d.ResourceType, d.ResourceName, d.ErrorCode, d.ErrorMessage)
			}
		}
		a.decideRest(err)
	}
	resp := req.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
	for _, res := range a.resources {
		out := kmsg.NewIncrementalAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName, out.ErrorCode, out.ErrorMessage = res.kind, res.name, res.result.Code, res.message()
		resp.Resources = append(resp.Resources, out)
	}
	r.Respond(resp)
}

// alteration is either request, in one form.
type alteration struct {
	b                         *Broker
	r                         *protocol.Request
	resources                 []alteredResource
	places                    map[resourceKey]int // in resources, once the controller has answered
	validateOnly, incremental bool
}

type alteredResource struct {
	kind    kmsg.ConfigResourceType
	name    string
	changes []configChange
	result  *apiError // nil while it is for the controller to decide
}

type resourceKey struct {
	kind kmsg.ConfigResourceType
	name string
}

func (res *alteredResource) key() resourceKey { return resourceKey{res.kind, res.name} }

type configChange struct {
	name  string
	op    kmsg.IncrementalAlterConfigOp
	value *string
}

// message is null where there is nothing to say.
func (res *alteredResource) message() *string {
	if res.result.Message == "" {
		return nil
	}
	return &res.result.Message
}

func messageOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// remaining are the resources for the controller.
func remaining[T any](a *alteration, all []T) []T {
	var out []T
	for i, res := range a.resources {
		if res.result == nil {
			out = append(out, all[i])
		}
	}
	return out
}

// decide takes over what the controller said of a resource.
func (a *alteration) decide(kind kmsg.ConfigResourceType, name string, code int16, message *string) {
	if a.places == nil {
		a.places = make(map[resourceKey]int, len(a.resources))
		for i := range a.resources {
			a.places[a.resources[i].key()] = i
		}
	}
	if i, asked := a.places[resourceKey{kind, name}]; asked && a.resources[i].result == nil {
		a.resources[i].result = &apiError{code, messageOf(message)}
	}
}

// decideRest gives a result to the resources of which the controller said nothing.
func (a *alteration) decideRest(err error) {
	for i := range a.resources {
		if res := &a.resources[i]; res.result == nil {
			res.result = &apiError{Code: kerr.UnknownServerError.Code}
			if err != nil {
				res.result = &apiError{codeOf(err), err.Error()}
			}
		}
	}
}

// precheck gives a result to every resource that does not get as far as the controller.
func (a *alteration) precheck() {
	twice := repeated(a.resources, (*alteredResource).key)
	for i := range a.resources {
		res := &a.resources[i]
		if twice[res.key()] {
			res.result = invalidRequest("Each resource must appear at most once.")
		} else {
			res.result = a.check(res)
		}
	}
}

func (a *alteration) check(res *alteredResource) *apiError {
	var nulls []string
	seen := make(map[string]bool, len(res.changes))
	for _, c := range res.changes {
		if seen[c.name] {
			return invalidRequest("Error due to duplicate config keys")
		}
		seen[c.name] = true
		if c.value == nil && c.op != kmsg.IncrementalAlterConfigOpDelete {
			nulls = append(nulls, c.name)
		}
	}
	if len(nulls) > 0 {
		return invalidRequest("Null value not supported for : %s", strings.Join(nulls, ", "))
	}
	logger := res.kind == kmsg.ConfigResourceTypeBrokerLogger
	switch res.kind {
	case kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeClientMetrics, kmsg.ConfigResourceTypeGroupConfig:
	default:
		if !logger || !a.incremental {
			return invalidRequest("Unknown resource type %d", int8(res.kind))
		}
	}
	// Before a broker's new values are looked at: to read a key store that they name is not for everyone to ask for.
	denied := a.b.mayConfig(a.r, kmsg.ACLOperationAlterConfigs, res.kind, res.name)
	switch {
	case denied != nil && (logger || res.kind == kmsg.ConfigResourceTypeBroker):
		return &apiError{Code: denied.Code}
	case denied != nil:
		return denied
	case logger:
		return a.alterLoggers(res)
	case res.kind == kmsg.ConfigResourceTypeBroker:
		return a.checkBroker(res)
	}
	return nil
}

// checkBroker: values for one broker go to that broker, which knows whether it can take them.
func (a *alteration) checkBroker(res *alteredResource) *apiError {
	if res.name != "" {
		id, err := strconv.ParseInt(res.name, 10, 32)
		if err != nil {
			return invalidRequest("Node id must be an integer, but it is: %s", res.name)
		}
		if int32(id) != a.b.NodeID {
			return invalidRequest("Unexpected broker id, expected %d, but received %s", a.b.NodeID, res.name)
		}
	}
	values, failed := a.resultingBrokerConfig(res)
	if failed != nil {
		return failed
	}
	current := a.b.config()
	err := current.ValidateDynamicBroker(values, res.name != "")
	if err == nil && a.b.CheckSecurity != nil {
		next := current.WithDynamic(values, current.ClusterDefault)
		if res.name == "" {
			next = current.WithDynamic(current.Broker, values)
		}
		err = a.b.CheckSecurity(next)
	}
	if err != nil {
		return invalidRequest("%s", err)
	}
	return nil
}

// resultingBrokerConfig is what the resource's dynamic values will be.
func (a *alteration) resultingBrokerConfig(res *alteredResource) (map[string]string, *apiError) {
	values := map[string]string{}
	if a.incremental {
		own, current := a.b.dynamicConfigs()
		if res.name != "" {
			current = own
		}
		for name, value := range current {
			values[name] = value
		}
	}
	for _, c := range res.changes {
		switch c.op {
		case kmsg.IncrementalAlterConfigOpSet:
			values[c.name] = *c.value
		case kmsg.IncrementalAlterConfigOpDelete:
			delete(values, c.name)
		case kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract:
			if failed := changeList(values, c); failed != nil {
				return nil, failed
			}
		default:
			return nil, invalidRequest("Unknown operations type %d", int8(c.op))
		}
	}
	return values, nil
}

func changeList(values map[string]string, c configChange) *apiError {
	d := config.BrokerDefs.Lookup(c.name)
	verb := "append"
	if c.op == kmsg.IncrementalAlterConfigOpSubtract {
		verb = "subtract"
	}
	switch {
	case d == nil:
		return &apiError{kerr.InvalidConfig.Code, "Unknown config name: " + c.name}
	case d.Type != config.List:
		return &apiError{kerr.InvalidConfig.Code, "Config value " + verb + " is not allowed for config key: " + c.name}
	}
	current, set := values[c.name]
	if !set {
		current = config.Layers{}.Text(c.name)
	}
	items := config.SplitList(current)
	for _, item := range config.SplitList(*c.value) {
		at := slices.Index(items, item)
		if verb == "append" && at < 0 {
			items = append(items, item)
		} else if verb == "subtract" && at >= 0 {
			items = slices.Delete(items, at, at+1)
		}
	}
	values[c.name] = strings.Join(items, ",")
	return nil
}
