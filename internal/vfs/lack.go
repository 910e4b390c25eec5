package vfs

import (
	"errors"
	"path"
	"strings"
	"syscall"
)

// lack is a want of space or descriptors that meets some files alone.
type lack struct {
	part string
	err  error
}

// Lack has files whose name (the last element) contains part fail for want of something, until Heal: with ENOSPC or
// EDQUOT their writes fail, with EMFILE or ENFILE their opens. So one file that a program derives from others can fail
// alone: a checkpoint, an index, its temporary forms included. It stands beside what Inject has set.
func (f *Faulty) Lack(part string, err error) { f.lack.Store(&lack{part, err}) }

// Heal ends Lack.
func (f *Faulty) Heal() { f.lack.Store(nil) }

func (l *lack) hits(op Op) bool {
	wanted := OpOpen
	if errors.Is(l.err, syscall.ENOSPC) || errors.Is(l.err, syscall.EDQUOT) {
		wanted = OpWrite
	}
	return op.Kind == wanted && strings.Contains(path.Base(op.Name), l.part)
}
