package oracle

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	resourceTopic         = kmsg.ConfigResourceTypeTopic
	resourceBroker        = kmsg.ConfigResourceTypeBroker
	resourceBrokerLogger  = kmsg.ConfigResourceTypeBrokerLogger
	resourceClientMetrics = kmsg.ConfigResourceTypeClientMetrics
	resourceGroup         = kmsg.ConfigResourceTypeGroupConfig
)

// configScenarios are DescribeConfigs, both ways of altering, and ListConfigResources.
func configScenarios(l *list) {
	l.each(32, "describe configs/topic", describeTopicConfigs)
	l.serial(func() { l.each(32, "describe configs/broker", describeBrokerConfigs) }) // others change them
	l.each(32, "describe configs/errors", describeConfigErrors)
	l.each(32, "describe configs/group", func(s *Session, v int16) {
		c := s.Conn()
		c.Do(v, describeConfigs(resourceGroup, s.Name("g")))
		c.Do(v, describeConfigs(resourceGroup, ""))
		c.Do(v, describeConfigs(resourceClientMetrics, s.Name("m")))
		c.Do(v, describeConfigs(resourceClientMetrics, ""))
	})
	l.each(44, "incremental alter configs/operations", incrementalOperations)
	l.each(44, "incremental alter configs/errors", incrementalErrors)
	l.each(44, "incremental alter configs/values", incrementalValues)
	l.each(33, "alter configs/replaces", alterReplaces)
	l.each(33, "alter configs/errors", alterErrors)
	l.each(74, "list config resources", listConfigResources)
	l.each(44, "incremental alter configs/groups and metrics", incrementalOthers)
	l.serial(func() { // they change the broker that the others run on
		l.each(44, "incremental alter configs/broker", incrementalBroker)
		l.each(33, "alter configs/broker", alterBroker)
	})
}

func describeConfigs(kind kmsg.ConfigResourceType, name string, keys ...string) *kmsg.DescribeConfigsRequest {
	req := kmsg.NewPtrDescribeConfigsRequest()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName, r.ConfigNames = kind, name, keys
	req.Resources = append(req.Resources, r)
	return req
}

func describeTopicConfigs(s *Session, v int16) {
	t := s.Topic("t", 1, "retention.ms=77", "cleanup.policy=compact")
	c := s.Conn()
	c.Do(v, describeConfigs(resourceTopic, t.name))
	all := describeConfigs(resourceTopic, t.name)
	all.IncludeSynonyms, all.IncludeDocumentation = true, true
	c.Send(v, all).Note("with synonyms and documentation").Wait()
	c.Send(v, describeConfigs(resourceTopic, t.name, "retention.ms", "segment.bytes", "no.such.config")).Note("some keys").Wait()
	empty := describeConfigs(resourceTopic, t.name)
	empty.Resources[0].ConfigNames = []string{}
	c.Send(v, empty).Note("an empty list of keys").Wait()
	both := describeConfigs(resourceTopic, t.name, "retention.ms")
	both.Resources = append(both.Resources, describeConfigs(resourceBroker, "1", "num.partitions").Resources...)
	both.Resources = append(both.Resources, describeConfigs(resourceTopic, s.Name("none")).Resources...)
	c.Send(v, both).Note("three resources").Wait()
	twice := describeConfigs(resourceTopic, t.name, "retention.ms")
	twice.Resources = append(twice.Resources, twice.Resources[0])
	c.Send(v, twice).Note("one twice").Wait()
}

func describeBrokerConfigs(s *Session, v int16) {
	c := s.Conn()
	all := describeConfigs(resourceBroker, "1")
	all.IncludeSynonyms = true
	c.Do(v, all)
	c.Send(v, describeConfigs(resourceBroker, "1", "default.replication.factor", "num.partitions", "log.retention.ms", "auto.create.topics.enable", "listeners", "node.id", "log.dirs", "message.max.bytes", "ssl.keystore.password")).Note("some keys").Wait()
	c.Send(v, describeConfigs(resourceBroker, "")).Note("cluster-wide default").Wait()
}

