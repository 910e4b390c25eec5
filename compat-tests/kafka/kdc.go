package kafka

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

// Realm is that of a KDC.
const Realm = "GRETE.TEST"

// KDC is a Kerberos server of Debian's packages that runs as a process of the test, with its database in a directory
// of the test.
type KDC struct {
	Conf string // a krb5.conf for clients
	dir  string
	env  []string
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
}

// kerberosPackages bring the KDC, and GSSAPI for librdkafka.
var kerberosPackages = []string{"krb5-kdc", "krb5-admin-server", "krb5-user", "libsasl2-modules-gssapi-mit"}

// debian installs packages, once for a run of tests.
var debian sync.Mutex

// installKerberos installs what is missing, where the user may do so. The installation starts no service.
func installKerberos() error {
	debian.Lock()
	defer debian.Unlock()
	has := func() bool {
		plugins, _ := filepath.Glob("/usr/lib/*/sasl2/libgssapiv2.so")
		_, kdc := os.Stat("/usr/sbin/krb5kdc")
		_, kadmin := os.Stat("/usr/sbin/kadmin.local")
		return len(plugins) > 0 && kdc == nil && kadmin == nil
	}
	if has() {
		return nil
	}
	_ = Install("", "apt-get", "update", "-qq")
	err := Install("", "env", append([]string{"DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1", "apt-get", "install", "-y", "-qq", "--no-install-recommends"}, kerberosPackages...)...)
	if !has() {
		return fmt.Errorf("%w: Debian's packages %s are not installed and cannot be: %v", ErrMissing, strings.Join(kerberosPackages, ", "), err)
	}
	return nil
}

// StartKDC starts a KDC with an empty database in dir.
func StartKDC(ctx context.Context, dir string) (*KDC, error) {
	if err := installKerberos(); err != nil {
		return nil, err
	}
	ports, err := FreePorts(1)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	k := &KDC{Conf: filepath.Join(dir, "krb5.conf"), dir: dir, done: make(chan struct{})}
	k.env = append(os.Environ(), "KRB5_CONFIG="+k.Conf, "KRB5_KDC_PROFILE="+filepath.Join(dir, "kdc.conf"))
	address := fmt.Sprint("127.0.0.1:", ports[0])
	for name, text := range map[string]string{"krb5.conf": krb5Conf(address), "kdc.conf": k.kdcConf(address)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	if err := k.run("/usr/sbin/kdb5_util", "create", "-s", "-W", "-r", Realm, "-P", "master"); err != nil {
		return nil, err
	}
	k.cmd = exec.CommandContext(ctx, "/usr/sbin/krb5kdc", "-n", "-r", Realm)
	k.cmd.Env = k.env
	if err := k.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { _ = k.cmd.Wait(); close(k.done) }()
	return k, waitListening(ctx, address, k.done)
}

func krb5Conf(address string) string {
	return fmt.Sprintf(`[libdefaults]
 default_realm = %[1]s
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
[realms]
 %[1]s = {
  kdc = %[2]s
 }
[domain_realm]
 localhost = %[1]s
`, Realm, address)
}

func (k *KDC) kdcConf(address string) string {
	return fmt.Sprintf(`[kdcdefaults]
 kdc_listen = %[2]s
 kdc_tcp_listen = %[2]s
[realms]
 %[1]s = {
  database_name = %[3]s/principal
  key_stash_file = %[3]s/stash
  default_principal_flags = +preauth
  supported_enctypes = aes256-cts-hmac-sha1-96:normal aes128-cts-hmac-sha256-128:normal
 }
[logging]
 kdc = FILE:%[3]s/kdc.log
`, Realm, address, k.dir)
}

// Keytab makes principals, those that are there with new keys, and a file with their keys.
func (k *KDC) Keytab(name string, principals ...string) (string, error) {
	file := filepath.Join(k.dir, name+".keytab")
	for _, p := range principals {
		_ = k.run("/usr/sbin/kadmin.local", "-r", Realm, "-q", "addprinc -randkey "+p) // it may be there
		if err := k.run("/usr/sbin/kadmin.local", "-r", Realm, "-q", "ktadd -k "+file+" "+p); err != nil {
			return "", err
		}
	}
	_, err := os.Stat(file) // kadmin's exit code says nothing
	return file, err
}

// Limit bounds the life of a principal's tickets.
func (k *KDC) Limit(principal string, life time.Duration) error {
	return k.run("/usr/sbin/kadmin.local", "-r", Realm, "-q", fmt.Sprintf(`modprinc -maxlife "%d seconds" %s`, int(life.Seconds()), principal))
}

// Logins is how often a principal has logged in.
func (k *KDC) Logins(principal string) (int, error) {
	log, err := os.ReadFile(filepath.Join(k.dir, "kdc.log"))
	return len(regexp.MustCompile(`AS_REQ .*: ISSUE: .* `+regexp.QuoteMeta(principal+"@"+Realm)+` for krbtgt/`).FindAll(log, -1)), err
}

func (k *KDC) run(name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Env = k.env
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w: %s", name, args, err, out)
	}
	return nil
}

// Stop ends the KDC.
func (k *KDC) Stop() {
	_ = k.cmd.Process.Kill()
	<-k.done
}

// Krb5Login is a JAAS line by which Java, and our broker, log in.
func Krb5Login(keytab, principal string) string {
	return fmt.Sprintf(`com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true keyTab="%s" principal="%s@%s";`, keytab, principal, Realm)
}

// waitListening returns once something listens at address.
func waitListening(ctx context.Context, address string, ended <-chan struct{}) error {
	deadline := time.Now().Add(startTimeout)
	for time.Now().Before(deadline) {
		if c, err := new(net.Dialer).DialContext(ctx, "tcp", address); err == nil {
			return c.Close()
		}
		select {
		case <-ended:
			return fmt.Errorf("what should listen on %s has ended", address)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	return fmt.Errorf("nothing listens on %s after %v", address, startTimeout)
}
