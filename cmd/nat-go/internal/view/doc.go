// Package view shows a run, or rows, in a browser: the books, the records, and the token rows as they were written.
//
// It serves one page without a build step (package page's HTML, CSS and ES modules, embedded) and a few read-only JSON
// endpoints. Tokens, masks, differences and histograms are computed here: the browser never tokenises, and never gets
// more than a window of anything.
//
// # What it reads
//
// A run's record log by its frames: a table of columns (table.go), a few bytes a record, serves filters, sorting,
// facets and histograms; a record itself is read when it is looked at. The table of a large log is kept in the user's
// cache folder, named by the log's hash, so that nothing is ever written into the run but marks.
//
// # Security
//
// Texts come from models and tools, and any page in the same browser can send requests to a server on the loopback
// interface. So: every endpoint wants the token that the printed link holds, in a header that no other page can set
// without a preflight that is never answered; Host must be the address that was listened on (DNS rebinding), Origin the
// page's own; framing is forbidden; the policy for content allows this server's own scripts and styles alone; and the
// page never parses a text as HTML. Nothing is kept in the browser.
package view
