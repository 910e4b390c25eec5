package memory

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"path"
	"strconv"
	"strings"

	"grete/internal/vfs"
)

// unlimited is more than any machine has; cgroup v1 writes something close to it.
const unlimited = int64(1) << 60

// maxProcBytes bounds what is read of a file under /proc or /sys.
const maxProcBytes = 1 << 20

// Limit is the least of what the machine has and of what the control groups of this process allow, on the way from its
// own group up to the root of the mount, version 1 and version 2. physical is the machine's memory, goLimit the Go
// runtime's; math.MaxInt64 stands for unknown or none. 0: nothing is known.
func Limit(files vfs.FS, physical, goLimit int64) int64 {
	limit := min(physical, goLimit, groupLimit(files))
	if limit >= unlimited {
		return 0
	}
	return limit
}

// groupLimit is the least limit of the control groups that this process is in.
func groupLimit(files vfs.FS) int64 {
	limit := int64(math.MaxInt64)
	mounts := groupMounts(files)
	for _, line := range lines(files, "/proc/self/cgroup") {
		parts := strings.SplitN(line, ":", 3)
		if len(parts) != 3 {
			continue
		}
		for _, m := range mounts {
			if m.v2 == (parts[1] == "") && (m.v2 || hasWord(parts[1], "memory")) {
				limit = min(limit, m.least(files, parts[2]))
			}
		}
	}
	return limit
}

// groupMount is a mounted hierarchy of control groups that may limit memory.
type groupMount struct {
	point, root string
	v2          bool
}

// groupMounts reads /proc/self/mountinfo: id, parent, device, root, mount point, options, optional fields, "-", type,
// source, options.
func groupMounts(files vfs.FS) []groupMount {
	var out []groupMount
	for _, line := range lines(files, "/proc/self/mountinfo") {
		before, after, found := strings.Cut(line, " - ")
		mount, super := strings.Fields(before), strings.Fields(after)
		if !found || len(mount) < 5 || len(super) < 3 {
			continue
		}
		v2 := super[0] == "cgroup2"
		if v2 || super[0] == "cgroup" && hasWord(super[2], "memory") {
			out = append(out, groupMount{point: mount[4], root: mount[3], v2: v2})
		}
	}
	return out
}

// least walks from the group up to the mount. In a container the path may be the host's, and the mount shows the group
// itself.
func (m groupMount) least(files vfs.FS, group string) int64 {
	inside, ok := strings.CutPrefix(group, strings.TrimSuffix(m.root, "/"))
	if !ok || strings.HasPrefix(inside, "/..") {
		inside = "/"
	}
	limit := int64(math.MaxInt64)
	for dir := path.Clean("/" + inside); ; dir = path.Dir(dir) {
		limit = min(limit, m.limitOf(files, path.Join(m.point, dir)))
		if dir == "/" {
			return limit
		}
	}
}

func (m groupMount) limitOf(files vfs.FS, dir string) int64 {
	name := "memory.limit_in_bytes"
	if m.v2 {
		name = "memory.max"
	}
	for _, line := range lines(files, path.Join(dir, name)) {
		if n, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64); err == nil && n > 0 {
			return n
		}
	}
	return math.MaxInt64 // "max", or no such controller
}

func hasWord(list, word string) bool {
	for w := range strings.SplitSeq(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}

// lines reads a file of the kernel's, which does not tell its size; none when it cannot be read.
func lines(files vfs.FS, name string) []string {
	f, err := files.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	data, err := io.ReadAll(io.NewSectionReader(f, 0, maxProcBytes))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil
	}
	var out []string
	for scanner := bufio.NewScanner(bytes.NewReader(data)); scanner.Scan(); {
		out = append(out, scanner.Text())
	}
	return out
}
