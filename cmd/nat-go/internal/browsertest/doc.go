// Package browsertest drives a headless Chromium for tests of pages: what is on the screen, keys, what the browser
// complains about, and what is sent where. It is for this module's tests.
package browsertest
