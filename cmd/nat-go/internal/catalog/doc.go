// Package catalog finds the builders that a person names - built in, a plugin's, a program's - and says what they are.
package catalog
