package vfs

import "io"

// Volume makes all that was written to a volume durable in one go, data and names. Sync also fails for a write that the
// system lost since the volume was opened, whosever it was.
type Volume interface {
	Sync() error
	io.Closer
}

// OpenVolume opens the volume that holds the directory name; nil where the file system cannot be trusted to sync it
// whole.
func OpenVolume(f FS, name string) (Volume, error) {
	if v, ok := f.(interface{ openVolume(string) (Volume, error) }); ok {
		return v.openVolume(name)
	}
	return nil, nil
}

func (osFS) openVolume(name string) (Volume, error) { return openVolume(name) }

func (f *Faulty) openVolume(name string) (Volume, error) {
	inner, err := OpenVolume(f.inner, name)
	if inner == nil || err != nil {
		return nil, err
	}
	return &faultyVolume{f, inner, name}, nil
}

type faultyVolume struct {
	fs    *Faulty
	inner Volume
	name  string
}

func (v *faultyVolume) Sync() error {
	if err := v.fs.before(OpSync, v.name); err != nil {
		return err
	}
	return v.inner.Sync()
}

func (v *faultyVolume) Close() error { return v.inner.Close() }

func (m *Mem) openVolume(string) (Volume, error) { return memVolume{m}, nil }

type memVolume struct{ m *Mem }

func (v memVolume) Sync() error {
	v.m.take(OpSync)
	v.m.mu.Lock()
	defer v.m.mu.Unlock()
	for _, c := range v.m.pending {
		c.apply()
	}
	v.m.pending = nil
	v.m.root.syncAll()
	return nil
}

func (n *memNode) syncAll() {
	if !n.dir {
		n.synced()
	}
	for _, e := range n.entries {
		e.syncAll()
	}
}

func (memVolume) Close() error { return nil }
