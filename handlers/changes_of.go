package handlers

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/internal/config"
	"grete/internal/security/sasl"
)

// changesOf says, for each API that administers, what a request has changed that was answered. A part that was refused
// has changed nothing.
var changesOf = map[int16]func(*done){
	19: (*done).createTopics, 20: (*done).deleteTopics, 21: (*done).deleteRecords, 30: (*done).createACLs, 31: (*done).deleteACLs,
	33: (*done).alterConfigs, 34: (*done).alterLogDirs, 37: (*done).createPartitions, 38: (*done).createToken,
	39: (*done).changeToken, 40: (*done).changeToken, 42: (*done).deleteGroups, 43: (*done).electLeaders,
	44: (*done).incrementalAlterConfigs, 45: (*done).reassign, 47: (*done).deleteOffsets, 51: (*done).alterScram, 57: (*done).updateFeatures,
	64: (*done).unregisterBroker, 80: (*done).addVoter, 81: (*done).removeVoter, 94: (*done).unregisterController,
}

func (d *done) createTopics() {
	if d.req.(*kmsg.CreateTopicsRequest).ValidateOnly {
		return
	}
	for _, t := range d.resp.(*kmsg.CreateTopicsResponse).Topics {
		if t.ErrorCode != 0 {
			continue
		}
		d.add("TOPIC", t.Topic, "", describeTopic(d.after.Topic(t.Topic)))
		for _, asked := range d.req.(*kmsg.CreateTopicsRequest).Topics {
			for i := range asked.Configs {
				if asked.Topic == t.Topic {
					d.config(metadata.TopicResource, "TOPIC", t.Topic, asked.Configs[i].Name)
				}
			}
		}
	}
}

func (d *done) deleteTopics() {
	for _, t := range d.resp.(*kmsg.DeleteTopicsResponse).Topics {
		if t.ErrorCode != 0 {
			continue
		}
		gone := d.before.TopicByID(t.TopicID)
		if t.Topic != nil {
			gone = d.before.Topic(*t.Topic)
		}
		if gone != nil {
			d.add("TOPIC", gone.Name, describeTopic(gone), "")
		}
	}
}

func (d *done) createPartitions() {
	if d.req.(*kmsg.CreatePartitionsRequest).ValidateOnly {
		return
	}
	for _, t := range d.resp.(*kmsg.CreatePartitionsResponse).Topics {
		if t.ErrorCode == 0 {
			d.add("TOPIC", t.Topic, describeTopic(d.before.Topic(t.Topic)), describeTopic(d.after.Topic(t.Topic)))
		}
	}
}

func (d *done) deleteRecords() {
	for _, t := range d.resp.(*kmsg.DeleteRecordsResponse).Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode == 0 {
				d.add("PARTITION", partitionName(t.Topic, p.Partition), "", fmt.Sprint("log start offset ", p.LowWatermark))
			}
		}
	}
}

func (d *done) createACLs() {
	results := d.resp.(*kmsg.CreateACLsResponse).Results
	for i, c := range d.req.(*kmsg.CreateACLsRequest).Creations {
		if i < len(results) && results[i].ErrorCode == 0 {
			d.add("ACL", patternName(c.ResourceType, c.ResourceName, c.ResourcePatternType), "", describeACL(c.Principal, c.Host, c.Operation, c.PermissionType))
		}
	}
}

func (d *done) deleteACLs() {
	for _, result := range d.resp.(*kmsg.DeleteACLsResponse).Results {
		for _, m := range result.MatchingACLs {
			if m.ErrorCode == 0 {
				d.add("ACL", patternName(m.ResourceType, m.ResourceName, m.ResourcePatternType), describeACL(m.Principal, m.Host, m.Operation, m.PermissionType), "")
			}
		}
	}
}

// alterConfigs replaces all that a resource has.
func (d *done) alterConfigs() {
	req := d.req.(*kmsg.AlterConfigsRequest)
	if req.ValidateOnly {
		return
	}
	for _, r := range d.resp.(*kmsg.AlterConfigsResponse).Resources {
		if r.ErrorCode == 0 {
			d.configs(r.ResourceType, r.ResourceName)
		}
	}
}

