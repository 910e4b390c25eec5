package clients

import (
	"bytes"
	"errors"
	"os/exec"
	"strings"
)

// securedKcat runs kcat, which says its errors in the text of its log alone.
func securedKcat(c secured) ([]said, error) {
	if _, err := exec.LookPath("kcat"); err != nil {
		return nil, err
	}
	return c.inGo(goSteps{
		produce: func(way, topic string, good bool) error {
			if !good { // a producer tries on until its messages are too old
				_, err := c.kcat(way, false, "", "-L", "-m", "5")
				return err
			}
			_, err := c.kcat(way, true, way, "-P", "-t", topic, "-X", "message.timeout.ms=10000")
			return err
		},
		consume: func(way, group string) error {
			topic := "t-" + c.Client
			out, err := c.kcat(way, true, "", "-X", "auto.offset.reset=earliest", "-e", "-G", group, topic)
			if err == nil && !strings.Contains(out, way+"\n") {
				return errors.New("not read")
			}
			return err
		},
		name: func(err error) string { return err.Error() },
	})
}

func (c secured) kcat(way string, good bool, stdin string, args ...string) (string, error) {
	password, _ := c.secrets(good)
	all := []string{"-b", c.address(way), "-X", "ssl.ca.location=" + c.CA}
	if way == "SSL" {
		pem := c.Pem
		if !good {
			pem = c.OtherPem
		}
		all = append(all, "-X", "security.protocol=SSL", "-X", "ssl.certificate.location="+pem, "-X", "ssl.key.location="+pem)
	} else {
		all = append(all, "-X", "security.protocol=SASL_SSL", "-X", "sasl.mechanism="+way,
			"-X", "sasl.username="+c.User, "-X", "sasl.password="+password)
	}
	cmd := exec.Command("kcat", append(all, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); err != nil {
		return "", errors.New(log.String())
	}
	return out.String(), nil
}
