package tool

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/magiconair/properties"
	"github.com/spf13/pflag"

	"grete/internal/vfs"
)

const (
	// defaultBrokers are asked where nothing says otherwise.
	defaultBrokers = "localhost:9092"
	// maxConfigBytes bounds a file with properties, profiles or a password.
	maxConfigBytes = 1 << 20
	// defaultTimeout bounds a command of few requests.
	defaultTimeout = 30 * time.Second
)

// link says how a cluster is reached. It is what a profile holds and what flags say; its names are those of the flags.
type link struct {
	Brokers       string            `yaml:"brokers,omitempty" json:"brokers,omitempty"`
	CommandConfig string            `yaml:"command-config,omitempty" json:"command-config,omitempty"`
	TLS           bool              `yaml:"tls,omitempty" json:"tls,omitempty"`
	CA            string            `yaml:"ca,omitempty" json:"ca,omitempty"`
	Cert          string            `yaml:"cert,omitempty" json:"cert,omitempty"`
	Key           string            `yaml:"key,omitempty" json:"key,omitempty"`
	As            string            `yaml:"as,omitempty" json:"as,omitempty"`
	PasswordFile  string            `yaml:"as-password-file,omitempty" json:"as-password-file,omitempty"`
	Mechanism     string            `yaml:"as-mechanism,omitempty" json:"as-mechanism,omitempty"`
	TokenFile     string            `yaml:"as-token-file,omitempty" json:"as-token-file,omitempty"`
	Set           map[string]string `yaml:"properties,omitempty" json:"properties,omitempty"`
}

type timeoutFlag = time.Duration

// connectionFlags are those of every command that asks a cluster. Their names are those of grete user.
func (t *tool) connectionFlags(flags *pflag.FlagSet) {
	f := &t.flags
	flags.StringVarP(&f.Brokers, "brokers", "b", "", "`host:port,…` of some brokers (GRETE_BROKERS; else "+defaultBrokers+")")
	flags.StringVar(&t.profile, "profile", "", "`name` of the profile to use (GRETE_PROFILE; grete profile --help)")
	flags.StringVar(&f.CommandConfig, "command-config", "", "`file` with properties of Kafka's clients")
	flags.StringToStringVarP(&f.Set, "property", "X", nil, "`key=value` of a property of Kafka's clients; may be repeated")
	flags.BoolVar(&f.TLS, "tls", false, "speak TLS, and believe the system's authorities unless --ca names others")
	flags.StringVar(&f.CA, "ca", "", "PEM `file` of the authorities to believe, where the listener has TLS")
	flags.StringVar(&f.Cert, "cert", "", "PEM `file` of this client's certificate and the chain to its authority")
	flags.StringVar(&f.Key, "key-file", "", "PEM `file` of the certificate's private key; that of --cert unless given")
	flags.StringVar(&f.As, "as", "", "`user` to log in as, where the listener has SASL")
	flags.StringVar(&f.PasswordFile, "as-password-file", "", "`file` whose first line is that user's password")
	flags.StringVar(&f.Mechanism, "as-mechanism", "", "`mechanism` to log in by: PLAIN, SCRAM-SHA-256 (the default), SCRAM-SHA-512 or OAUTHBEARER")
	flags.StringVar(&f.TokenFile, "as-token-file", "", "`file` with a token to log in with by OAUTHBEARER")
	flags.DurationVar(&t.timeout, "timeout", defaultTimeout, "how long to wait for answers")
}

// over returns l with what is set in above in place of its own.
func (l link) over(above link) link {
	for _, field := range [][2]*string{
		{&l.Brokers, &above.Brokers}, {&l.CommandConfig, &above.CommandConfig}, {&l.CA, &above.CA}, {&l.Cert, &above.Cert}, {&l.Key, &above.Key},
		{&l.As, &above.As}, {&l.PasswordFile, &above.PasswordFile}, {&l.Mechanism, &above.Mechanism}, {&l.TokenFile, &above.TokenFile},
	} {
		if *field[1] != "" {
			*field[0] = *field[1]
		}
	}
	l.TLS = l.TLS || above.TLS
	set := maps.Clone(l.Set)
	if set == nil {
		set = map[string]string{}
	}
	maps.Copy(set, above.Set)
	l.Set = set
	return l
}

// absolute returns l with absolute names of files, for a profile that is used from elsewhere.
func (l link) absolute() (link, error) {
	for _, file := range []*string{&l.CommandConfig, &l.CA, &l.Cert, &l.Key, &l.PasswordFile, &l.TokenFile} {
		if *file != "" {
			name, err := filepath.Abs(*file)
			if err != nil {
				return l, err
			}
			*file = name
		}
	}
	return l, nil
}

// link puts together what a profile, the environment and the flags say, each stronger than the one before; a profile
// that a flag names is stronger than the environment.
func (t *tool) link(flags *pflag.FlagSet) (link, error) {
	if err := emptyFlag(flags); err != nil {
		return link{}, err
	}
	profile, err := t.chosenProfile()
	if err != nil {
		return link{}, err
	}
	fromEnv := link{Brokers: t.env("GRETE_BROKERS")}
	if t.profile != "" {
		return fromEnv.over(profile).over(t.flags), nil
	}
	return profile.over(fromEnv).over(t.flags), nil
}

// emptyFlag refuses a flag of the connection without text: in scripts it is a variable that is not set, and what would
// be asked instead is another cluster.
func emptyFlag(flags *pflag.FlagSet) (err error) {
	for _, name := range []string{"brokers", "profile", "command-config", "ca", "cert", "key-file", "as", "as-password-file", "as-mechanism", "as-token-file"} {
		if f := flags.Lookup(name); f != nil && f.Changed && strings.TrimSpace(f.Value.String()) == "" {
			return usagef("--%s is empty", name)
		}
	}
	return nil
}

// properties are the properties of Kafka's clients that l comes to: of the file, then single ones, then flags.
func (l link) properties(files vfs.FS) (map[string]string, error) {
	out := map[string]string{}
	if l.CommandConfig != "" {
		text, err := vfs.ReadFile(files, l.CommandConfig, maxConfigBytes)
		if err != nil {
			return nil, fmt.Errorf("--command-config: %w", err)
		}
		loader := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
		p, err := loader.LoadBytes(text)
		if err != nil {
			return nil, fmt.Errorf("--command-config=%s: %w", l.CommandConfig, err)
		}
		maps.Copy(out, p.Map())
	}
	maps.Copy(out, l.Set)
	if l.Brokers != "" {
		out["bootstrap.servers"] = l.Brokers
	}
	if err := l.flagProperties(out, files); err != nil {
		return nil, err
	}
	return out, nil
}

// seeds are the brokers to begin with.
func seeds(list string) ([]string, error) {
	var out []string
	for address := range strings.SplitSeq(list, ",") {
		if address = strings.TrimSpace(address); address == "" {
			continue
		}
		if i := strings.Index(address, "://"); i >= 0 {
			address = address[i+3:]
		}
		if !strings.Contains(address, ":") || strings.HasSuffix(address, "]") {
			address += ":9092"
		}
		if !slices.Contains(out, address) {
			out = append(out, address)
		}
	}
	if len(out) == 0 {
		return nil, usagef("--brokers=%s names no broker: it is host:port,…", list)
	}
	return out, nil
}
