package logstore

import (
	"fmt"

	"golang.org/x/sync/errgroup"

	"grete/internal/uuid"
)

// Create makes the log in the online directory with the fewest logs, or returns the one that exists.
// topicID goes to partition.metadata; an existing log of another topic id is ErrTopicIDMismatch.
func (s *Store) Create(id ID, topicID [16]byte, cfg Config) (*Log, error) {
	return s.CreateIn(NewLog{ID: id, TopicID: topicID, Config: cfg})
}

// CreateIn is Create for a log that somebody wants in some directory.
func (s *Store) CreateIn(w NewLog) (*Log, error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	if l := s.Log(w.ID); l != nil {
		return l, l.adopt(w.TopicID, w.Config)
	}
	d := s.placeOf(w, func(d *logDir) int64 { return d.logCount.Load() })
	if d == nil {
		return nil, &Error{Log: w.ID, Op: "create", Offset: -1, Err: s.anyOnline()}
	}
	l := s.newLog(w.ID, d, w.Config)
	if err := l.create(w.TopicID); err != nil {
		return nil, l.failed("create", -1, err)
	}
	return l, s.add(l)
}

// NewLog is a log to be made.
type NewLog struct {
	ID      ID
	TopicID [16]byte
	Config  Config
	Dir     string // where it is to be, if that directory serves; "": anywhere
}

// createsAtOnce is how many logs CreateAll makes side by side: it waits for the file system more than it works.
const createsAtOnce = 8

// CreateAll makes those of the logs, each of another id, that do not exist. What cannot be made is left to Create,
// which says why.
func (s *Store) CreateAll(wanted []NewLog) {
	s.changing.Lock()
	defer s.changing.Unlock()
	var group errgroup.Group
	group.SetLimit(createsAtOnce)
	counts := map[*logDir]int64{} // once all that is begun is made
	for _, d := range s.dirs {
		counts[d] = d.logCount.Load()
	}
	for _, w := range wanted {
		d := s.placeOf(w, func(d *logDir) int64 { return counts[d] })
		if d == nil {
			break
		}
		if s.Log(w.ID) != nil {
			continue
		}
		counts[d]++
		group.Go(func() error {
			l := s.newLog(w.ID, d, w.Config)
			if err := l.create(w.TopicID); err != nil {
				return l.failed("create", -1, err)
			}
			return s.add(l)
		})
	}
	_ = group.Wait()
}

// adopt checks the topic id of a log that exists; one without gets it.
func (l *Log) adopt(topicID [16]byte, cfg Config) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable("open"); err != nil {
		return err
	}
	has := l.TopicID()
	if has == ([16]byte{}) && topicID != has {
		if err := l.writePartitionMetadata(topicID); err != nil {
			return l.failed("open", -1, err)
		}
		l.parent.made++
		l.entries.made++
	} else if has != topicID {
		return l.fault("open", -1, fmt.Errorf("%w: it has %v, not %v", ErrTopicIDMismatch, uuid.UUID(has), uuid.UUID(topicID)))
	}
	l.Configure(cfg)
	return nil
}

// create makes the directory. Nothing is synced until the first flush: a partition that a crash removes before was
// empty as far as anybody was told.
func (l *Log) create(topicID [16]byte) error {
	if err := l.dir.forgetOld(l.id); err != nil {
		return err
	}
	if err := l.store.o.FS.MkdirAll(*l.path.Load(), 0o755); err != nil {
		return err
	}
	if topicID != ([16]byte{}) {
		if err := l.writePartitionMetadata(topicID); err != nil {
			return err
		}
	}
	l.parent.made++
	return l.loadEmpty(loadState{})
}

// placeOf is the directory that w asks for, or the emptiest.
func (s *Store) placeOf(w NewLog, count func(*logDir) int64) *logDir {
	if d, err := s.dirAt(w.Dir); err == nil {
		return d
	}
	return s.emptiest(count)
}

// emptiest is the online directory with the smallest count, nil when all are offline.
func (s *Store) emptiest(count func(*logDir) int64) *logDir {
	var best *logDir
	for _, d := range s.dirs {
		if d.offlineError() == nil && (best == nil || count(d) < count(best)) {
			best = d
		}
	}
	return best
}