func (d *done) incrementalAlterConfigs() {
	req := d.req.(*kmsg.IncrementalAlterConfigsRequest)
	if req.ValidateOnly {
		return
	}
	for _, r := range d.resp.(*kmsg.IncrementalAlterConfigsResponse).Resources {
		switch {
		case r.ErrorCode != 0:
		case r.ResourceType == kmsg.ConfigResourceTypeBrokerLogger:
			d.loggers(r.ResourceName)
		default:
			d.configs(r.ResourceType, r.ResourceName)
		}
	}
}

// loggers are no matter of the metadata: only what was asked for is told.
func (d *done) loggers(broker string) {
	for _, r := range d.req.(*kmsg.IncrementalAlterConfigsRequest).Resources {
		for _, c := range r.Configs {
			if r.ResourceType == kmsg.ConfigResourceTypeBrokerLogger && r.ResourceName == broker {
				value := "default"
				if c.Value != nil {
					value = *c.Value
				}
				d.add("BROKER_LOGGER", broker+" "+c.Name, "", value)
			}
		}
	}
}

// configs tells what differs of a resource's configuration.
func (d *done) configs(kind kmsg.ConfigResourceType, name string) {
	t := metadata.ResourceType(kind)
	before, after := d.before.Configs(t, name), d.after.Configs(t, name)
	names := maps.Clone(before)
	if names == nil {
		names = map[string]string{}
	}
	maps.Copy(names, after)
	for _, key := range slices.Sorted(maps.Keys(names)) {
		if old, was := before[key]; old != after[key] || was != hasKey(after, key) {
			d.config(t, kind.String(), name, key)
		}
	}
}

func hasKey(m map[string]string, key string) bool {
	_, ok := m[key]
	return ok
}

// config tells of one property of a resource.
func (d *done) config(t metadata.ResourceType, kind, name, key string) {
	show := func(im *metadata.Image) string {
		value, set := im.Configs(t, name)[key]
		switch {
		case !set:
			return "not set"
		case !mayShow(t, key):
			return "set; the value is not shown"
		}
		return fmt.Sprintf("%q", value)
	}
	d.add(kind, strings.TrimSpace(name+" "+key), show(d.before), show(d.after))
}

// mayShow says whether a property's value is no secret. One that nobody has defined may be.
func mayShow(t metadata.ResourceType, key string) bool {
	switch t {
	case metadata.TopicResource:
		return config.TopicDefs.Lookup(key) != nil
	case metadata.BrokerResource:
		def := config.BrokerDefs.Lookup(key)
		if def == nil {
			def = config.DynamicDefs.Lookup(key)
		}
		return def != nil && !def.Sensitive()
	}
	return true
}

func (d *done) alterLogDirs() {
	for _, dir := range d.req.(*kmsg.AlterReplicaLogDirsRequest).Dirs {
		for _, asked := range dir.Topics {
			for _, p := range asked.Partitions {
				if d.movesTo(asked.Topic, p) {
					d.add("PARTITION", partitionName(asked.Topic, p), "", "log directory "+dir.Dir)
				}
			}
		}
	}
}

// movesTo says whether AlterReplicaLogDirs has no error for a partition.
func (d *done) movesTo(topic string, partition int32) bool {
	for _, t := range d.resp.(*kmsg.AlterReplicaLogDirsResponse).Topics {
		for _, p := range t.Partitions {
			if t.Topic == topic && p.Partition == partition {
				return p.ErrorCode == 0
			}
		}
	}
	return false
}

func (d *done) deleteGroups() {
	for _, g := range d.resp.(*kmsg.DeleteGroupsResponse).Groups {
		if g.ErrorCode == 0 {
			d.add("GROUP", g.Group, "", "deleted")
		}
	}
}

func (d *done) deleteOffsets() {
	resp := d.resp.(*kmsg.OffsetDeleteResponse)
	if resp.ErrorCode != 0 {
		return
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode == 0 {
				d.add("GROUP", d.req.(*kmsg.OffsetDeleteRequest).Group, "", "offset of "+partitionName(t.Topic, p.Partition)+" deleted")
			}
		}
	}
}

