// Elements out of text alone: nothing here parses HTML, so nothing of the data can become markup.

/** An element with attributes and children; texts become text nodes. */
export function el(name, attributes = {}, ...children) {
  const node = document.createElement(name)
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue
    if (key.startsWith('on')) node.addEventListener(key.slice(2), value)
    else node.setAttribute(key, value === true ? '' : value)
  }
  node.append(...children.flat(Infinity).filter((c) => c !== undefined && c !== null && c !== false))
  return node
}

/** Controls and what turns the direction of a line, as escapes: a person sees what is there. */
export function visible(text) {
  return String(text).replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]/gu,
    (c) => '\\u' + c.codePointAt(0).toString(16).padStart(4, '0'))
}

export const count = (n) => Number(n).toLocaleString('en')

export function number(x) {
  if (x === null || x === undefined) return ''
  return Math.abs(x) >= 1000 ? count(Math.round(x)) : String(Number(x.toPrecision(4)))
}

export const percent = (part, whole) => `${((100 * part) / (whole || 1)).toFixed(1)} %`

/** A table of columns: {title, numeric, cell(row)}. */
export function table(caption, columns, rows) {
  return el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': caption },
    el('table', {},
      el('thead', {}, el('tr', {}, columns.map((c) => el('th', { scope: 'col', class: c.numeric && 'number', 'aria-sort': c.order },
        c.sort ? el('a', { href: c.sort }, c.title) : c.title)))),
      el('tbody', {}, rows.map((r, i) => el('tr', { 'data-row': i },
        columns.map((c) => el('td', { class: c.numeric ? 'number' : c.wide && 'text' }, c.cell(r, i))))))))
}
