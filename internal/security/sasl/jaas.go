package sasl

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// Login is one login module of a JAAS line with its options.
type Login struct {
	Module  string
	Options map[string]string
}

// Errors of JAAS lines never repeat the line: it has secrets.
var (
	errNoModule      = errors.New("JAAS config property does not contain any login modules")
	errSeveralModule = errors.New("JAAS config property contains more than one login module")
	errNoText        = errors.New("neither a word nor a quoted text")
)

// ParseJAAS reads what Kafka's sasl.jaas.config holds: loginModuleClass controlFlag (option=value)* ';'.
func ParseJAAS(text string) (Login, error) {
	s := &jaasScanner{src: text}
	module, err := s.text()
	switch {
	case err != nil && err != errNoText:
		return Login{}, err
	case module == "":
		return Login{}, errNoModule
	}
	l := Login{Module: module, Options: map[string]string{}}
	if err := s.controlFlag(); err != nil {
		return Login{}, err
	}
	if err := s.options(l.Options); err != nil {
		return Login{}, err
	}
	s.skipSpace()
	if !s.ended() {
		return Login{}, errSeveralModule
	}
	return l, nil
}

// jaasScanner reads the tokens of Java's StreamTokenizer as Kafka's JaasConfig sets it up: words, quoted texts,
// comments.
type jaasScanner struct {
	src string
	at  int
}

func (s *jaasScanner) ended() bool { return s.at >= len(s.src) }

func (s *jaasScanner) skipSpace() {
	for !s.ended() {
		rest := s.src[s.at:]
		switch {
		case rest[0] <= ' ':
			s.at++
		case strings.HasPrefix(rest, "/*"):
			s.at += 2 + untilEnd(rest[2:], "*/")
		case rest[0] == '/': // one is enough for Java
			s.at += untilEnd(rest, "\n")
		default:
			return
		}
	}
}

// untilEnd is the length of text up to the end of mark, or all of it.
func untilEnd(text, mark string) int {
	if i := strings.Index(text, mark); i >= 0 {
		return i + len(mark)
	}
	return len(text)
}

// take passes over c, if it is next.
func (s *jaasScanner) take(c byte) bool {
	s.skipSpace()
	if s.ended() || s.src[s.at] != c {
		return false
	}
	s.at++
	return true
}

// word reads a word, "" when none is next.
func (s *jaasScanner) word() (string, error) {
	s.skipSpace()
	begin := s.at
	for i, r := range s.src[begin:] {
		if !isWord(r) {
			break
		}
		s.at = begin + i + len(string(r))
	}
	word := s.src[begin:min(s.at, len(s.src))]
	if word != "" && (word[0] >= '0' && word[0] <= '9' || word[0] == '.' || word[0] == '-') {
		return "", errors.New("a number in a JAAS config property has to be quoted")
	}
	return word, nil
}

func isWord(r rune) bool {
	return r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_$-.", r)) || r >= 0xa0 && r != unicode.ReplacementChar
}

// text reads a word or a quoted text. Kafka takes either in every place.
func (s *jaasScanner) text() (string, error) {
	s.skipSpace()
	if !s.ended() && (s.src[s.at] == '"' || s.src[s.at] == '\'') {
		return s.quoted(s.src[s.at]), nil
	}
	word, err := s.word()
	if err == nil && word == "" {
		err = errNoText
	}
	return word, err
}

func (s *jaasScanner) controlFlag() error {
	flag, err := s.text()
	if err != nil {
		return errors.New("login module control flag not specified in JAAS config")
	}
	switch strings.ToUpper(flag) {
	case "REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL":
		return nil
	}
	return errors.New("invalid login module control flag in JAAS config")
}

// options reads name=value up to the semicolon. Errors tell the place alone: where a quote is missing, a secret is
// taken for a name.
func (s *jaasScanner) options(into map[string]string) error {
	for n := 1; !s.take(';'); n++ {
		if s.ended() {
			return errors.New("JAAS config entry not terminated by semi-colon")
		}
		name, err := s.text()
		if err != nil {
			return fmt.Errorf("option %d in JAAS config has no name: %w", n, err)
		}
		if !s.take('=') {
			return fmt.Errorf("value not specified for option %d in JAAS config", n)
		}
		value, err := s.text()
		if err != nil {
			return fmt.Errorf("value not specified for option %d in JAAS config: %w", n, err)
		}
		into[name] = value
	}
	return nil
}

// quoted reads up to the quote, or to the end of the line, as Java does.
func (s *jaasScanner) quoted(quote byte) string {
	var out strings.Builder
	for s.at++; !s.ended(); s.at++ {
		switch c := s.src[s.at]; c {
		case quote:
			s.at++
			return out.String()
		case '\n', '\r':
			return out.String()
		case '\\':
			s.escaped(&out)
		default:
			out.WriteByte(c)
		}
	}
	return out.String()
}

// escaped reads what follows a backslash: a letter's control character, up to three octal digits, or the character
// itself.
func (s *jaasScanner) escaped(out *strings.Builder) {
	if s.at++; s.ended() {
		return
	}
	c := s.src[s.at]
	if i := strings.IndexByte("abfnrtv", c); i >= 0 {
		out.WriteByte("\a\b\f\n\r\t\v"[i])
		return
	}
	if c < '0' || c > '7' {
		out.WriteByte(c)
		return
	}
	n, most := 0, 2
	if c <= '3' {
		most = 3
	}
	for digits := 0; digits < most && !s.ended() && s.src[s.at] >= '0' && s.src[s.at] <= '7'; digits++ {
		n = 8*n + int(s.src[s.at]-'0')
		s.at++
	}
	s.at--
	out.WriteRune(rune(n))
}

// userOption begins the options of PlainLoginModule and ScramLoginModule that name users of the server.
const userOption = "user_"

// Users are the user_<name>="<password>" of the line.
func (l Login) Users() Users {
	out := Users{}
	for name, value := range l.Options {
		if user, ok := strings.CutPrefix(name, userOption); ok {
			out[user] = value
		}
	}
	return out
}

// Account is the name and password that the server itself logs in with; false when the line has none.
func (l Login) Account() (name, password string, ok bool) {
	name, named := l.Options["username"]
	password, given := l.Options["password"]
	return name, password, named && given
}

// ParseUsers reads a file of users for PLAIN: name:password a line; blank lines and those that begin with # say
// nothing. Errors name the line's number alone.
func ParseUsers(text string) (Users, error) {
	out := Users{}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\r\n")
		if trimmed := strings.TrimSpace(line); trimmed == "" || trimmed[0] == '#' {
			continue
		}
		name, password, ok := strings.Cut(line, ":")
		if !ok || name == "" || password == "" {
			return nil, fmt.Errorf("line %d is not name:password", n)
		}
		if _, twice := out[name]; twice {
			return nil, fmt.Errorf("line %d names a user that another line names", n)
		}
		out[name] = password
	}
	return out, nil
}
