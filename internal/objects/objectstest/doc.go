// Package objectstest starts servers that speak the S3 protocol on the loopback interface, and proxies in front of
// them that simulate a real network. It is only for this module's tests.
package objectstest
