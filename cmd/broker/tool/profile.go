package tool

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"grete/internal/vfs"
)

// profiles are the named clusters of a user.
type profiles struct {
	Current  string          `yaml:"current,omitempty"`
	Profiles map[string]link `yaml:"profiles"`
}

func (t *tool) profileCommand() *cobra.Command {
	list := &cobra.Command{
		Use: "list", Short: "List profiles; the current one has a star", Args: cobra.NoArgs,
		RunE: t.profileRun(func(p *profiles, _ []string) (bool, error) { return false, t.listProfiles(p) }),
	}
	t.outputFlag(list.Flags())
	show := &cobra.Command{
		Use: "show [<name>]", Short: "Show a profile, the current one unless named; secrets are hidden", Args: atMost(1),
		RunE: t.profileRun(func(p *profiles, args []string) (bool, error) { return false, t.showProfile(p, args) }),
	}
	use := &cobra.Command{
		Use: "use <name>", Short: "Make a profile the current one", Args: exactly(1),
		RunE: t.profileRun(func(p *profiles, args []string) (bool, error) {
			_, err := p.find(args[0])
			p.Current = args[0]
			return true, err
		}),
	}
	set := &cobra.Command{
		Use: "set <name> [connection flags]", Short: "Make a profile of the flags that are given, or change these of one; the first one becomes current", Args: exactly(1),
		RunE: t.profileRun(func(p *profiles, args []string) (bool, error) { return true, t.setProfile(p, args[0]) }),
	}
	t.connectionFlags(set.Flags())
	remove := &cobra.Command{
		Use: "remove <name>", Short: "Remove a profile", Args: exactly(1),
		RunE: t.profileRun(func(p *profiles, args []string) (bool, error) {
			_, err := p.find(args[0])
			delete(p.Profiles, args[0])
			if p.Current == args[0] {
				p.Current = ""
			}
			return true, err
		}),
	}
	for _, cmd := range []*cobra.Command{show, use, set, remove} {
		cmd.ValidArgsFunction = t.completeProfiles
	}
	cmd := group("profile", "Name the clusters that you use", list, show, use, set, remove)
	cmd.Long = "Name the clusters that you use. A profile holds the flags of the connection:\n\n" +
		"  grete profile set prod -b a:9093,b:9093 --ca ca.pem --as ann --as-password-file ~/.prod\n" +
		"  grete profile use prod\n\n" +
		"The file is grete/profiles.yaml in your configuration directory, or what GRETE_PROFILES names. Flags are stronger than\n" +
		"GRETE_BROKERS, which is stronger than the current profile; one that --profile or GRETE_PROFILE names is stronger than that."
	return cmd
}

// profileRun reads the profiles, and writes them when run says that they changed.
func (t *tool) profileRun(run func(p *profiles, args []string) (changed bool, err error)) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := emptyFlag(cmd.Flags()); err != nil {
			return err
		}
		name, err := t.profilesFile()
		if err != nil {
			return err
		}
		p, err := t.readProfiles(name)
		if err != nil {
			return err
		}
		changed, err := run(p, args)
		if err != nil || !changed {
			return err
		}
		return t.writeProfiles(name, p)
	}
}

func (t *tool) profilesFile() (string, error) {
	if name := t.env("GRETE_PROFILES"); name != "" {
		return name, nil
	}
	if dir := t.env("XDG_CONFIG_HOME"); dir != "" {
		return path.Join(filepath.ToSlash(dir), "grete", "profiles.yaml"), nil
	}
	dir, err := os.UserConfigDir()
	return path.Join(filepath.ToSlash(dir), "grete", "profiles.yaml"), err
}

func (t *tool) readProfiles(name string) (*profiles, error) {
	p := &profiles{}
	text, err := vfs.ReadFile(t.Files, name, maxConfigBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	default:
		d := yaml.NewDecoder(bytes.NewReader(text))
		d.KnownFields(true)
		if err := d.Decode(p); err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if p.Profiles == nil {
		p.Profiles = map[string]link{}
	}
	return p, nil
}

// writeProfiles replaces the file. Only its owner may read it: it may hold secrets.
func (t *tool) writeProfiles(name string, p *profiles) error {
	text, err := yaml.Marshal(p)
	if err != nil {
		return err
	}
	if err := t.Files.MkdirAll(path.Dir(name), 0o700); err != nil {
		return err
	}
	beside := name + ".new"
	if err := t.Files.Remove(beside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := t.Files.OpenFile(beside, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(text, 0)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return t.Files.Rename(beside, name)
}

func (p *profiles) find(name string) (link, error) {
	l, ok := p.Profiles[name]
	if !ok {
		return l, fmt.Errorf("there is no profile %s (grete profile list; grete profile set %s -b host:port)", name, name)
	}
	return l, nil
}

// chosenProfile is the profile that a flag or the environment names, or the current one; an empty one without any.
func (t *tool) chosenProfile() (link, error) {
	if t.profile == "" {
		t.profile = t.env("GRETE_PROFILE")
	}
	name, err := t.profilesFile()
	if err != nil {
		if t.profile == "" {
			return link{}, nil // a process without a home has no profiles
		}
		return link{}, err
	}
	p, err := t.readProfiles(name)
	if err != nil {
		return link{}, err
	}
	if t.profile != "" {
		return p.find(t.profile)
	}
	return p.Profiles[p.Current], nil
}

func (t *tool) setProfile(p *profiles, name string) error {
	if strings.TrimSpace(name) == "" {
		return usagef("a profile needs a name")
	}
	flags, err := t.flags.absolute()
	if err != nil {
		return err
	}
	l := p.Profiles[name].over(flags)
	if _, err := l.properties(t.Files); err != nil {
		return err
	}
	p.Profiles[name] = l
	if len(p.Profiles) == 1 {
		p.Current = name
	}
	return nil
}

func (t *tool) listProfiles(p *profiles) error {
	type row struct {
		Name    string `json:"name"`
		Current bool   `json:"current"`
		Brokers string `json:"brokers"`
	}
	rows, tb := []row{}, newTable("", "", "name", "brokers")
	for _, name := range slices.Sorted(maps.Keys(p.Profiles)) {
		star := map[bool]string{true: "*"}[name == p.Current]
		rows = append(rows, row{name, name == p.Current, p.Profiles[name].Brokers})
		tb.row(star, name, p.Profiles[name].Brokers)
	}
	return t.show(rows, tb)
}

func (t *tool) showProfile(p *profiles, args []string) error {
	name := p.Current
	if len(args) > 0 {
		name = args[0]
	}
	if name == "" {
		return errors.New("there is no current profile (grete profile use <name>)")
	}
	l, err := p.find(name)
	if err != nil {
		return err
	}
	l.Set = maps.Clone(l.Set)
	for key := range l.Set {
		if strings.Contains(key, "password") || strings.Contains(key, "jaas") || strings.Contains(key, "secret") || strings.HasSuffix(key, "keystore.key") {
			l.Set[key] = "[hidden]"
		}
	}
	text, err := yaml.Marshal(l)
	if err == nil {
		_, err = t.Stdout.Write(text)
	}
	return err
}
