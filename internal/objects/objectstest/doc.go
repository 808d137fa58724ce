// Package objectstest starts servers of S3's protocol on the loopback interface, and puts a proxy in front of them that
// behaves like a real network. It is only for this module's tests.
package objectstest