func describeConfigErrors(s *Session, v int16) {
	c := s.Conn()
	for _, r := range []struct {
		kind kmsg.ConfigResourceType
		name string
	}{
		{resourceTopic, s.Name("none")}, {resourceTopic, ""}, {resourceTopic, "bad name!"}, {resourceTopic, "."},
		{resourceBroker, "2"}, {resourceBroker, "x"}, {resourceBroker, "-1"}, {resourceBrokerLogger, "2"}, {resourceBrokerLogger, ""}, {0, "x"}, {1, "x"}, {99, "x"},
	} {
		c.Send(v, describeConfigs(r.kind, r.name)).Note(fmt.Sprintf("type %d", r.kind)).Wait()
	}
	none := describeConfigs(resourceTopic, "")
	none.Resources = nil
	c.Send(v, none).Note("no resources").Wait()
}

type configOp struct {
	name  string
	op    kmsg.IncrementalAlterConfigOp
	value *string
}

const (
	opSet      = kmsg.IncrementalAlterConfigOpSet
	opDelete   = kmsg.IncrementalAlterConfigOpDelete
	opAppend   = kmsg.IncrementalAlterConfigOpAppend
	opSubtract = kmsg.IncrementalAlterConfigOpSubtract
)

func incremental(kind kmsg.ConfigResourceType, name string, ops ...configOp) *kmsg.IncrementalAlterConfigsRequest {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kind, name
	for _, op := range ops {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Op, c.Value = op.name, op.op, op.value
		r.Configs = append(r.Configs, c)
	}
	req.Resources = append(req.Resources, r)
	return req
}

func incrementalOperations(s *Session, v int16) {
	t := s.Topic("t", 1, "retention.ms=77")
	c := s.Conn()
	see := func(keys ...string) { propagate(); c.Do(4, describeConfigs(resourceTopic, t.name, keys...)) }
	for _, f := range []struct {
		note string
		ops  []configOp
	}{
		{"set", []configOp{{"retention.ms", opSet, ptr("88")}, {"segment.ms", opSet, ptr("5000")}}},
		{"delete", []configOp{{"segment.ms", opDelete, nil}}},
		{"delete what is not set", []configOp{{"segment.ms", opDelete, nil}}},
		{"append", []configOp{{"cleanup.policy", opAppend, ptr("compact")}}},
		{"append again", []configOp{{"cleanup.policy", opAppend, ptr("compact")}}},
		{"subtract", []configOp{{"cleanup.policy", opSubtract, ptr("delete")}}},
		{"subtract what is not there", []configOp{{"cleanup.policy", opSubtract, ptr("delete")}}},
		{"subtract the last", []configOp{{"cleanup.policy", opSubtract, ptr("compact")}}},
		{"no configs", nil},
	} {
		c.Send(v, incremental(resourceTopic, t.name, f.ops...)).Note(f.note).Wait()
		see("retention.ms", "segment.ms", "cleanup.policy")
	}
	only := incremental(resourceTopic, t.name, configOp{"retention.ms", opSet, ptr("99")})
	only.ValidateOnly = true
	c.Send(v, only).Note("validate only").Wait()
	see("retention.ms")
}

