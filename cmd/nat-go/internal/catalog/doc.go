// Package catalog finds the builders that the user names - built in, a plugin's, a program's - and describes them.
package catalog
