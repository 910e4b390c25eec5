package metadata

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ErrUnapplicable: a record that does not fit the image, such as a change of an unknown topic. The log is then
// not one that a controller wrote.
var ErrUnapplicable = errors.New("metadata record does not fit the image")

// Apply returns the image after records, the last of which has this offset and leader epoch, and what changed.
func (im *Image) Apply(records []Record, offset int64, epoch int32) (*Image, Delta, error) {
	b := NewBuilder(im)
	for _, r := range records {
		if err := b.Apply(r); err != nil {
			return im, Delta{}, err
		}
	}
	next, delta := b.Build(offset, epoch)
	return next, delta, nil
}

// Builder applies many records to an image at the price of one: a topic is copied once per builder, not once per
// record.
type Builder struct {
	im      Image
	changed map[string]*Topic // nil: deleted. Owned by this builder until Build
	configs map[ConfigResource]bool
	brokers map[int32]bool
	delta   Delta
}

// NewBuilder starts from base, which stays as it is.
func NewBuilder(base *Image) *Builder {
	return &Builder{
		im: *base, changed: map[string]*Topic{}, configs: map[ConfigResource]bool{}, brokers: map[int32]bool{},
	}
}

// Build returns the image and what the builder's records changed; the builder is used up.
func (b *Builder) Build(offset int64, epoch int32) (*Image, Delta) {
	for name, t := range b.changed {
		if t != nil {
			b.im.topics.set(name, t)
		}
	}
	b.im.last.offsetPlusOne, b.im.last.epoch = offset+1, epoch
	b.delta.Topics = slices.Sorted(maps.Keys(b.changed))
	b.delta.Brokers = slices.Sorted(maps.Keys(b.brokers))
	b.delta.Configs = slices.SortedFunc(maps.Keys(b.configs), byResource{}.Compare)
	return &b.im, b.delta
}

// Replaces makes the delta tell the change from old, of which the builder's image does not stem: everything in either.
func (b *Builder) Replaces(old *Image) {
	for t := range old.Topics() {
		if _, ok := b.changed[t.Name]; !ok {
			b.changed[t.Name] = b.im.topics.get(t.Name)
		}
	}
	for at := range old.ConfigResources() {
		b.configs[at] = true
	}
	for broker := range old.Brokers() {
		b.brokers[broker.ID] = true
	}
	b.delta.Features, b.delta.ClientQuotas, b.delta.ScramCredentials, b.delta.ACLs, b.delta.Tokens = true, true, true, true, true
}

// Apply applies one record. After an error the builder is of no use.
func (b *Builder) Apply(r Record) error {
	switch r := r.(type) {
	case *TopicRecord:
		return b.addTopic(r)
	case *RemoveTopicRecord:
		return b.removeTopic(r.ID)
	case *PartitionRecord:
		return b.setPartition(r)
	case *PartitionChangeRecord:
		return b.changePartition(r)
	case *ClearELRRecord:
		return b.clearELR(r.Topic)
	case *ConfigRecord:
		b.setConfig(r)
	case *FeatureLevelRecord:
		b.setFeature(r)
	case *ProducerIDsRecord:
		b.im.nextProducer = max(b.im.nextProducer, r.Next)
	case *NoOpRecord:
	case *RegisterBrokerRecord:
		b.registerBroker(r)
	case *RegisterControllerRecord:
		b.im.controllers.set(r.ControllerID, r)
	case *UnregisterControllerRecord:
		b.im.controllers.delete(r.ControllerID)
	case *BrokerRegistrationChangeRecord, *FenceBrokerRecord, *UnfenceBrokerRecord, *UnregisterBrokerRecord:
		return b.changeBroker(r)
	default:
		return b.applySecurity(r)
	}
	return nil
}

func (b *Builder) applySecurity(r Record) error {
	switch r := r.(type) {
	case *ClientQuotaRecord:
		b.setQuota(r)
	case *UserScramCredentialRecord:
		b.im.scram.set(ScramKey{r.User, r.Mechanism}, r)
		b.delta.ScramCredentials = true
	case *RemoveUserScramCredentialRecord:
		b.im.scram.delete(ScramKey{r.User, r.Mechanism})
		b.delta.ScramCredentials = true
	case *AccessControlEntryRecord:
		b.im.acls.add(r)
		b.delta.ACLs = true
	case *RemoveAccessControlEntryRecord:
		b.im.acls.remove(r.ID)
		b.delta.ACLs = true
	case *DelegationTokenRecord:
		b.im.tokens.add(r)
		b.delta.Tokens = true
	case *RemoveDelegationTokenRecord:
		b.im.tokens.remove(r.TokenID)
		b.delta.Tokens = true
	default:
		return fmt.Errorf("%w: no rule for %T", ErrUnapplicable, r)
	}
	return nil
}

func (b *Builder) setConfig(r *ConfigRecord) {
	at := ConfigResource{r.Type, r.Name}
	next := maps.Clone(b.im.configs.get(at))
	if next == nil {
		next = map[string]string{}
	}
	if r.Value == nil {
		delete(next, r.Config)
	} else {
		next[r.Config] = *r.Value
	}
	b.configs[at] = true
	if len(next) == 0 {
		b.im.configs.delete(at)
		return
	}
	b.im.configs.set(at, next)
}

func (b *Builder) setFeature(r *FeatureLevelRecord) {
	b.delta.Features = true
	if r.Level == 0 {
		b.im.features.delete(r.Name)
		return
	}
	b.im.features.set(r.Name, r.Level)
}

func (b *Builder) setQuota(r *ClientQuotaRecord) {
	b.delta.ClientQuotas = true
	key := quotaKey(r.Entity)
	next := &ClientQuota{Entity: r.Entity, Limits: map[string]float64{}}
	if old := b.im.quotas.get(key); old != nil {
		maps.Copy(next.Limits, old.Limits)
	}
	if r.Remove {
		delete(next.Limits, r.Limit)
	} else {
		next.Limits[r.Limit] = r.Value
	}
	if len(next.Limits) == 0 {
		b.im.quotas.delete(key)
		return
	}
	b.im.quotas.set(key, next)
}

// quotaKey is the same for the same entity in whatever order its parts come; NUL cannot occur in a type.
func quotaKey(entity []QuotaEntity) string {
	parts := make([]string, len(entity))
	for i, e := range entity {
		parts[i] = e.Type + "\x00default"
		if e.Name != nil {
			parts[i] = e.Type + "\x00=" + *e.Name
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, "\x00\x00")
}
