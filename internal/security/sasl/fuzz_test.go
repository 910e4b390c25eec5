package sasl

import (
	"crypto/ed25519"
	"crypto/hmac"
	"encoding/base64"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/golang-jwt/jwt/v5"
)

// quoteJAAS writes a value of a JAAS line.
func quoteJAAS(value string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`).Replace(value) + `"`
}

// FuzzJAAS: what was read of a line and is written again is read the same.
func FuzzJAAS(f *testing.F) {
	f.Add(`a.B required username="a" password="\"x" ;`)
	f.Add("a.B optional // x\n/* */ x=y;")
	f.Add(`org.apache.kafka.common.security.plain.PlainLoginModule required user_a="\t\101\060z" user_b='\'' ;`)
	f.Fuzz(func(t *testing.T, text string) {
		l, err := ParseJAAS(text)
		if err != nil {
			return
		}
		var again strings.Builder
		again.WriteString(l.Module + " required")
		for _, name := range slices.Sorted(maps.Keys(l.Options)) {
			again.WriteString(" " + name + "=" + quoteJAAS(l.Options[name]))
		}
		got, err := ParseJAAS(again.String() + ";")
		if err != nil || l.Module == "" || got.Module != l.Module || !maps.Equal(got.Options, l.Options) {
			t.Errorf("%q is %+v; %q is %+v, %v", text, l, again.String(), got, err)
		}
	})
}

// FuzzUsersFile: what was read of a file of users and is written again is read the same.
func FuzzUsersFile(f *testing.F) {
	f.Add("# who\n\nann:a:b \r\nbob:c")
	f.Add("ann:x\nann:y")
	f.Fuzz(func(t *testing.T, text string) {
		users, err := ParseUsers(text)
		if err != nil {
			return
		}
		var again strings.Builder
		for name, password := range users {
			fmt.Fprintf(&again, "%s:%s\n", name, password)
		}
		if got, err := ParseUsers(again.String()); err != nil || !maps.Equal(got, users) {
			t.Errorf("%q is %v; written again %v, %v", text, users, got, err)
		}
	})
}

// FuzzBootstrapUsers: what was read and is written again is read the same; what is refused is not repeated.
func FuzzBootstrapUsers(f *testing.F) {
	f.Add("admin:secret;SCRAM-SHA-256=[name=alice,password=secret,iterations=8192]")
	f.Add(`SCRAM-SHA-512=[name="a",password="x y"];`)
	f.Fuzz(func(t *testing.T, text string) {
		users, err := ParseBootstrapUsers(text)
		if err != nil {
			return
		}
		var again []string
		for _, u := range users {
			if u.Iterations < MinIterations || u.Iterations > MaxIterations || u.Name == "" || u.Password == "" {
				t.Fatalf("%+v was taken", u)
			}
			again = append(again, fmt.Sprintf(`%v=[name="%s",password="%s",iterations=%d]`, u.Hash, u.Name, u.Password, u.Iterations))
		}
		got, err := ParseBootstrapUsers(strings.Join(again, ";"))
		if strings.ContainsAny(text, ";,") && (err != nil || len(got) != len(users)) {
			return // a name or password with a separator, which name:password may have, has no such form
		}
		if err != nil || !slices.Equal(got, users) {
			t.Errorf("%q is %+v; written again %+v, %v", text, users, got, err)
		}
	})
}

// FuzzScramServer: without the password no exchange ends well, with known and unknown users, as a user and as a token.
func FuzzScramServer(f *testing.F) {
	credential, err := SHA256.NewCredential("p", []byte("salt"), MinIterations)
	if err != nil {
		f.Fatal(err)
	}
	server := &ScramServer{Hash: SHA256, Random: func([]byte) {}, Secret: []byte("x"), Lookup: func(user string) (Credential, bool) { return credential, user == "bob" }}
	nonce := base64.StdEncoding.EncodeToString(make([]byte, 24))
	f.Add("n,,n=bob,r=x", "c=biws,r=x"+nonce+",p=AAAA")
	f.Add("n,,n=bob,r=x", "c=biws,r=x"+nonce+",p="+base64.StdEncoding.EncodeToString(make([]byte, 32)))
	f.Add("n,,n=eve,r=x", "c=biws,r=x"+nonce+",p="+base64.StdEncoding.EncodeToString(make([]byte, 32)))
	f.Add("n,a=bob,n=bob,r=x,tokenauth=true", "c=biws,r=x,p=")
	f.Add("p=tls-unique,,n=a=2Cb,r=", ",,")
	f.Add("\x00ann\x00hunter2,,,", "hunter2")
	f.Fuzz(func(t *testing.T, first, last string) {
		e := server.Begin()
		challenge, done, err := e.Next([]byte(first))
		if done || err == nil && len(challenge) == 0 {
			t.Fatal("done at once")
		}
		if err != nil {
			repeatsNothing(t, err, first)
			return
		}
		if _, done, err = e.Next([]byte(last)); done || err == nil {
			t.Fatal("authenticated")
		}
		repeatsNothing(t, err, last)
	})
}

