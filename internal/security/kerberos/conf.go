package kerberos

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/jcmturner/gokrb5/v8/config"
)

// MaxConfBytes bounds krb5.conf.
const MaxConfBytes = 1 << 20

// Conf is krb5.conf.
type Conf struct {
	file      *config.Config
	permitted Enctypes
}

var include = regexp.MustCompile(`(?m)^\s*(include|includedir|module)\s.*$`)

// ParseConf reads krb5.conf. What it has of other files is not read, and therefore refused.
func ParseConf(text []byte) (*Conf, error) {
	if line := include.Find(text); line != nil {
		return nil, fmt.Errorf("%q: files within the file are not read", bytes.TrimSpace(line))
	}
	c := &Conf{}
	err := guarded(func() (err error) {
		c.file, err = config.NewFromScanner(bufio.NewScanner(bytes.NewReader(text)))
		return err
	})
	if err != nil {
		return nil, err
	}
	c.permitted = c.known().within(c.listed(c.file.LibDefaults.PermittedEnctypes, c.file.LibDefaults.PermittedEnctypeIDs))
	lib := &c.file.LibDefaults
	lib.DefaultTktEnctypeIDs = c.permitted.within(c.listed(lib.DefaultTktEnctypes, lib.DefaultTktEnctypeIDs))
	lib.DefaultTGSEnctypeIDs = c.permitted.within(c.listed(lib.DefaultTGSEnctypes, lib.DefaultTGSEnctypeIDs))
	if len(lib.DefaultTktEnctypeIDs) == 0 || len(lib.DefaultTGSEnctypeIDs) == 0 {
		return nil, errors.New("permitted_enctypes, default_tkt_enctypes or default_tgs_enctypes leaves no encryption type that is taken")
	}
	return c, nil
}

// known are the types that there are: the weak ones only where the file asks for them.
func (c *Conf) known() Enctypes {
	if c.file.LibDefaults.AllowWeakCrypto {
		return slices.Concat(strongTypes, weakTypes)
	}
	return strongTypes
}

// listed is a list of the file; where it has none, all are meant: gokrb5's own list lacks the newer types.
func (c *Conf) listed(names []string, ids []int32) []int32 {
	if slices.Equal(names, config.New().LibDefaults.PermittedEnctypes) {
		return c.known()
	}
	return ids
}

// DefaultRealm is default_realm, "" where there is none.
func (c *Conf) DefaultRealm() string { return c.file.LibDefaults.DefaultRealm }

// Skew is how far clocks may be apart (clockskew).
func (c *Conf) Skew() time.Duration { return c.file.LibDefaults.Clockskew }

// Enctypes are the types that are taken (allow_weak_crypto, permitted_enctypes).
func (c *Conf) Enctypes() Enctypes { return c.permitted }
