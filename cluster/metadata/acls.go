package metadata

import (
	"cmp"
	"iter"
	"slices"
	"strings"
)

// ACLPattern is the resources that an ACL is about. The numbers are the protocol's.
type ACLPattern struct {
	ResourceType int8
	PatternType  int8 // 3 literal, 4 prefixed
	Name         string
}

// aclOwner orders ACLs by principal, so that what a principal may do is found without a look at the ACLs of others.
type aclOwner struct {
	principal string
	pattern   ACLPattern
}

type (
	byPattern  struct{}
	byACLOwner struct{}
)

func (byPattern) Compare(a, b ACLPattern) int { return comparePatterns(a, b) }
func (byACLOwner) Compare(a, b aclOwner) int {
	return cmp.Or(strings.Compare(a.principal, b.principal), comparePatterns(a.pattern, b.pattern))
}

func comparePatterns(a, b ACLPattern) int {
	return cmp.Or(cmp.Compare(a.ResourceType, b.ResourceType), cmp.Compare(a.PatternType, b.PatternType), strings.Compare(a.Name, b.Name))
}

// aclIndex has the ACLs by id, by principal and pattern, and how many there are of each pattern.
type aclIndex struct {
	byID     tree[UUID, *AccessControlEntryRecord, byUUID]
	byOwner  tree[aclOwner, []*AccessControlEntryRecord, byACLOwner]
	patterns tree[ACLPattern, int, byPattern]
	version  *byte // another one after each change
}

// Pattern returns the resources that the ACL is about.
func (r *AccessControlEntryRecord) Pattern() ACLPattern {
	return ACLPattern{r.ResourceType, r.PatternType, r.ResourceName}
}

func (x *aclIndex) add(r *AccessControlEntryRecord) {
	x.remove(r.ID)
	x.version = new(byte)
	x.byID.set(r.ID, r)
	at := aclOwner{r.Principal, r.Pattern()}
	x.byOwner.set(at, append(slices.Clip(x.byOwner.get(at)), r))
	x.patterns.set(at.pattern, x.patterns.get(at.pattern)+1)
}

func (x *aclIndex) remove(id UUID) {
	r := x.byID.get(id)
	if r == nil {
		return
	}
	x.version = new(byte)
	x.byID.delete(id)
	at := aclOwner{r.Principal, r.Pattern()}
	left := slices.DeleteFunc(slices.Clone(x.byOwner.get(at)), func(o *AccessControlEntryRecord) bool { return o.ID == id })
	if len(left) == 0 {
		x.byOwner.delete(at)
	} else {
		x.byOwner.set(at, left)
	}
	if n := x.patterns.get(at.pattern); n > 1 {
		x.patterns.set(at.pattern, n-1)
	} else {
		x.patterns.delete(at.pattern)
	}
}

// ACL returns the ACL of that id, nil when there is none.
func (im *Image) ACL(id UUID) *AccessControlEntryRecord { return im.acls.byID.get(id) }

// ACLs iterates by id; ACLCount counts them.
func (im *Image) ACLs() iter.Seq[*AccessControlEntryRecord] { return im.acls.byID.values() }
func (im *Image) ACLCount() int                             { return im.acls.byID.len() }

// ACLVersion is equal for two images only where their ACLs are the same.
func (im *Image) ACLVersion() *byte { return im.acls.version }

// ACLsOf returns the ACLs of a principal for exactly this pattern. The caller must not change them.
func (im *Image) ACLsOf(principal string, p ACLPattern) []*AccessControlEntryRecord {
	return im.acls.byOwner.get(aclOwner{principal, p})
}

// HasACLs says whether there is an ACL for exactly this pattern.
func (im *Image) HasACLs(p ACLPattern) bool { return im.acls.patterns.get(p) > 0 }

// PrefixACLsOf iterates over the ACLs of a principal whose pattern is of p's types and has a prefix of p.Name for a
// name. Its cost follows their number and the length of the name, not the number of all ACLs.
func (im *Image) PrefixACLsOf(principal string, p ACLPattern) iter.Seq[*AccessControlEntryRecord] {
	return func(yield func(*AccessControlEntryRecord) bool) {
		for name := range im.acls.prefixesOf(principal, p) {
			p.Name = name
			for _, r := range im.ACLsOf(principal, p) {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// HasPrefixACLs says whether any principal has an ACL whose pattern is of p's types and has a prefix of p.Name.
func (im *Image) HasPrefixACLs(p ACLPattern) bool {
	for range prefixes(p.Name, func(name string) (string, bool) {
		found, ok := im.acls.patterns.floor(ACLPattern{p.ResourceType, p.PatternType, name})
		return found.Name, ok && found.ResourceType == p.ResourceType && found.PatternType == p.PatternType
	}) {
		return true
	}
	return false
}

func (x *aclIndex) prefixesOf(principal string, p ACLPattern) iter.Seq[string] {
	return prefixes(p.Name, func(name string) (string, bool) {
		found, ok := x.byOwner.floor(aclOwner{principal, ACLPattern{p.ResourceType, p.PatternType, name}})
		same := ok && found.principal == principal && found.pattern.ResourceType == p.ResourceType && found.pattern.PatternType == p.PatternType
		return found.pattern.Name, same
	})
}

// prefixes yields the names that floor knows and that are prefixes of name, the longest first. floor returns the last
// name that is not after its argument. A name that is no prefix tells how much it shares with name: longer prefixes of
// name would lie between the two.
func prefixes(name string, floor func(name string) (string, bool)) iter.Seq[string] {
	return func(yield func(string) bool) {
		for at := name; ; {
			found, ok := floor(at)
			if !ok {
				return
			}
			shared := sharedBytes(found, name)
			if shared == len(found) {
				if !yield(found) || found == "" {
					return
				}
				shared--
			}
			at = name[:shared]
		}
	}
}

// sharedBytes is how many leading bytes a and b have in common.
func sharedBytes(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// ACLsOfPrincipal iterates over all ACLs of a principal about a type of resource.
func (im *Image) ACLsOfPrincipal(principal string, resourceType int8) iter.Seq[*AccessControlEntryRecord] {
	from := aclOwner{principal, ACLPattern{ResourceType: resourceType}}
	return func(yield func(*AccessControlEntryRecord) bool) {
		for at, acls := range im.acls.byOwner.iterate(&from) {
			if at.principal != principal || at.pattern.ResourceType != resourceType {
				return
			}
			for _, r := range acls {
				if !yield(r) {
					return
				}
			}
		}
	}
}
