package memory

import (
	"io"
	"math"
	"path"
	"testing"

	"grete/internal/vfs"
)

const (
	v1Mount = "35 31 0:32 ROOT /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
	v2Mount = "35 31 0:32 ROOT /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup rw\n"
)

func machine(t *testing.T, files map[string]string) vfs.FS {
	t.Helper()
	mem := vfs.NewMem()
	for name, text := range files {
		if err := mem.MkdirAll(path.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		err := vfs.WriteFile(mem, name, false, func(w io.Writer) error { _, err := io.WriteString(w, text); return err })
		if err != nil {
			t.Fatal(err)
		}
	}
	return mem
}

func withRoot(mount, root string) string {
	const mark = "ROOT"
	at := len("35 31 0:32 ")
	return mount[:at] + root + mount[at+len(mark):]
}

func TestLimit(t *testing.T) {
	const none = math.MaxInt64
	for name, c := range map[string]struct {
		files   map[string]string
		goLimit int64
		want    int64
	}{
		"nothing is known":                    {map[string]string{}, none, 0},
		"the Go runtime's":                    {map[string]string{}, 5 << 20, 5 << 20},
		"version 1, own":                      {map[string]string{"/proc/self/cgroup": "4:memory:/a/b\n", "/proc/self/mountinfo": withRoot(v1Mount, "/"), "/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": "1000\n", "/sys/fs/cgroup/memory/a/memory.limit_in_bytes": "9223372036854771712\n"}, none, 1000},
		"version 1, parent":                   {map[string]string{"/proc/self/cgroup": "4:memory:/a/b\n", "/proc/self/mountinfo": withRoot(v1Mount, "/"), "/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": "9223372036854771712\n", "/sys/fs/cgroup/memory/a/memory.limit_in_bytes": "2000\n"}, none, 2000},
		"version 1, the path is the host's":   {map[string]string{"/proc/self/cgroup": "4:cpu,memory:/docker/x\n", "/proc/self/mountinfo": withRoot(v1Mount, "/docker/x"), "/sys/fs/cgroup/memory/memory.limit_in_bytes": "3000\n"}, none, 3000},
		"another controller":                  {map[string]string{"/proc/self/cgroup": "4:cpu:/a\n", "/proc/self/mountinfo": withRoot(v1Mount, "/"), "/sys/fs/cgroup/memory/a/memory.limit_in_bytes": "1000\n"}, none, 0},
		"version 2, own":                      {map[string]string{"/proc/self/cgroup": "0::/a\n", "/proc/self/mountinfo": withRoot(v2Mount, "/"), "/sys/fs/cgroup/a/memory.max": "4000\n", "/sys/fs/cgroup/memory.max": "max\n"}, none, 4000},
		"version 2, parent":                   {map[string]string{"/proc/self/cgroup": "0::/a/b/c\n", "/proc/self/mountinfo": withRoot(v2Mount, "/"), "/sys/fs/cgroup/a/b/c/memory.max": "max\n", "/sys/fs/cgroup/a/memory.max": "5000\n"}, none, 5000},
		"version 2, container":                {map[string]string{"/proc/self/cgroup": "0::/\n", "/proc/self/mountinfo": withRoot(v2Mount, "/"), "/sys/fs/cgroup/memory.max": "6000\n"}, none, 6000},
		"version 2, outside of its namespace": {map[string]string{"/proc/self/cgroup": "0::/../x\n", "/proc/self/mountinfo": withRoot(v2Mount, "/"), "/sys/fs/cgroup/memory.max": "7000\n"}, none, 7000},
	} {
		if got := Limit(machine(t, c.files), none, c.goLimit); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
		if got := Limit(machine(t, c.files), 900, c.goLimit); got != 900 {
			t.Errorf("%s: %d on a machine of 900", name, got)
		}
	}
}