func (d *done) electLeaders() {
	for _, t := range d.resp.(*kmsg.ElectLeadersResponse).Topics {
		for _, p := range t.Partitions {
			before, after := describeLeader(partitionOf(d.before, t.Topic, p.Partition)), describeLeader(partitionOf(d.after, t.Topic, p.Partition))
			if p.ErrorCode == 0 && before != after {
				d.add("PARTITION", partitionName(t.Topic, p.Partition), before, after)
			}
		}
	}
}

func (d *done) reassign() {
	resp := d.resp.(*kmsg.AlterPartitionAssignmentsResponse)
	if resp.ErrorCode != 0 {
		return
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode == 0 {
				before, after := partitionOf(d.before, t.Topic, p.Partition), partitionOf(d.after, t.Topic, p.Partition)
				d.add("PARTITION", partitionName(t.Topic, p.Partition), describeReplicas(before), describeReplicas(after))
			}
		}
	}
}

func (d *done) alterScram() {
	for _, r := range d.resp.(*kmsg.AlterUserSCRAMCredentialsResponse).Results {
		if r.ErrorCode == 0 {
			d.add("USER", r.User, describeCredentials(d.before, r.User), describeCredentials(d.after, r.User))
		}
	}
}

func (d *done) updateFeatures() {
	req, resp := d.req.(*kmsg.UpdateFeaturesRequest), d.resp.(*kmsg.UpdateFeaturesResponse)
	if req.ValidateOnly || resp.ErrorCode != 0 {
		return
	}
	for _, f := range req.FeatureUpdates {
		if before, after := d.before.Feature(f.Feature), d.after.Feature(f.Feature); before != after {
			d.add("FEATURE", f.Feature, fmt.Sprint("level ", before), fmt.Sprint("level ", after))
		}
	}
}

func (d *done) unregisterBroker() {
	if d.resp.(*kmsg.UnregisterBrokerResponse).ErrorCode == 0 {
		d.add("BROKER", fmt.Sprint(d.req.(*kmsg.UnregisterBrokerRequest).BrokerID), "registered", "not registered")
	}
}

func (d *done) unregisterController() {
	if d.resp.(*kmsg.UnregisterControllerResponse).ErrorCode == 0 {
		d.add("CONTROLLER", fmt.Sprint(d.req.(*kmsg.UnregisterControllerRequest).ControllerID), "registered", "not registered")
	}
}

func (d *done) addVoter() {
	if d.resp.(*kmsg.AddRaftVoterResponse).ErrorCode == 0 {
		req := d.req.(*kmsg.AddRaftVoterRequest)
		d.add("VOTER", voterName(req.VoterID, req.VoterDirectoryID), "", "voter")
	}
}

func (d *done) removeVoter() {
	if d.resp.(*kmsg.RemoveRaftVoterResponse).ErrorCode == 0 {
		req := d.req.(*kmsg.RemoveRaftVoterRequest)
		d.add("VOTER", voterName(req.VoterID, req.VoterDirectoryID), "voter", "no voter")
	}
}

func voterName(id int32, directory [16]byte) string {
	return fmt.Sprintf("%d, directory %v", id, metadata.UUID(directory))
}

func (d *done) createToken() {
	if resp := d.resp.(*kmsg.CreateDelegationTokenResponse); resp.ErrorCode == 0 {
		d.add("DELEGATION_TOKEN", resp.TokenID, "", describeToken(d.after.Token(resp.TokenID)))
	}
}

// changeToken is for renewals and expiries, which name a token by its HMAC. Few others change meanwhile.
func (d *done) changeToken() {
	var hmac []byte
	switch req := d.req.(type) {
	case *kmsg.RenewDelegationTokenRequest:
		hmac = req.HMAC
	case *kmsg.ExpireDelegationTokenRequest:
		hmac = req.HMAC
	}
	for old := range d.before.Tokens() {
		if now := d.after.Token(old.TokenID); now != old && bytes.Equal(hmac, sasl.TokenHMAC(d.secret, old.TokenID)) {
			d.add("DELEGATION_TOKEN", old.TokenID, describeToken(old), describeToken(now))
		}
	}
}
