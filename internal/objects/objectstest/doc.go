// Package objectstest starts servers of S3's protocol on the loopback, and puts a proxy before them that does what a
// network does. It is for this module's tests and not promised to others.
package objectstest
