package controller

import (
	"github.com/twmb/franz-go/pkg/kerr"

	"grete/cluster/metadata"
)

const minISRConfig = "min.insync.replicas"

// clusterWideMinISR makes the records without which eligible leader replicas would not be safe: min.insync.replicas has
// to be the same to the controller and to every broker, so there is a value for the cluster, and none of a broker's own
// (ConfigurationControlManager.maybeGenerateElrSafetyRecords).
func (v *view) clusterWideMinISR() []metadata.Record {
	var records []metadata.Record
	if _, set := v.image.Configs(metadata.BrokerResource, "")[minISRConfig]; !set {
		value := v.static.Text(minISRConfig)
		records = append(records, &metadata.ConfigRecord{Type: metadata.BrokerResource, Config: minISRConfig, Value: &value})
	}
	for at := range v.image.ConfigResources() {
		if _, set := v.image.Configs(at.Type, at.Name)[minISRConfig]; set && at.Type == metadata.BrokerResource && at.Name != "" {
			records = append(records, &metadata.ConfigRecord{Type: metadata.BrokerResource, Name: at.Name, Config: minISRConfig})
		}
	}
	return records
}

// checkMinISR refuses what would undo clusterWideMinISR.
func (v *view) checkMinISR(records []metadata.Record) *fault {
	if !v.hasELR() {
		return nil
	}
	for _, r := range records {
		c := r.(*metadata.ConfigRecord)
		switch {
		case c.Config != minISRConfig || c.Type != metadata.BrokerResource:
		case c.Name != "":
			return refuse(kerr.InvalidConfig, "Broker-level min.insync.replicas cannot be altered while ELR is enabled.")
		case c.Value == nil:
			return refuse(kerr.InvalidConfig, "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.")
		}
	}
	return nil
}

// clearELR makes the records that forget who is eligible where min.insync.replicas changes: they were so by the old
// value (ConfigurationControlManager.createClearElrRecordsAsNeeded).
func (v *view) clearELR(records []metadata.Record) []metadata.Record {
	if !v.hasELR() {
		return nil
	}
	var cleared []metadata.Record
	for _, r := range records {
		switch c := r.(*metadata.ConfigRecord); {
		case c.Config != minISRConfig:
		case c.Type == metadata.TopicResource:
			cleared = append(cleared, &metadata.ClearELRRecord{Topic: c.Name})
		default:
			cleared = append(cleared, &metadata.ClearELRRecord{})
		}
	}
	return cleared
}