// repeatsNothing checks that an error, which the log shows, has nothing of what the client sent, which may be a password.
func repeatsNothing(t *testing.T, err error, sent string) {
	t.Helper()
	if len(sent) > 12 && strings.Contains(err.Error(), sent[:12]) || strings.Contains(err.Error(), "hunter2") {
		t.Fatalf("%q is repeated in %q", sent, err)
	}
}

// FuzzScramProof: with the right key, only the proof for just this exchange lets in.
func FuzzScramProof(f *testing.F) {
	salted, err := SHA512.SaltPassword("p", []byte("salt"), MinIterations)
	if err != nil {
		f.Fatal(err)
	}
	stored, serverKey := SHA512.Keys(salted)
	server := &ScramServer{Hash: SHA512, Random: func([]byte) {}, Secret: []byte("x"), Lookup: func(user string) (Credential, bool) {
		return Credential{Salt: []byte("salt"), StoredKey: stored, ServerKey: serverKey, Iterations: MinIterations}, user == "bob"
	}}
	server.Token = func(id string) (Token, bool) {
		credential, known := server.Lookup(id)
		return Token{Owner: "eve", Credential: credential}, known
	}
	f.Add("r=x", "", byte(0), uint16(0))
	f.Add("r=,x=y", ",e=f", byte(1), uint16(3))
	f.Add("r=x,tokenauth=true", "", byte(0), uint16(70))
	f.Fuzz(func(t *testing.T, first, extension string, flip byte, at uint16) {
		e := server.Begin()
		bare := "n=bob," + first
		challenge, _, err := e.Next([]byte("n,," + bare))
		if err != nil {
			return
		}
		nonce, _, _ := strings.Cut(string(challenge), ",")
		without := "c=biws," + nonce + extension
		last := []byte(without + ",p=" + base64.StdEncoding.EncodeToString(proofOf(SHA512, salted, stored, bare+","+string(challenge)+","+without)))
		right := flip == 0
		last[int(at)%len(last)] ^= flip
		asToken := extensions("n,," + bare)[tokenAuthExtension] == "true"
		_, done, err := e.Next(last)
		if done != (err == nil) || done && !right && int(at)%len(last) < len(without) {
			t.Fatalf("%q then %q: %v, %v", bare, last, done, err)
		}
		if right && !done && extension == "" {
			t.Fatalf("%q then %q: %v", bare, last, err)
		}
		want := Result{Name: "bob"}
		if asToken {
			want = Result{Name: "eve", ByToken: true}
		}
		if done && e.Result() != want {
			t.Fatalf("%q then %q is %+v", bare, last, e.Result())
		}
	})
}

// proofOf is a client's proof (RFC 5802).
func proofOf(h Hash, salted, stored []byte, message string) []byte {
	mac := func(key []byte, text string) []byte {
		m := hmac.New(h.generator(), key)
		m.Write([]byte(text))
		return m.Sum(nil)
	}
	key, signature := mac(salted, "Client Key"), mac(stored, message)
	for i := range key {
		key[i] ^= signature[i]
	}
	return key
}

// FuzzScramClient: a server that does not know the password convinces no client, and makes none work for ever.
func FuzzScramClient(f *testing.F) {
	nonce := base64.StdEncoding.EncodeToString(make([]byte, 24))
	f.Add("r="+nonce+"x,s=c2FsdA==,i=4096", "v="+base64.StdEncoding.EncodeToString(make([]byte, 32)))
	f.Add("r="+nonce+",s=,i=2000000000", "e=other-error")
	f.Add("m=x,r="+nonce+",s=!,i=-1", "")
	f.Fuzz(func(t *testing.T, first, last string) {
		client, err := SHA256.NewScramClient("ann", "p", func([]byte) {})
		if err != nil {
			t.Fatal(err)
		}
		if token, done, err := client.Next(nil); err != nil || done || string(token) != "n,,n=ann,r="+nonce {
			t.Fatalf("%q, %v, %v", token, done, err)
		}
		began := time.Now()
		if _, done, err := client.Next([]byte(first)); done {
			t.Fatal("done at once")
		} else if err != nil {
			return
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Fatalf("%q took %v", first, took)
		}
		if _, done, err := client.Next([]byte(last)); done || err == nil {
			t.Fatal("the client takes the server for the right one")
		}
	})
}

