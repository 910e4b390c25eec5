package metadata

// QuotaEntity is one part of whom a client quota is for; Name nil is the default of its type.
type QuotaEntity struct {
	Type string // user, client-id, ip
	Name *string
}

func (c *codec) quotaEntity(e *QuotaEntity) {
	c.string(&e.Type)
	c.nullableString(&e.Name)
	c.noTags()
}

// ClientQuotaRecord sets or removes one limit of an entity.
type ClientQuotaRecord struct {
	Entity []QuotaEntity
	Limit  string
	Value  float64
	Remove bool
}

func (*ClientQuotaRecord) Key() int16        { return 14 }
func (*ClientQuotaRecord) MaxVersion() int16 { return 0 }
func (r *ClientQuotaRecord) fields(c *codec) {
	nonNull(c, &r.Entity, func(c *codec, v *[]QuotaEntity) { array(c, v, 3, (*codec).quotaEntity) })
	c.string(&r.Limit)
	c.float64(&r.Value)
	c.bool(&r.Remove)
	c.noTags()
}

// UserScramCredentialRecord sets what authenticates a user by SCRAM; Mechanism is Kafka's (1 SHA-256, 2 SHA-512).
type UserScramCredentialRecord struct {
	User       string
	Mechanism  int8
	Salt       []byte
	StoredKey  []byte
	ServerKey  []byte
	Iterations int32
}

func (*UserScramCredentialRecord) Key() int16        { return 11 }
func (*UserScramCredentialRecord) MaxVersion() int16 { return 0 }
func (r *UserScramCredentialRecord) fields(c *codec) {
	c.string(&r.User)
	c.int8(&r.Mechanism)
	c.bytes(&r.Salt)
	c.bytes(&r.StoredKey)
	c.bytes(&r.ServerKey)
	c.int32(&r.Iterations)
	c.noTags()
}

// RemoveUserScramCredentialRecord removes a user's credential for one mechanism.
type RemoveUserScramCredentialRecord struct {
	User      string
	Mechanism int8
}

func (*RemoveUserScramCredentialRecord) Key() int16        { return 22 }
func (*RemoveUserScramCredentialRecord) MaxVersion() int16 { return 0 }
func (r *RemoveUserScramCredentialRecord) fields(c *codec) {
	c.string(&r.User)
	c.int8(&r.Mechanism)
	c.noTags()
}

// AccessControlEntryRecord adds an ACL; the numbers are those of the protocol.
type AccessControlEntryRecord struct {
	ID             UUID
	ResourceType   int8
	ResourceName   string
	PatternType    int8
	Principal      string
	Host           string
	Operation      int8
	PermissionType int8
}

func (*AccessControlEntryRecord) Key() int16        { return 18 }
func (*AccessControlEntryRecord) MaxVersion() int16 { return 0 }
func (r *AccessControlEntryRecord) fields(c *codec) {
	c.uuid(&r.ID)
	c.int8(&r.ResourceType)
	c.string(&r.ResourceName)
	c.int8(&r.PatternType)
	c.string(&r.Principal)
	c.string(&r.Host)
	c.int8(&r.Operation)
	c.int8(&r.PermissionType)
	c.noTags()
}

// RemoveAccessControlEntryRecord removes the ACL of that id.
type RemoveAccessControlEntryRecord struct{ ID UUID }

func (*RemoveAccessControlEntryRecord) Key() int16        { return 19 }
func (*RemoveAccessControlEntryRecord) MaxVersion() int16 { return 0 }
func (r *RemoveAccessControlEntryRecord) fields(c *codec) {
	c.uuid(&r.ID)
	c.noTags()
}

// DelegationTokenRecord sets a delegation token. Principals are Type:Name, times milliseconds since 1970; the HMAC that
// authenticates with it is in no record.
type DelegationTokenRecord struct {
	Owner               string
	Requester           string
	Renewers            []string
	IssueTimestamp      int64
	MaxTimestamp        int64
	ExpirationTimestamp int64
	TokenID             string
}

func (*DelegationTokenRecord) Key() int16        { return 10 }
func (*DelegationTokenRecord) MaxVersion() int16 { return 0 }
func (r *DelegationTokenRecord) fields(c *codec) {
	c.string(&r.Owner)
	c.string(&r.Requester)
	nonNull(c, &r.Renewers, func(c *codec, v *[]string) { array(c, v, 1, (*codec).string) })
	c.int64(&r.IssueTimestamp)
	c.int64(&r.MaxTimestamp)
	c.int64(&r.ExpirationTimestamp)
	c.string(&r.TokenID)
	c.noTags()
}

// RemoveDelegationTokenRecord removes the token of that id.
type RemoveDelegationTokenRecord struct{ TokenID string }

func (*RemoveDelegationTokenRecord) Key() int16        { return 26 }
func (*RemoveDelegationTokenRecord) MaxVersion() int16 { return 0 }
func (r *RemoveDelegationTokenRecord) fields(c *codec) {
	c.string(&r.TokenID)
	c.noTags()
}
