package config

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// SecurityProtocol numbers are Kafka's.
type SecurityProtocol int16

const (
	Plaintext SecurityProtocol = iota
	SSL
	SaslPlaintext
	SaslSSL
)

var securityProtocols = []string{"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}

func (p SecurityProtocol) String() string { return securityProtocols[p] }

// Listener is one endpoint, to listen on or to advertise.
type Listener struct {
	Name     string
	Host     string // "" is every address
	Port     uint16 // 0 is any free port
	Protocol SecurityProtocol
}

// Address is host:port as package net reads it.
func (l Listener) Address() string { return net.JoinHostPort(l.Host, strconv.Itoa(int(l.Port))) }

// parseListener reads NAME://host:port; the name is upper-cased, as Kafka does.
func parseListener(text string) (Listener, error) {
	name, address, ok := strings.Cut(text, "://")
	if !ok || name == "" {
		return Listener{}, fmt.Errorf("%q is not NAME://host:port", text)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return Listener{}, fmt.Errorf("%q is not NAME://host:port", text)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return Listener{}, fmt.Errorf("port %q of %s is not from 0 to 65535", port, text)
	}
	return Listener{Name: strings.ToUpper(name), Host: host, Port: uint16(n)}, nil
}

// parseListeners reads a list of them and gives each its protocol.
func parseListeners(items []string, protocols map[string]SecurityProtocol) ([]Listener, error) {
	var out []Listener
	for _, item := range items {
		l, err := parseListener(item)
		if err != nil {
			return nil, err
		}
		protocol, ok := protocols[l.Name]
		if !ok {
			return nil, fmt.Errorf("no security protocol defined for listener %s in listener.security.protocol.map", l.Name)
		}
		l.Protocol = protocol
		for _, other := range out {
			if other.Name == l.Name {
				return nil, fmt.Errorf("each listener must have a different name, %s comes twice", l.Name)
			}
		}
		out = append(out, l)
	}
	return out, nil
}

// parseProtocolMap reads NAME:PROTOCOL,... .
func parseProtocolMap(text string) (map[string]SecurityProtocol, error) {
	out := map[string]SecurityProtocol{}
	for _, item := range SplitList(text) {
		name, protocol, _ := strings.Cut(item, ":")
		n := -1
		for i, p := range securityProtocols {
			if p == strings.ToUpper(protocol) {
				n = i
			}
		}
		if n < 0 {
			return nil, fmt.Errorf("%q is not NAME:PROTOCOL with one of %s", item, strings.Join(securityProtocols, ", "))
		}
		if _, twice := out[strings.ToUpper(name)]; twice {
			return nil, fmt.Errorf("listener %s comes twice", name)
		}
		out[strings.ToUpper(name)] = SecurityProtocol(n)
	}
	return out, nil
}
