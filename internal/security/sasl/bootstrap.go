package sasl

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// BootstrapUser is a credential that a new cluster begins with.
type BootstrapUser struct {
	Hash           Hash
	Name, Password string
	Iterations     int
}

// ParseBootstrapUsers reads users of SCRAM, separated by semicolons: each in the form of kafka-storage's --add-scram,
// SCRAM-SHA-256=[name=alice,password=secret,iterations=8192], or as name:password, which is for both mechanisms. Errors repeat nothing of it.
func ParseBootstrapUsers(text string) ([]BootstrapUser, error) {
	var out []BootstrapUser
	for i, item := range strings.Split(text, ";") {
		item = strings.TrimSpace(item)
		if item == "" {
			continue
		}
		users, err := parseBootstrapUser(item)
		if err != nil {
			return nil, fmt.Errorf("user %d: %w", i+1, err)
		}
		out = append(out, users...)
	}
	return out, nil
}

func parseBootstrapUser(item string) ([]BootstrapUser, error) {
	mechanism, rest, ok := strings.Cut(item, "=[")
	if h, scram := HashOf(mechanism); ok && scram {
		u, err := parseScramFields(h, rest)
		return []BootstrapUser{u}, err
	}
	name, password, ok := strings.Cut(item, ":")
	if !ok || name == "" || password == "" || strings.ContainsAny(name, "=[]") {
		return nil, errors.New("not name:password, and not SCRAM-SHA-256=[name=…,password=…] or SCRAM-SHA-512=[…]")
	}
	return []BootstrapUser{{SHA256, name, password, MinIterations}, {SHA512, name, password, MinIterations}}, nil
}

func parseScramFields(h Hash, text string) (BootstrapUser, error) {
	u := BootstrapUser{Hash: h, Iterations: MinIterations}
	fields, ok := strings.CutSuffix(text, "]")
	if !ok {
		return u, errors.New("it does not end with ]")
	}
	had := map[string]bool{}
	for field := range strings.SplitSeq(fields, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(field), "=")
		if had[name] {
			return u, errors.New("it has name, password or iterations twice")
		}
		had[name] = true
		if n := len(value); n > 1 && value[0] == '"' && value[n-1] == '"' {
			value = value[1 : n-1]
		}
		switch name {
		case "name":
			u.Name = value
		case "password":
			u.Password = value
		case "iterations":
			n, err := strconv.Atoi(value)
			if err != nil || n < MinIterations || n > MaxIterations {
				return u, fmt.Errorf("iterations must be from %d to %d", MinIterations, MaxIterations)
			}
			u.Iterations = n
		default:
			return u, errors.New("it has something else than name, password and iterations")
		}
	}
	if u.Name == "" || u.Password == "" {
		return u, errors.New("it needs name and password")
	}
	return u, nil
}
