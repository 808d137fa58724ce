// Creates elements from text only: nothing here parses HTML, so data can't become markup.

/** Makes an element with attributes, listeners (on...) and children. Texts become text nodes, after visible. */
export function el(name, attributes = {}, ...children) {
  const node = document.createElement(name)
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue
    if (key.startsWith('on')) node.addEventListener(key.slice(2), value)
    else node.setAttribute(key, value === true ? '' : value)
  }
  node.append(...children.flat(Infinity).filter((c) => c !== undefined && c !== null && c !== false)
    .map((c) => (c instanceof Node ? c : visible(c))))
  return node
}

const unseen = new RegExp('[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f' + // controls except tab and newline
  '\\u00ad\\u200b\\u2060-\\u2064\\ufeff\\u{e0000}-\\u{e007f}' + // characters without width, and tags, which can hide a text
  '\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069' + // characters that change the direction of text
  '\\u2028\\u2029\\ud800-\\udfff]', 'gu') // other line ends, and single surrogates

/** Replaces invisible characters by escapes, so that a person sees everything that a text holds. */
export function visible(text) {
  return String(text).replace(unseen, (c) => {
    const hex = c.codePointAt(0).toString(16)
    return hex.length > 4 ? `\\u{${hex}}` : `\\u${hex.padStart(4, '0')}`
  })
}

export const count = (n) => Number(n).toLocaleString('en')

/** Returns a count with its noun: 1 record, 2 records. */
export const counted = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`

/** Quotes a text for a filter. */
export const quoted = (v) => `"${v.replace(/[\\"]/g, '\\$&')}"`

/** Returns the condition that a field has a value. */
export const has = (key, v) => (['format', 'split'].includes(key) ? `${quoted(v)} in ${key}` : `${key} == ${quoted(v)}`)

/** Joins conditions with "and". */
export const both = (...all) => all.filter(Boolean).map((c) => (/\bor\b|\|\|/.test(c) ? `(${c})` : c)).join(' and ')

export function number(x) {
  if (x === null || x === undefined) return ''
  return Math.abs(x) >= 1000 ? count(Math.round(x)) : String(Number(x.toPrecision(4)))
}

export const percent = (part, whole) => `${((100 * part) / (whole || 1)).toFixed(1)} %`

/** Makes a table with columns {title, numeric, wide, sort, order, cell(row)}. */
export function table(caption, columns, rows) {
  return el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': caption },
    el('table', {},
      el('thead', {}, el('tr', {}, columns.map((c) => el('th', { scope: 'col', class: c.numeric && 'number', 'aria-sort': c.order },
        c.sort ? el('a', { href: c.sort }, c.title) : c.title)))),
      el('tbody', {}, rows.map((r, i) => el('tr', { 'data-row': i },
        columns.map((c) => el('td', { class: c.numeric ? 'number' : c.wide && 'text' }, c.cell(r, i))))))))
}