// FuzzOAuthBearer: nobody gets in but with the one token that the key has signed.
func FuzzOAuthBearer(f *testing.F) {
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	set, err := ParseKeySet([]byte(`{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a","x":"` + base64.RawURLEncoding.EncodeToString(key.Public().(ed25519.PublicKey)) + `"}]}`))
	if err != nil {
		f.Fatal(err)
	}
	rules := &TokenRules{Subject: "sub", Audiences: []string{"kafka"}, Now: func() time.Time { return time.Unix(1, 0) }, Keys: func() *KeySet { return set }}
	token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, jwt.MapClaims{"sub": "ann", "exp": 2, "iat": 1, "aud": "kafka"})
	token.Header["kid"] = "a"
	signed, err := token.SignedString(key)
	if err != nil {
		f.Fatal(err)
	}
	right := "n,a=ann,\x01auth=Bearer " + signed + "\x01x=y\x01\x01"
	if _, done, err := NewOAuthBearer(rules).Next([]byte(right)); !done {
		f.Fatal(err)
	}
	f.Add(right)
	f.Add("n,,\x01auth=Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIiwiZXhwIjoyLCJpYXQiOjF9.\x01\x01")
	f.Add("n,a=x=2C,\x01auth=Bearer eyJhbGciOiJFUzI1NiJ9.e30.AAAA\x01k=v\x01\x01")
	f.Fuzz(func(t *testing.T, message string) {
		e := NewOAuthBearer(rules)
		challenge, done, err := e.Next([]byte(message))
		if done && (!strings.Contains(message, signed) || e.Result().Name != "ann") {
			t.Errorf("%q got in as %q", message, e.Result().Name)
		}
		if err != nil {
			repeatsNothing(t, err, message)
		}
		if err == nil && !done && string(challenge) != invalidToken {
			t.Errorf("%q was answered %q", message, challenge)
		}
		if !utf8.ValidString(message) && done {
			t.Error("a message that is no text got in")
		}
	})
}

// FuzzUnsecuredToken: a token without a signature that the server takes is one that a client of that name could have read
// as its own, and has not expired.
func FuzzUnsecuredToken(f *testing.F) {
	now := time.Unix(1000, 0)
	rules := &TokenRules{Unsecured: true, Subject: "sub", Now: func() time.Time { return now }}
	f.Add(`{"alg":"none"}`, `{"sub":"ann","iat":999,"exp":1001}`, "")
	f.Add(`{"alg":"none","typ":"JWT"}`, `{"sub":7,"iat":1e400,"exp":"x"}`, "")
	f.Add(`{"alg":"HS256"}`, `{"sub":"ann","exp":1001}`, "AA")
	f.Add(`{"alg":"none"}`, `{"sub":"0","exp":1001}`, "\r")
	f.Fuzz(func(t *testing.T, header, claims, signature string) {
		part := base64.RawURLEncoding.EncodeToString
		text := part([]byte(header)) + "." + part([]byte(claims)) + "." + signature
		result, err := rules.Check(text)
		if err != nil {
			repeatsNothing(t, err, text)
			return
		}
		own, err := ReadToken(text, "sub")
		if err != nil || signature != "" || result.Name == "" || !own.Expires.After(now) {
			t.Fatalf("%q is %+v, %+v, %v", text, result, own, err)
		}
	})
}

