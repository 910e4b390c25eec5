package config

import (
	"regexp"
	"slices"
	"strings"
)

// imageVariables are KAFKA_* variables for the JVM and the scripts of Kafka's images, and for tools around it. They ask
// a broker for nothing.
var imageVariables = regexp.MustCompile(`^KAFKA_(VERSION|OPTS|\w+_OPTS|LOG4J_\w+|TOOLS_LOG4J_LOGLEVEL|JMX_\w+|HOME|BASE_DIR|VOLUME_DIR|DATA_DIR|CONF_FILE|CONF_DIR|` +
	`CERTS_DIR|MOUNTED_CONF_DIR|INITSCRIPTS_DIR|DAEMON_USER|DAEMON_GROUP|DEBUG|LIBS|CLASSPATH|CLUSTER_ID|KRAFT_CLUSTER_ID|SKIP_KRAFT_STORAGE_INIT)$`)

// serviceVariables are those that Kubernetes sets in every pod beside a service whose name begins with kafka.
var serviceVariables = regexp.MustCompile(`^KAFKA_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

// bitnamiPrefix marks properties for Bitnami's image.
const bitnamiPrefix = "CFG_"

// fromEnvironment maps KAFKA_* variables as Kafka's container image does: one underscore is a dot, two are an
// underscore, three a dash. Bitnami's KAFKA_CFG_* are mapped alike; a plain variable of the same property wins.
func (s Sources) fromEnvironment() []Assignment {
	var bitnami, plain []Assignment
	for _, pair := range slices.Sorted(slices.Values(s.Env)) {
		variable, value, _ := strings.Cut(pair, "=")
		rest, ok := strings.CutPrefix(variable, "KAFKA_")
		if !ok || imageVariables.MatchString(variable) || serviceVariables.MatchString(variable) {
			continue
		}
		if own, ok := strings.CutPrefix(rest, bitnamiPrefix); ok {
			bitnami = append(bitnami, Assignment{From: variable, Name: propertyOf(own), Value: value})
			continue
		}
		plain = append(plain, Assignment{From: variable, Name: propertyOf(rest), Value: value})
	}
	return withListenersOfImage(append(bitnami, plain...))
}

func propertyOf(variable string) string {
	name := strings.ToLower(variable)
	for _, r := range [][2]string{{"_", "."}, {"...", "-"}, {"..", "_"}} {
		name = strings.ReplaceAll(name, r[0], r[1])
	}
	return name
}

// withListenersOfImage does what the image does when only the advertised listeners are given: listen on all addresses
// under the same names and ports.
func withListenersOfImage(env []Assignment) []Assignment {
	advertised := -1
	for i, a := range env {
		switch a.Name {
		case "listeners":
			return env
		case "advertised.listeners":
			advertised = i
		}
	}
	if advertised < 0 {
		return env
	}
	var listeners []string
	for _, item := range SplitList(env[advertised].Value) {
		name, _, _ := strings.Cut(item, "://")
		port := item[strings.LastIndex(item, ":")+1:]
		listeners = append(listeners, name+"://0.0.0.0:"+port)
	}
	return append(env, Assignment{From: env[advertised].From, Name: "listeners", Value: strings.Join(listeners, ",")})
}

// clusterID is the id that the environment wants an empty data directory to get: CLUSTER_ID of Kafka's image, or
// Bitnami's.
func (s Sources) clusterID() string {
	for _, variable := range []string{"CLUSTER_ID=", "KAFKA_CLUSTER_ID=", "KAFKA_KRAFT_CLUSTER_ID="} {
		for _, pair := range s.Env {
			if id, ok := strings.CutPrefix(pair, variable); ok {
				return id
			}
		}
	}
	return ""
}
