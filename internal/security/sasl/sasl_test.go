package sasl

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func random(p []byte) { _, _ = rand.Read(p) }

// run has a client and a server talk.
func run(c Client, s Exchange) error {
	challenge := []byte(nil)
	for finished := false; ; {
		token, done, err := c.Next(challenge)
		switch {
		case err != nil:
			return err
		case done && !finished:
			return errors.New("the client is done before the server")
		case done:
			return nil
		}
		if challenge, finished, err = s.Next(token); err != nil {
			return err
		}
	}
}

func TestMechanisms(t *testing.T) {
	for _, h := range []Hash{SHA256, SHA512} {
		credential, err := h.NewCredential("pencil,=", []byte("salty"), MinIterations)
		if err != nil {
			t.Fatal(err)
		}
		server := &ScramServer{Hash: h, Random: random, Secret: []byte("x"), Lookup: func(user string) (Credential, bool) { return credential, user == "a,b=c" }}
		for _, tt := range []struct {
			user, password string
			ok             bool
		}{{"a,b=c", "pencil,=", true}, {"a,b=c", "pencil", false}, {"nobody", "pencil,=", false}, {"", "pencil,=", false}} {
			client, err := h.NewScramClient(tt.user, tt.password, random)
			if err != nil {
				t.Fatal(err)
			}
			exchange := server.Begin()
			err = run(client, exchange)
			if (err == nil) != tt.ok || tt.ok && exchange.Result().Name != tt.user {
				t.Errorf("%v %v: %v", h, tt, err)
			}
		}
	}
	users := Users{"ann": "x", "empty": ""}
	for _, tt := range []struct {
		user, password string
		ok             bool
	}{{"ann", "x", true}, {"ann", "absent", false}, {"ann", "", false}, {"bob", "absent", false}, {"empty", "", false}} {
		exchange := NewPlain(users)
		if err := run(NewPlainClient(tt.user, tt.password), exchange); (err == nil) != tt.ok || tt.ok && exchange.Result().Name != tt.user {
			t.Errorf("PLAIN %v: %v", tt, err)
		}
	}
}

// The example of RFC 7677.
func TestScramKeys(t *testing.T) {
	salt, _ := base64.StdEncoding.DecodeString("W22ZaJ0SNY7soEsUEjb6gQ==")
	server := &ScramServer{Hash: SHA256, Random: func(p []byte) {}, Lookup: func(string) (Credential, bool) {
		c, err := SHA256.NewCredential("pencil", salt, 4096)
		return c, err == nil
	}}
	exchange := server.Begin()
	challenge, _, err := exchange.Next([]byte("n,,n=user,r=rOprNGfwEbeRWgbNEkqO"))
	if err != nil || !strings.HasSuffix(string(challenge), ",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096") {
		t.Fatalf("%s, %v", challenge, err)
	}
	salted, err := SHA256.SaltPassword("pencil", salt, 4096)
	if err != nil || hex.EncodeToString(salted) != "c4a49510323ab4f952cac1fa99441939e78ea74d6be81ddf7096e87513dc615d" {
		t.Errorf("%x, %v", salted, err)
	}
}

// Who says that his name is a delegation token's is not the user of that name.
func TestTokensAreNoUsers(t *testing.T) {
	looked := false
	server := &ScramServer{Hash: SHA256, Random: random, Secret: []byte("x"), Lookup: func(string) (Credential, bool) { looked = true; return Credential{}, true }}
	if _, _, err := server.Begin().Next([]byte("n,,n=bob,r=x,tokenauth=TRUE")); err != nil || looked {
		t.Error(err, looked)
	}
	if _, _, err := server.Begin().Next([]byte("n,,n=bob,r=x,tokenauth=false,other=1")); err != nil || !looked {
		t.Error(err, looked)
	}
}

func TestJAAS(t *testing.T) {
	for _, tt := range []struct {
		text, module, options string
	}{
		{`org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="a\"b=c;" user_admin='x y' ;`,
			"org.apache.kafka.common.security.plain.PlainLoginModule", `password=a"b=c; user_admin=x y username=admin`},
		{"a.B REQUISITE // why\n /* because ; */ x = y_1$-z \n;", "a.B", "x=y_1$-z"},
		{"a.B optional;", "a.B", ""},
		{`a.B optional x="\t\101\060z";`, "a.B", "x=\tA0z"},
		{`"a.B" 'Sufficient' "x"='y' ;`, "a.B", "x=y"},
		{"a.B required / why\n x=\"\";/", "a.B", "x="},
		{"a.B required x=\"y'\n;", "a.B", "x=y'"}, // a line ends a text
		{"a.B required x=y x=\u00e4\u4e2d;", "a.B", "x=\u00e4\u4e2d"},
	} {
		l, err := ParseJAAS(tt.text)
		var options []string
		for _, name := range []string{"password", "user_admin", "username", "x"} {
			if v, ok := l.Options[name]; ok {
				options = append(options, name+"="+v)
			}
		}
		if err != nil || l.Module != tt.module || strings.Join(options, " ") != tt.options || len(options) != len(l.Options) {
			t.Errorf("%s: %+v, %v", tt.text, l, err)
		}
	}
	for _, text := range []string{
		"", " ", "a.B", "a.B maybe;", "a.B required", "a.B required x;", "a.B required x=;", "a.B required x=12;", `a.B required x="hunter2;`, "a.B required x=\"hunter2\n\";",
		"a.B required; c.D required;", "a.B required ;;", `a.B required ="hunter2";`, `a.B required x=y hunter2`, `a.B required x "hunter2";`, `a.B required x="y" "hunter2";`,
		`a.B "hunter2" x=y;`, `"" required;`, "a.B required x=y/hunter2;", "a.B required x=y hunter2=;", "a.B required x=-;", "a.B required x=y,z=hunter2;",
	} {
		if l, err := ParseJAAS(text); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %+v, %v", text, l, err)
		}
	}
}

