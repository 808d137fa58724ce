// Package objectstest starts servers that speak the S3 protocol on the loopback interface, and puts a proxy in front of
// them that behaves like a real network. It is only for this module's tests.
package objectstest
