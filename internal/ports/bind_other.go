//go:build !unix

package ports

import "net"

// Bind takes a port. Here the system accepts connections from then on, which wait for Listen.
func Bind(network, address string) (Port, error) { return Listening(net.Listen)(network, address) }
