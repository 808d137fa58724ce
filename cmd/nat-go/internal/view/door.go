package view

import (
	"net"
	"slices"
	"sync"
)

// maxStrangers is the maximum number of open connections that haven't shown the token. A browser opens six, and a
// process may be allowed only a few descriptors.
const maxStrangers = 32

// door accepts connections. If more than maxStrangers of them haven't shown the token, it closes the oldest of those
// connections, so that clients without the token can't keep the user out.
type door struct {
	net.Listener
	mu        sync.Mutex
	strangers []*visitor // the oldest first
}

// visitor is a connection that a door accepted.
type visitor struct {
	net.Conn
	door *door
}

type visitorKey struct{}

// Accept implements net.Listener.
func (d *door) Accept() (net.Conn, error) {
	c, err := d.Listener.Accept()
	if err != nil {
		return nil, err
	}
	v := &visitor{c, d}
	d.mu.Lock()
	d.strangers = append(d.strangers, v)
	var leaving *visitor
	if len(d.strangers) > maxStrangers {
		leaving = d.strangers[0]
		d.strangers = slices.Delete(d.strangers, 0, 1)
	}
	d.mu.Unlock()
	if leaving != nil {
		_ = leaving.Conn.Close()
	}
	return v, nil
}

// Close implements net.Conn.
func (v *visitor) Close() error {
	v.door.forget(v)
	return v.Conn.Close()
}

// forget removes a connection from strangers when the connection is closed or has shown the token.
func (d *door) forget(v *visitor) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := slices.Index(d.strangers, v); i >= 0 {
		d.strangers = slices.Delete(d.strangers, i, i+1)
	}
}