func TestUsersFile(t *testing.T) {
	users, err := ParseUsers("# who\n\nann:a:b \r\nbob:c")
	if err != nil || len(users) != 2 || users["ann"] != "a:b " || users["bob"] != "c" {
		t.Errorf("%v, %v", users, err)
	}
	for text, line := range map[string]string{"ann:a\nhunter2": "line 2 ", ":hunter2": "line 1 ", "ann:": "line 1 ", "ann:x\n\nann:hunter2": "line 3 "} {
		if _, err := ParseUsers(text); err == nil || !strings.HasPrefix(err.Error(), line) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// FuzzPlain: nothing but the user's own password lets in.
func FuzzPlain(f *testing.F) {
	f.Add([]byte("\x00ann\x00x"))
	f.Add([]byte("bob\x00ann\x00secret"))
	f.Fuzz(func(t *testing.T, token []byte) {
		_, done, err := NewPlain(Users{"ann": "secret"}).Next(token)
		if right := string(token) == "\x00ann\x00secret" || string(token) == "ann\x00ann\x00secret"; done != right || (err == nil) != right {
			t.Errorf("%q: %v, %v", token, done, err)
		}
	})
}

// franzClient is franz-go's, which knows tokens.
type franzClient struct {
	mechanism sasl.Mechanism
	session   sasl.Session
}

func (c *franzClient) Next(challenge []byte) (token []byte, done bool, err error) {
	if c.session == nil {
		c.session, token, err = c.mechanism.Authenticate(context.Background(), "")
		return token, false, err
	}
	done, token, err = c.session.Challenge(challenge)
	return token, done, err
}

// A token logs in by its id and HMAC, as its owner and for as long as it lives; not when it has gone before the last
// message, nor as a user of its name.
func TestTokens(t *testing.T) {
	expires := time.UnixMilli(5000)
	for _, h := range []Hash{SHA256, SHA512} {
		credentials := &TokenCredentials{Secret: []byte("secret"), Salts: []byte("salts")}
		lookups, good := 0, 2
		server := &ScramServer{
			Hash: h, Random: random, Secret: []byte("salts"), Lookup: func(string) (Credential, bool) { return Credential{}, false },
			Token: func(id string) (Token, bool) {
				c, err := credentials.Of(h, id)
				lookups++
				return Token{Owner: "ann", Expires: expires, Credential: c}, err == nil && id == "token" && lookups <= good
			},
		}
		password := base64.StdEncoding.EncodeToString(TokenHMAC([]byte("secret"), "token"))
		for _, tt := range []struct {
			id, password string
			asToken      bool
			good         int
			ok           bool
		}{
			{"token", password, true, 2, true}, {"token", password, true, 1, false}, {"token", password, true, 0, false}, {"token", "guessed", true, 2, false},
			{"other", password, true, 2, false}, {"token", password, false, 2, false},
		} {
			lookups, good = 0, tt.good
			auth := scram.Auth{User: tt.id, Pass: tt.password, IsToken: tt.asToken}
			client := &franzClient{mechanism: auth.AsSha256Mechanism()}
			if h == SHA512 {
				client.mechanism = auth.AsSha512Mechanism()
			}
			exchange := server.Begin()
			err := run(client, exchange)
			if (err == nil) != tt.ok || tt.ok && exchange.Result() != (Result{Name: "ann", Expires: expires, ByToken: true}) {
				t.Errorf("%v %+v: %v, %+v", h, tt, err, exchange.Result())
			}
		}
	}
}

// The challenge of a token that there is not, the one before and the one after it is made, have the same salt and
// iterations.
func TestTokensAreNotEnumerated(t *testing.T) {
	credentials, known := &TokenCredentials{Secret: []byte("secret"), Salts: []byte("x")}, false
	server := &ScramServer{Hash: SHA256, Random: random, Secret: []byte("x"), Token: func(id string) (Token, bool) {
		c, _ := credentials.Of(SHA256, id)
		return Token{Credential: c}, known
	}}
	var after []string
	for _, known = range []bool{false, true, false} {
		challenge, _, err := server.Begin().Next([]byte("n,,n=id,r=x,tokenauth=true"))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(challenge), ",")
		after = append(after, rest)
	}
	if after[0] != after[1] || after[1] != after[2] || !strings.HasSuffix(after[0], ",i=4096") {
		t.Error(after)
	}
	for i := range 2 * maxTokenCredentials {
		credentials.known[tokenKey{SHA256, fmt.Sprint(i)}] = Credential{}
		if i == maxTokenCredentials {
			_, _ = credentials.Of(SHA256, "another")
			if len(credentials.known) > 1 {
				t.Fatalf("%d are remembered", len(credentials.known))
			}
		}
	}
}
