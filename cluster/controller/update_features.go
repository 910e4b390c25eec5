package controller

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
)

// Kinds of feature update, as UpdateFeatures numbers them from v1 on.
const (
	upgradeFeature         = 1
	safeDowngradeFeature   = 2
	unsafeDowngradeFeature = 3
)

// updateFeatures is FeatureControlManager.updateFeatures: all updates happen or none.
func (v *view) updateFeatures(req *kmsg.UpdateFeaturesRequest) ([]metadata.Record, *kmsg.UpdateFeaturesResponse) {
	resp := req.ResponseKind().(*kmsg.UpdateFeaturesResponse)
	var records []metadata.Record
	for _, u := range req.FeatureUpdates {
		if reason := v.refuseLevel(u.Feature, u.MaxVersionLevel, updateKind(req.Version, u)); reason != "" {
			f := refuse(kerr.InvalidUpdateVersion, "The update failed for all features since the following feature had an error: "+
				"Invalid update version %d for feature %s. %s", u.MaxVersionLevel, u.Feature, reason)
			if u.Feature == metadataVersionFeature && reason == lossyDowngrade {
				f = v.refuseLossy(u.MaxVersionLevel)
			}
			resp.ErrorCode, resp.ErrorMessage = f.fields()
			return nil, resp
		}
		if u.Feature == quorumFeature {
			continue // is at its one level
		}
		records = append(records, &metadata.FeatureLevelRecord{Name: u.Feature, Level: u.MaxVersionLevel})
		if u.Feature == elrVersionFeature && u.MaxVersionLevel > 0 {
			records = append(v.clusterWideMinISR(), records...)
		}
	}
	if req.Version <= 1 {
		for _, u := range req.FeatureUpdates {
			resp.Results = append(resp.Results, kmsg.UpdateFeaturesResponseResult{Feature: u.Feature, ErrorMessage: kmsg.StringPtr("NONE")})
		}
	}
	if req.ValidateOnly {
		records = nil
	}
	return records, resp
}

func updateKind(version int16, u kmsg.UpdateFeaturesRequestFeatureUpdate) int8 {
	switch {
	case version > 0:
		return u.UpgradeType
	case u.AllowDowngrade:
		return safeDowngradeFeature
	}
	return upgradeFeature
}

const lossyDowngrade = "lossy"

// refuseLevel says why a feature cannot get a level, "" when it can.
func (v *view) refuseLevel(name string, level int16, kind int8) string {
	current := v.image.Feature(name)
	if name == quorumFeature {
		current = QuorumFeature().Default
	}
	switch {
	case kind < upgradeFeature || kind > unsafeDowngradeFeature:
		return "The controller does not support the given upgrade type."
	case level < 0:
		return "A feature version cannot be less than 0."
	}
	if reason := v.unsupported(name, level); reason != "" {
		return reason
	}
	switch {
	case level < current && kind == upgradeFeature:
		return "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade."
	case level > current && kind != upgradeFeature:
		return "Can't downgrade to a newer version."
	case level < current && name == quorumFeature:
		return "Can't downgrade the version of this feature."
	case level < current && name == metadataVersionFeature:
		return lossyDowngrade // our records are of the newest versions only
	}
	return ""
}

func (v *view) refuseLossy(level int16) *fault {
	return refuse(kerr.InvalidUpdateVersion, "The update failed for all features since the following feature had an error: "+
		"Unsupported metadata.version downgrade from %d to %d. Refusing to perform the requested downgrade because it might "+
		"delete metadata information.", v.image.Feature(metadataVersionFeature), level)
}

// unsupported: this controller, and every registered broker, must be able to run at the level; 0 switches a feature
// off.
func (v *view) unsupported(name string, level int16) string {
	known := append(slices.Clone(v.features), QuorumFeature())
	i := slices.IndexFunc(known, func(f Feature) bool { return f.Name == name })
	if i < 0 {
		return fmt.Sprintf("Local controller %d does not support this feature.", v.nodeID)
	}
	f := known[i]
	if (level != 0 || f.Min > 0) && (level < f.Min || level > f.Max) {
		return fmt.Sprintf("Local controller %d only supports versions %d-%d", v.nodeID, f.Min, f.Max)
	}
	if name == quorumFeature {
		return ""
	}
	for b := range v.image.Brokers() {
		i := slices.IndexFunc(b.Features, func(f metadata.FeatureRange) bool { return f.Name == name })
		if level != 0 && i < 0 {
			return fmt.Sprintf("Broker %d does not support this feature.", b.ID)
		}
		if level != 0 && (level < b.Features[i].Min || level > b.Features[i].Max) {
			return fmt.Sprintf("Broker %d only supports versions %d-%d", b.ID, b.Features[i].Min, b.Features[i].Max)
		}
	}
	return ""
}