func incrementalErrors(s *Session, v int16) {
	t := s.Topic("t", 1)
	c := s.Conn()
	set := configOp{"retention.ms", opSet, ptr("5")}
	for _, f := range []struct {
		note string
		kind kmsg.ConfigResourceType
		name string
		ops  []configOp
	}{
		{"null value", resourceTopic, t.name, []configOp{{"retention.ms", opSet, nil}}},
		{"the same key twice", resourceTopic, t.name, []configOp{set, set}},
		{"append to a number", resourceTopic, t.name, []configOp{{"retention.ms", opAppend, ptr("5")}}},
		{"subtract from a number", resourceTopic, t.name, []configOp{{"retention.ms", opSubtract, ptr("5")}}},
		{"operation 9", resourceTopic, t.name, []configOp{{"retention.ms", 9, ptr("5")}}},
		{"unknown topic", resourceTopic, s.Name("none"), []configOp{set}},
		{"no topic name", resourceTopic, "", []configOp{set}},
		{"bad topic name", resourceTopic, "bad name!", []configOp{set}},
		{"unknown broker", resourceBroker, "9", []configOp{{"log.cleaner.threads", opSet, ptr("2")}}},
		{"not a broker id", resourceBroker, "x", []configOp{{"log.cleaner.threads", opSet, ptr("2")}}},
		{"read-only broker config", resourceBroker, "1", []configOp{{"node.id", opSet, ptr("2")}}},
		{"unknown broker config", resourceBroker, "1", []configOp{{"no.such", opSet, ptr("2")}}},
		{"wrong broker value", resourceBroker, "1", []configOp{{"log.cleaner.threads", opSet, ptr("x")}}},
		{"per-broker config cluster-wide", resourceBroker, "", []configOp{{"listeners", opSet, ptr("PLAINTEXT://127.0.0.1:1")}}},
		{"type 0", 0, "x", []configOp{set}},
		{"type 99", 99, "x", []configOp{set}},
		{"empty key", resourceTopic, t.name, []configOp{{"", opSet, ptr("5")}}},
		{"empty group", resourceGroup, "", []configOp{{"consumer.session.timeout.ms", opSet, ptr("50000")}}},
		{"unknown group config", resourceGroup, s.Name("g"), []configOp{{"no.such", opSet, ptr("5")}}},
		{"unknown client metrics config", resourceClientMetrics, s.Name("m"), []configOp{{"no.such", opSet, ptr("5")}}},
	} {
		c.Send(v, incremental(f.kind, f.name, f.ops...)).Note(f.note).Wait()
	}
	twice := incremental(resourceTopic, t.name, set)
	twice.Resources = append(twice.Resources, twice.Resources[0])
	c.Send(v, twice).Note("a resource twice").Wait()
	mixed := incremental(resourceTopic, t.name, set)
	mixed.Resources = append(mixed.Resources, incremental(resourceTopic, s.Name("none"), set).Resources...)
	c.Send(v, mixed).Note("one of two is wrong").Wait()
	propagate()
	c.Do(4, describeConfigs(resourceTopic, t.name, "retention.ms"))
	s.setup(1, incremental(resourceBroker, "1", configOp{"no.such", opDelete, nil})) // which a broker takes
}

func incrementalValues(s *Session, v int16) {
	t := s.Topic("t", 1)
	c := s.Conn()
	for _, kv := range topicConfigValues {
		req := incremental(resourceTopic, t.name, configOp{kv[0], opSet, ptr(kv[1])})
		req.ValidateOnly = true
		c.Send(v, req).Note(fmt.Sprintf("%s=%s", kv[0], kv[1])).Soon().Wait()
	}
}

// incrementalOthers: resources that exist by having configs.
func incrementalOthers(s *Session, v int16) {
	c := s.Conn()
	for _, f := range []struct {
		kind             kmsg.ConfigResourceType
		name, key, value string
	}{
		{resourceGroup, s.Name("g"), "consumer.session.timeout.ms", "50000"},
		{resourceGroup, s.Name("g"), "consumer.session.timeout.ms", "1"},
		{resourceGroup, s.Name("g"), "consumer.heartbeat.interval.ms", "x"},
		{resourceClientMetrics, s.Name("m"), "interval.ms", "5000"},
		{resourceClientMetrics, s.Name("m"), "interval.ms", "5"},
		{resourceClientMetrics, s.Name("m"), "metrics", "org.apache.kafka."},
		{resourceClientMetrics, s.Name("m"), "match", "client_id=("},
	} {
		c.Send(v, incremental(f.kind, f.name, configOp{f.key, opSet, &f.value})).Note(f.key + "=" + f.value).Wait()
		propagate()
		c.Do(4, describeConfigs(f.kind, f.name, f.key))
	}
	c.Send(v, incremental(resourceGroup, s.Name("g"), configOp{"consumer.session.timeout.ms", opDelete, nil})).Note("delete").Wait()
	propagate()
	c.Do(4, describeConfigs(resourceGroup, s.Name("g"), "consumer.session.timeout.ms"))
}

// incrementalBroker sets dynamic configs of the broker, and of all brokers, and takes them away again.
func incrementalBroker(s *Session, v int16) {
	c := s.Conn()
	const key = "log.cleaner.backoff.ms"
	step := func(note, broker string, ops ...configOp) {
		c.Send(v, incremental(resourceBroker, broker, ops...)).Note(note).Wait()
		propagate()
		see := describeConfigs(resourceBroker, "1", key, "num.io.threads", "background.threads")
		see.IncludeSynonyms = true
		c.Do(4, see)
		c.Do(4, describeConfigs(resourceBroker, "", key, "background.threads"))
	}
	step("all brokers", "", configOp{key, opSet, ptr("17000")})
	step("this broker", "1", configOp{key, opSet, ptr("16000")})
	step("more threads than may be added at once", "1", configOp{"background.threads", opSet, ptr("500")})
	step("threads", "1", configOp{"background.threads", opSet, ptr("11")})
	step("not below half", "1", configOp{"background.threads", opSet, ptr("1")})
	step("wrong value", "1", configOp{key, opSet, ptr("-1")})
	step("not of all brokers any more", "", configOp{key, opDelete, nil})
	step("not of this broker any more", "1", configOp{key, opDelete, nil}, configOp{"background.threads", opDelete, nil})
}