// FuzzKeySet: a set that is taken has keys, each for some algorithm, and no signature of zeros is one of theirs.
func FuzzKeySet(f *testing.F) {
	f.Add([]byte(`{"keys":[{"kty":"EC","crv":"P-256","kid":"a","x":"AQ","y":"AQ"},{"kty":"RSA","n":"AQAB","e":"AQAB"}]}`))
	f.Add([]byte(`{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a","x":"O2onvM62pC1io6jQKm8Nc2UyFXcd4kOmOsBIoYtZ2ik"}]}`))
	f.Add([]byte(`{"keys":[{"kty":"EC","crv":"P-256","kid":"a","x":"axfR8uEsQkf4vOblY6RA8ncDfYEt6zOg9KE5RdiYwpY","y":"T-NC4v4af5uO5-tKfA-eFivOM1drMV7Oy7ZAaDe_UfU"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		set, err := ParseKeySet(text)
		if err != nil {
			return
		}
		if len(set.keys) == 0 || len(set.keys) > maxWebKeys {
			t.Errorf("a set of %d keys was taken", len(set.keys))
		}
		for _, k := range set.keys {
			signs := false
			for _, algorithm := range tokenAlgorithms {
				if !k.signs(algorithm) {
					continue
				}
				signs = true
				set.find(k.id, algorithm)
				if err := jwt.GetSigningMethod(algorithm).Verify("a.b", make([]byte, 64), k.key); err == nil {
					t.Errorf("%s takes a signature of zeros", algorithm)
				}
			}
			if !signs {
				t.Errorf("a key of the family %q signs nothing", k.family)
			}
		}
	})
}

// What a mechanism allocates for a token follows its length, for tokens that are made to be dear.
func TestExchangesAllocateInProportion(t *testing.T) {
	const size = 512 << 10
	rules := &TokenRules{Subject: "sub", Now: time.Now, Keys: func() *KeySet { return &KeySet{} }}
	scram := &ScramServer{Hash: SHA256, Random: func([]byte) {}, Secret: []byte("x"), Lookup: func(string) (Credential, bool) { return Credential{}, false }}
	bearing := func(claims string) []byte {
		part := base64.RawURLEncoding.EncodeToString
		return []byte("n,,\x01auth=Bearer " + part([]byte(`{"alg":"ES256"}`)) + "." + part([]byte(claims)) + ".AA\x01\x01")
	}
	var members strings.Builder
	for i := range size / 12 {
		fmt.Fprintf(&members, `"%x":{},`, i)
	}
	for name, claims := range map[string]string{
		"empty arrays": `{"a":[` + strings.Repeat("[],", size/4) + `1]}`, "empty objects": `{"a":[` + strings.Repeat("{},", size/4) + `1]}`,
		"numbers": `{"a":[` + strings.Repeat("1,", size*3/8) + `1]}`, "members": "{" + members.String() + `"z":1}`,
		"depth": strings.Repeat("[", size/2), "audiences": `{"aud":[` + strings.Repeat(`"",`, size/4) + `""]}`,
	} {
		inProportion(t, "OAUTHBEARER with "+name, NewOAuthBearer(rules), bearing(claims))
	}
	inProportion(t, "OAUTHBEARER with many pairs", NewOAuthBearer(rules), []byte("n,,\x01"+strings.Repeat("a=b\x01", size/4)+"\x01"))
	inProportion(t, "OAUTHBEARER with dots", NewOAuthBearer(rules), []byte("n,,\x01auth=Bearer "+strings.Repeat(".", size)+"\x01\x01"))
	inProportion(t, "PLAIN", NewPlain(Users{}), make([]byte, size))
	inProportion(t, "PLAIN with a long name", NewPlain(Users{}), []byte("\x00"+strings.Repeat("a", size/2)+"\x00"+strings.Repeat("a", size/2)))
	for _, first := range []string{strings.Repeat(",", size), "n,,n=a,r=x" + strings.Repeat(",a=b", size/4), "n,,n=" + strings.Repeat("=2C", size/3) + ",r=x", "n,,n=a,r=" + strings.Repeat("x", size)} {
		inProportion(t, fmt.Sprintf("SCRAM, %.20q", first), scram.Begin(), []byte(first))
	}
	last := scram.Begin()
	if _, _, err := last.Next([]byte("n,,n=a,r=x")); err != nil {
		t.Fatal(err)
	}
	inProportion(t, "the last message of SCRAM", last, []byte("c=biws,r=x"+strings.Repeat(",a=b", size/4)))
}

func inProportion(t *testing.T, name string, e Exchange, token []byte) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _, _ = e.Next(token)
	runtime.ReadMemStats(&after)
	spent := after.TotalAlloc - before.TotalAlloc
	t.Logf("%s: %.1f bytes for each", name, float64(spent)/float64(len(token)))
	if spent > uint64(ExchangeFactor*len(token)) {
		t.Errorf("%s: %d bytes are allocated for %d", name, spent, len(token))
	}
}

// A password with a comma that looks like a field is not cut in silence.
func TestBootstrapUserWithAFieldTwice(t *testing.T) {
	const text = "SCRAM-SHA-256=[name=a,password=planted,password=b]"
	if users, err := ParseBootstrapUsers(text); err == nil || strings.Contains(err.Error(), "planted") {
		t.Errorf("%+v, %v", users, err)
	}
}
