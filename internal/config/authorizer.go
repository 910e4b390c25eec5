package config

import "strings"

// authorizerClass and tokenSecret name what protects under exactly this name; a name that is near to one of them is
// refused.
const (
	authorizerClass = "authorizer.class.name"
	tokenSecret     = "delegation.token.secret.key"
)

// standardAuthorizer is the one authorizer that there is. Its rules are those of cluster/metadata/acl.
const standardAuthorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"

// Authorizer is the configuration of the authorizer.
type Authorizer struct {
	SuperUsers      []string // principals, such as User:admin
	AllowWithoutACL bool     // allow.everyone.if.no.acl.found
}

// loadAuthorizer refuses an authorizer that is not Kafka's: a broker must not be more open than its configuration says.
func (b *Broker) loadAuthorizer(st *static, _ Sources) error {
	switch trim(b.Text(authorizerClass)) {
	case "":
		return nil
	case standardAuthorizer:
	default:
		return st.refuse(authorizerClass, "protects, and there is no authorizer here but "+standardAuthorizer)
	}
	b.Authorizer = &Authorizer{AllowWithoutACL: b.Bool("allow.everyone.if.no.acl.found")}
	for _, name := range strings.Split(b.Text("super.users"), ";") {
		if name = trim(name); name == "" {
			continue
		}
		if kind, user, ok := strings.Cut(name, ":"); !ok || kind == "" || user == "" {
			return st.refuse("super.users", "expected principals such as User:admin, separated by ;, but got "+name)
		}
		b.Authorizer.SuperUsers = append(b.Authorizer.SuperUsers, name)
	}
	return nil
}