func alterBroker(s *Session, v int16) {
	c := s.Conn()
	const key = "log.cleaner.backoff.ms"
	see := func() { propagate(); c.Do(4, describeConfigs(resourceBroker, "1", key, "background.threads")) }
	c.Send(v, alterConfigs(resourceBroker, "1", [2]string{key, "16000"})).Note("one").Wait()
	see()
	c.Send(v, alterConfigs(resourceBroker, "1", [2]string{"background.threads", "11"})).Note("another instead").Wait()
	see()
	c.Send(v, alterConfigs(resourceBroker, "1", [2]string{key, "x"})).Note("wrong value").Wait()
	c.Send(v, alterConfigs(resourceBroker, "1")).Note("none").Wait()
	see()
}

func alterConfigs(kind kmsg.ConfigResourceType, name string, pairs ...[2]string) *kmsg.AlterConfigsRequest {
	req := kmsg.NewPtrAlterConfigsRequest()
	r := kmsg.NewAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kind, name
	for _, kv := range pairs {
		c := kmsg.NewAlterConfigsRequestResourceConfig()
		c.Name, c.Value = kv[0], ptr(kv[1])
		r.Configs = append(r.Configs, c)
	}
	req.Resources = append(req.Resources, r)
	return req
}

func alterReplaces(s *Session, v int16) {
	t := s.Topic("t", 1, "retention.ms=77", "segment.ms=9")
	c := s.Conn()
	see := func() {
		propagate()
		c.Do(4, describeConfigs(resourceTopic, t.name, "retention.ms", "segment.ms", "flush.ms"))
	}
	c.Do(v, alterConfigs(resourceTopic, t.name, [2]string{"flush.ms", "5"}))
	see()
	only := alterConfigs(resourceTopic, t.name, [2]string{"flush.ms", "6"})
	only.ValidateOnly = true
	c.Send(v, only).Note("validate only").Wait()
	see()
	c.Send(v, alterConfigs(resourceTopic, t.name)).Note("nothing").Wait()
	see()
}

func alterErrors(s *Session, v int16) {
	t := s.Topic("t", 1)
	c := s.Conn()
	one := [2]string{"retention.ms", "5"}
	c.Send(v, alterConfigs(resourceTopic, s.Name("none"), one)).Note("unknown topic").Wait()
	c.Send(v, alterConfigs(resourceTopic, "", one)).Note("no topic name").Wait()
	c.Send(v, alterConfigs(resourceTopic, t.name, one, one)).Note("the same key twice").Wait()
	c.Send(v, alterConfigs(resourceBroker, "9", one)).Note("unknown broker").Wait()
	c.Send(v, alterConfigs(0, "x", one)).Note("type 0").Wait()
	null := alterConfigs(resourceTopic, t.name, one)
	null.Resources[0].Configs[0].Value = nil
	c.Send(v, null).Note("null value").Wait()
	twice := alterConfigs(resourceTopic, t.name, one)
	twice.Resources = append(twice.Resources, twice.Resources[0])
	c.Send(v, twice).Note("a resource twice").Wait()
	for _, kv := range topicConfigValues {
		req := alterConfigs(resourceTopic, t.name, kv)
		req.ValidateOnly = true
		c.Send(v, req).Note(fmt.Sprintf("%s=%s", kv[0], kv[1])).Soon().Wait()
	}
}

func listConfigResources(s *Session, v int16) {
	s.Topic("t", 1)

	c := s.Conn()
	if v == 0 {
		c.Send(v, kmsg.NewPtrListConfigResourcesRequest()).OwnOnly().Wait()
		return
	}
	for _, types := range [][]int8{{}, {2}, {4}, {8}, {16}, {2, 4}, {32}, {0}, {99}, {2, 99}} {
		req := kmsg.NewPtrListConfigResourcesRequest()
		req.ResourceTypes = types
		c.Send(v, req).Note(fmt.Sprint(types)).OwnOnly().Wait()
	}
}
