// Package memory is the ledger of what the process may use: it finds the limit, divides it into the shares of
// borrowers, and lends within them. docs/MEMORY.md says what each borrower is and what happens at its bound.
package memory

const (
	mib = 1 << 20
	// defaultLimit is for a process whose limit nobody has told, in tests above all.
	defaultLimit = 1 << 30
	// maxProducersBytes is room for 500,000 producers.
	maxProducersBytes = 500_000 * 230
)

// Ledger divides a limit among borrowers.
type Ledger struct {
	limit int64

	Requests  *Account // frames being received, decoded and handled
	Small     *Account // the reserve of small requests
	Peers     *Account // the reserve of the cluster's own connections
	Responses *Account // responses being built, or waiting to be sent
	Sessions  *Account // fetch sessions
	Inflated  *Account // records that are decompressed to be compressed anew
	Compacted *Account // maps of keys, and what compaction holds of records
	Loads     *Account // what coordinators read of their logs
	Groups    *Account // groups with their members and offsets
	Joins     *Account // member ids that were given out and nobody has joined with
	Producers *Account // what logs remember of producers
	Files     *Account // open files and what is remembered of their indexes
}

// New makes a ledger of limitBytes; 0 or less means defaultLimit.
func New(limitBytes int64) *Ledger {
	if limitBytes <= 0 {
		limitBytes = defaultLimit
	}
	account := func(name string, part, most int64) *Account {
		return &Account{name: name, share: min(limitBytes/part, most)}
	}
	return &Ledger{
		limit:     limitBytes,
		Requests:  account("requests", 8, 512*mib),
		Small:     account("small_requests", 32, 128*mib),
		Peers:     account("peers", 16, 256*mib),
		Responses: account("responses", 8, 512*mib),
		Sessions:  account("fetch_sessions", 32, 256*mib),
		Inflated:  account("inflated_records", 16, 512*mib),
		Compacted: account("compaction", 16, 512*mib),
		Loads:     account("coordinator_loads", 32, 128*mib),
		Groups:    account("groups", 8, 4096*mib),
		Joins:     account("pending_joins", 256, 64*mib),
		Producers: account("producers", 32, maxProducersBytes),
		Files:     account("open_files", 128, 128*mib),
	}
}

// LimitBytes is what the process may use.
func (l *Ledger) LimitBytes() int64 { return l.limit }

// WithRequests is the ledger with another share for requests (queued.max.request.bytes), at most half of the limit; 0
// or less changes nothing.
func (l *Ledger) WithRequests(bytes int64) *Ledger {
	if bytes <= 0 {
		return l
	}
	other := *l
	other.Requests = &Account{name: l.Requests.name, share: min(bytes, l.limit/2)}
	return &other
}

// HeldBytes is the most that compaction holds of one compressed batch, of which a rebuild takes several times as much,
// and of keys.
func (l *Ledger) HeldBytes() int64 { return l.Compacted.share / 2 }

// Accounts are all borrowers'.
func (l *Ledger) Accounts() []*Account {
	return []*Account{l.Requests, l.Small, l.Peers, l.Responses, l.Sessions, l.Inflated, l.Compacted, l.Loads, l.Groups, l.Joins, l.Producers, l.Files}
}
