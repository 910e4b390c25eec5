package controller

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
)

// Both config requests go the way of Kafka's ConfigurationControlManager. The broker that got the request has checked
// it first as its ConfigAdminManager does: repeated keys, null values, and what concerns brokers' own properties. Here
// a request names each resource once, and each resource is altered whole or refused.

// setting is what a request wants of one property; a nil value removes it.
type setting struct {
	name  string
	op    kmsg.IncrementalAlterConfigOp
	value *string
}

// alteration is what a request wants of one resource.
type alteration struct {
	at       metadata.ConfigResource
	settings []setting
	reset    bool // what is not named goes back to its default (AlterConfigs)
}

func (v *view) alterConfigs(req *kmsg.AlterConfigsRequest) ([]metadata.Record, *kmsg.AlterConfigsResponse) {
	resp := req.ResponseKind().(*kmsg.AlterConfigsResponse)
	alterations := make([]alteration, len(req.Resources))
	for i, r := range req.Resources {
		a := alteration{at: resourceOf(r.ResourceType, r.ResourceName), reset: true}
		for _, c := range r.Configs {
			a.settings = append(a.settings, setting{c.Name, kmsg.IncrementalAlterConfigOpSet, c.Value})
		}
		alterations[i] = a
	}
	records := v.alterAll(alterations, req.ValidateOnly, func(i int, f *fault) {
		r := kmsg.NewAlterConfigsResponseResource()
		r.ResourceType, r.ResourceName = req.Resources[i].ResourceType, req.Resources[i].ResourceName
		r.ErrorCode, r.ErrorMessage = f.fields()
		resp.Resources = append(resp.Resources, r)
	})
	return records, resp
}

func (v *view) incrementalAlterConfigs(req *kmsg.IncrementalAlterConfigsRequest) ([]metadata.Record, *kmsg.IncrementalAlterConfigsResponse) {
	resp := req.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
	alterations := make([]alteration, len(req.Resources))
	for i, r := range req.Resources {
		a := alteration{at: resourceOf(r.ResourceType, r.ResourceName)}
		for _, c := range r.Configs {
			a.settings = append(a.settings, setting{c.Name, c.Op, c.Value})
		}
		alterations[i] = a
	}
	records := v.alterAll(alterations, req.ValidateOnly, func(i int, f *fault) {
		r := kmsg.NewIncrementalAlterConfigsResponseResource()
		r.ResourceType, r.ResourceName = req.Resources[i].ResourceType, req.Resources[i].ResourceName
		r.ErrorCode, r.ErrorMessage = f.fields()
		resp.Resources = append(resp.Resources, r)
	})
	return records, resp
}

func resourceOf(t kmsg.ConfigResourceType, name string) metadata.ConfigResource {
	return metadata.ConfigResource{Type: metadata.ResourceType(t), Name: name}
}

// alterAll answers every alteration in order and returns the records of those that succeed.
func (v *view) alterAll(alterations []alteration, validateOnly bool, answer func(i int, f *fault)) []metadata.Record {
	named := map[metadata.ConfigResource]int{}
	for _, a := range alterations {
		named[a.at]++
	}
	var records []metadata.Record
	for i, a := range alterations {
		f := a.check(named[a.at])
		if f == nil {
			var made []metadata.Record
			if made, f = v.alter(a); len(records)+len(made) > recordsPerOp {
				made, f = nil, tooLarge(append(records, made...))
			}
			records = append(records, made...)
		}
		answer(i, f)
	}
	if validateOnly {
		return nil
	}
	return append(records, v.clearELR(records)...)
}

// check refuses what is wrong whatever the properties.
func (a alteration) check(timesNamed int) *fault {
	if timesNamed > 1 {
		return refuse(kerr.InvalidRequest, "Duplicate resource.")
	}
	switch a.at.Type {
	case metadata.TopicResource, metadata.BrokerResource, metadata.GroupResource, metadata.ClientMetricsResource:
		return nil
	}
	return refuse(kerr.InvalidRequest, "Unknown resource type %d", a.at.Type)
}

// alter decides one alteration. Records come in order of the properties' names; a broker's are written even when they
// change nothing, which makes the broker load them again (KAFKA-14136).
func (v *view) alter(a alteration) ([]metadata.Record, *fault) {
	current := v.image.Configs(a.at.Type, a.at.Name)
	next := maps.Clone(current)
	if next == nil {
		next = map[string]string{}
	}
	for _, s := range a.settings {
		value, f := v.newValue(a.at, s, next)
		if f != nil {
			return nil, f
		}
		if value == nil {
			delete(next, s.name)
			continue
		}
		next[s.name] = *value
	}
	if a.reset {
		maps.DeleteFunc(next, func(name, _ string) bool { return !a.names(name) })
	}
	records := a.records(current, next)
	if f := v.checkMinISR(records); f != nil {
		return nil, f
	}
	if f := v.checkConfigs(a, next); f != nil {
		return nil, f
	}
	return records, nil
}

func (a alteration) names(property string) bool {
	return slices.ContainsFunc(a.settings, func(s setting) bool { return s.name == property })
}

func (a alteration) records(current, next map[string]string) []metadata.Record {
	touched := map[string]bool{}
	for name := range current {
		touched[name] = true
	}
	for _, s := range a.settings {
		touched[s.name] = true
	}
	var records []metadata.Record
	for _, name := range slices.Sorted(maps.Keys(touched)) {
		old, had := current[name]
		value, has := next[name]
		if had == has && old == value && (a.at.Type != metadata.BrokerResource || !a.names(name)) {
			continue
		}
		r := &metadata.ConfigRecord{Type: a.at.Type, Name: a.at.Name, Config: name}
		if has {
			r.Value = &value
		}
		records = append(records, r)
	}
	return records
}
