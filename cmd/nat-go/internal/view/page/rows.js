import { el, count, counted, number, quoted } from './dom.js'
import { get, lines } from './data.js'
import { go, link, say } from './nav.js'
import { facet } from './overview.js'
import { List, Pages, Window } from './window.js'

export async function rows(p) {
  const ask = (offset, limit) => get('rows', { q: p.q, sort: p.sort, offset, limit })
  const first = Math.max(0, Number(p.offset ?? 0) || 0)
  const begin = first - (first % 100)
  const a = await ask(begin, 100)
  const source = a.search ? new List() : new Pages(a.total, ask)
  if (!a.search) source.parts.set(begin / 100, a.rows)
  const total = el('p', { class: 'dim', id: 'total' }, counted(a.total, 'record'))
  const further = el('p')
  let here = location.hash
  const moved = (offset, at) => { // keeps the link up to date with what is visible
    if (location.hash !== here) return // another page is loading
    here = link('rows', { ...p, offset, row: at + 1 })
    if (location.hash !== here) history.replaceState(history.state, '', here)
  }
  const list = new Window('Records', columnsOf(p), source, { moved, failed: (err) => say(err.message, true) })
  if (a.search) list.table.ariaBusy = 'true'
  const stop = new AbortController()
  return {
    title: 'Rows', content: [filterBox(p), facets(p), total, list.element, further],
    keys: { j: () => list.step(1), k: () => list.step(-1) },
    shown: () => {
      list.start(first, Number(p.row ?? 0) - 1)
      if (a.search) search(p, list, total, further, stop.signal)
    },
    left: () => {
      stop.abort()
      list.end()
    },
  }
}

/** Adds the rows that a search finds to the list as they arrive. */
async function search(p, list, total, further, signal) {
  const { source } = list
  const tell = (at, of) => { total.textContent = `${count(source.total)} found, ${at < of ? `${count(at)} of ${counted(of, 'record')} searched` : 'all records searched'}` }
  try {
    for await (const line of lines('search', { q: p.q, sort: p.sort, at: p.at }, signal)) {
      if (line.error) throw new Error(line.error)
      if (line.row) source.rows.push(line.row)
      else tell(line.at, line.of)
      if (line.more) further.append(el('a', { href: link('rows', { q: p.q, sort: p.sort, at: line.at }) }, 'search the records after these'))
      list.soon()
    }
  } catch (err) {
    if (!signal.aborted) say(err.message, true)
  }
  if (signal.aborted) return
  list.draw()
  list.table.ariaBusy = null
}

function columnsOf(p) {
  const sorted = (name) => link('rows', { q: p.q, sort: p.sort === `-${name}` ? name : `-${name}` })
  const order = (name) => (p.sort === name ? 'ascending' : p.sort === `-${name}` ? 'descending' : undefined)
  const column = (title, name, cell) => ({ title, numeric: true, size: 'little', sort: sorted(name), order: order(name), cell })
  return [
    { title: 'record', numeric: true, size: 'little', cell: (r) => el('a', { href: link('record', { n: r.record, q: p.q }) }, count(r.record)) },
    { title: 'kind', cell: (r) => r.kind },
    { title: 'task', cell: (r) => r.task ?? '' },
    { title: 'example', cell: (r) => r.example + (r.turn ? `, ${r.turn}` : '') },
    { title: 'builder', cell: (r) => r.builder },
    { title: 'fate', cell: (r) => r.fate },
    column('score', 'score', (r) => number(r.score)),
    column('length', 'length', (r) => count(r.length)),
    { title: 'mark', size: 'little', cell: (r) => r.mark ?? '' },
    { title: 'beginning', size: 'much', cell: (r) => r.text },
  ]
}

/** Shows the values of fields, counted over all records, with links that add one to the filter. */
function facets(p) {
  const details = el('details', {}, el('summary', {}, 'builders, kinds, tasks, splits, reasons, fidelity, formats'))
  details.addEventListener('toggle', async () => {
    if (!details.open || details.dataset.asked) return
    details.dataset.asked = 'yes'
    try {
      const o = await get('overview')
      details.append(el('div', { class: 'cards' }, Object.entries(o.facets).filter(([, values]) => values.length)
        .map(([key, values]) => facet(key, values, p.q))))
    } catch (err) {
      delete details.dataset.asked
      say(err.message, true)
    }
  })
  return details
}

/** Returns the filter that was typed or, if plain words were typed, one that searches the texts for them. */
function asked(typed) {
  if (!typed || /[=<>()]|\b(in|contains|startsWith|endsWith|matches|not|true|false)\b/.test(typed)) return typed
  return `text matches ${quoted(`(?i)${typed.replace(/^"(.*)"$/, '$1').replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}`)}`
}

function filterBox(p) {
  const box = el('input', { id: 'filter', type: 'search', value: p.q ?? '', 'aria-label': 'Filter', autocomplete: 'off', spellcheck: 'false',
    placeholder: 'builder == "dpo" and margin > 0.2, or words in the text' })
  return el('form', { class: 'filter', role: 'search', onsubmit: (event) => {
    event.preventDefault()
    go('rows', { q: asked(box.value.trim()), sort: p.sort })
  } }, box, el('button', {}, 'Filter'), p.q && el('a', { href: '#/rows' }, 'all'))
}
