// Package view shows a run, or a file of rows, in a browser. It shows the counts of each stage, the records, and the
// token rows.
//
// It serves one page without a build step (the HTML, CSS and ES modules in the folder page, embedded) and a few JSON
// endpoints. Only the endpoint that sets marks changes data. Tokens, masks, differences and histograms are computed on
// the server, and the browser never gets more than one window of a list or text.
//
// # What it reads
//
// A table in memory (table.go) with about fifty bytes per record serves filters, sorting, facets and histograms. A
// record itself is read from the record log, with the rest of its group, when it is viewed. The table for a large log
// is cached in the user's cache folder, named by the log's hash, and marks are stored next to the run, so that the
// run itself is never changed.
//
// # Security
//
// The content comes from models and tools, and any page in the same browser can send requests to a server on the
// loopback interface. Therefore, every endpoint requires the token in the printed link, in a header that no other page
// can set without a preflight request, which the server rejects. To prevent DNS rebinding, Host must be one of this
// server's addresses. Origin, if it is sent, must be the page's own. Framing is forbidden, the content security policy
// allows only this server's own scripts and styles, and the page never parses text as HTML. Nothing is stored in the
// browser.
//
// The package isn't divided further because all endpoints read the same table and the same windows of the log.
package view
