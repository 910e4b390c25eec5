package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// threadPools are properties whose value may at most double or halve at once (Kafka's DynamicThreadPool).
var threadPools = []string{
	"background.threads", "num.io.threads", "num.network.threads", "num.recovery.threads.per.data.dir", "num.replica.fetchers",
}

// ValidateDynamicBroker checks what would be all dynamic values of the broker (perBroker), or all cluster defaults, as
// Kafka's DynamicBrokerConfig does; the layers are the current ones. Names that nobody knows are accepted: they may
// belong to a plugin. The error's text is for the client.
func (l Layers) ValidateDynamicBroker(values map[string]string, perBroker bool) error {
	const notDynamic = "Cannot update these configs dynamically"
	for _, check := range []struct {
		refuses func(*Def, string) bool
		message string
	}{
		{neverDynamic, notDynamic},
		{needsListener, "These security configs can be dynamically updated only per-listener using the listener prefix"},
	} {
		if err := refuseAll(values, check.refuses, check.message); err != nil {
			return err
		}
	}
	for _, name := range sortedKeys(values) {
		d := definitionOf(name)
		if d == nil {
			d = DynamicDefs.Lookup(name)
		}
		if d != nil {
			if err := d.Validate(values[name]); err != nil {
				return err
			}
		}
	}
	if !perBroker {
		const message = "Cannot update these configs at default cluster level, broker id must be specified"
		if err := refuseAll(values, onlyPerBroker, message); err != nil {
			return err
		}
	}
	if err := l.validateDynamicRelations(values, perBroker); err != nil {
		return err
	}
	return refuseAll(values, func(d *Def, name string) bool { return l.cannotApply(d, name, values[name], perBroker) }, notDynamic)
}

func refuseAll(values map[string]string, refuses func(*Def, string) bool, message string) error {
	var names []string
	for _, name := range sortedKeys(values) {
		if d := definitionOf(name); d != nil && refuses(d, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("%s: [%s]", message, strings.Join(names, ", "))
}

func neverDynamic(d *Def, name string) bool { return d.Name == name && d.Update == ReadOnly }

// startOnly are the properties that Kafka changes while it runs and that have an effect here at the start alone, or
// none: a change must not be accepted and ignored. Whoever makes one of them change takes it out of here, and gives it
// a probe in the test that walks over all of them.
var startOnly = []string{
	"background.threads", "num.io.threads", "num.network.threads", "num.recovery.threads.per.data.dir", "num.replica.fetchers", // there are no such pools
	"listeners", "listener.security.protocol.map", "cordoned.log.dirs", "config.providers", "metric.reporters", "principal.builder.class",
	"group.coordinator.cached.buffer.max.bytes", "group.consumer.assignor.offload.enable",
	"sasl.enabled.mechanisms", "sasl.mechanism.inter.broker.protocol", "sasl.login.refresh.buffer.seconds", "sasl.login.refresh.min.period.seconds",
	"sasl.login.refresh.window.factor", "sasl.login.refresh.window.jitter",
	"sasl.kerberos.kinit.cmd", "sasl.kerberos.min.time.before.relogin", "sasl.kerberos.principal.to.local.rules", "sasl.kerberos.service.name",
	"sasl.kerberos.ticket.renew.jitter", "sasl.kerberos.ticket.renew.window.factor",
}

// cannotApply says whether a value would change what nothing here applies. One that is in force already, or was stored
// by a version that took it, may stay.
func (l Layers) cannotApply(d *Def, name, value string, perBroker bool) bool {
	stored := l.ClusterDefault
	if perBroker {
		stored = l.Broker
	}
	if old, set := stored[name]; set && old == value {
		return false
	}
	if strings.HasPrefix(name, listenerPrefix) && !honoured(name) && !dynamicSASL(name) && !slices.ContainsFunc(ofListeners, func(own string) bool { return strings.HasSuffix(name, "."+own) }) {
		return true
	}
	if protects(name, value) || !asJava(name, value) {
		return true
	}
	if !slices.Contains(startOnly, name) {
		return false
	}
	wanted, err := d.Canonical(value)
	return err != nil || wanted != l.Text(name)
}

func needsListener(_ *Def, name string) bool {
	return strings.HasPrefix(name, "ssl.") && name != "ssl.client.auth"
}

func onlyPerBroker(d *Def, name string) bool {
	ofSASL := strings.HasPrefix(d.Name, "sasl.") || d.Name == "connections.max.reauth.ms"
	return d.Update == PerBroker && d.Name == name || strings.HasPrefix(name, listenerPrefix) && (d.Update == PerBroker || ofSASL)
}

func (l Layers) validateDynamicRelations(values map[string]string, perBroker bool) error {
	next := l.WithDynamic(values, l.ClusterDefault)
	if !perBroker {
		next = l.WithDynamic(l.Broker, values)
	}
	if ms := next.Topic(nil).RetentionMs; ms != -1 && ms < 1 {
		return errors.New("requirement failed: log.retention.ms must be unlimited (-1) or, greater than or equal to 1")
	}
	if next.Topic(nil).SegmentMs < 1 {
		return errors.New("requirement failed: log.roll.ms must be greater than or equal to 1")
	}
	if err := l.validateCleaner(next); err != nil {
		return err
	}
	for _, dir := range next.List("cordoned.log.dirs") {
		if !slices.Contains(next.List("log.dirs"), dir) {
			return fmt.Errorf("requirement failed: All entries in cordoned.log.dirs must be present in log.dirs or log.dir. Missing entries : %s", dir)
		}
	}
	if _, err := next.ConnectionsPerIPOverrides(); err != nil {
		return err
	}
	return l.validateThreads(next)
}

// validateCleaner also holds what Kafka's LogCleaner.validateReconfiguration does; of no threads it says what dividing
// by them says.
func (l Layers) validateCleaner(next Layers) error {
	current, wanted := l.Int("log.cleaner.threads"), next.Int("log.cleaner.threads")
	reason := ""
	switch {
	case wanted < 1:
		return errors.New("/ by zero")
	case next.Int("log.cleaner.dedupe.buffer.size")/wanted <= 1<<20:
		return errors.New("requirement failed: log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.")
	case wanted < current/2:
		reason = fmt.Sprintf("Log cleaner threads cannot be reduced to less than half the current value %d", current)
	case wanted > current*2:
		reason = fmt.Sprintf("Log cleaner threads cannot be increased to more than double the current value %d", current)
	}
	if reason == "" {
		return nil
	}
	return invalidDynamic(reason)
}

func invalidDynamic(reason string) error {
	return fmt.Errorf("Invalid value org.apache.kafka.common.config.ConfigException: %s for configuration Invalid dynamic configuration", reason)
}

func (l Layers) validateThreads(next Layers) error {
	for _, name := range threadPools {
		current, wanted := l.Int(name), next.Int(name)
		reason := ""
		switch {
		case wanted > current*2:
			reason = fmt.Sprintf("value should not be greater than double the current value %d", current)
		case wanted < current/2:
			reason = fmt.Sprintf("value should be at least half the current value %d", current)
		default:
			continue
		}
		return invalidDynamic(fmt.Sprintf("Dynamic thread count update validation failed for %s=%d, %s", name, wanted, reason))
	}
	return nil
}
