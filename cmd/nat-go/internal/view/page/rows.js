import { el, count, number, table, visible } from './dom.js'
import { get } from './data.js'
import { go, link, say } from './app.js'
import { facet } from './overview.js'

const page = 50

export async function rows(p) {
  const offset = Number(p.offset ?? 0)
  const ask = (change) => get('rows', { q: p.q, sort: p.sort, offset, at: p.at, limit: page, ...change })
  const a = await ask({})
  const shown = a.rows
  const columns = columnsOf(p)
  let list = table('Records', columns, shown)
  let at = -1
  const move = (by) => {
    const lines = [...list.querySelectorAll('tbody tr')]
    if (!lines.length) return
    at = Math.max(0, Math.min(lines.length - 1, at + by))
    lines.forEach((l, i) => l.setAttribute('aria-selected', String(i === at)))
    lines[at].scrollIntoView({ block: 'nearest' })
    lines[at].querySelector('a').focus()
  }
  const to = (change) => link('rows', { q: p.q, sort: p.sort, ...change })
  const total = el('p', { class: 'dim' })
  const pager = el('div', { class: 'pager' })
  const tell = () => {
    if (a.of === undefined) {
      total.textContent = `${count(a.total)} ${a.total === 1 ? 'record' : 'records'}`
      pager.replaceChildren(...[
        offset > 0 && el('a', { href: to({ offset: Math.max(0, offset - page) }) }, 'previous'),
        shown.length > 0 && el('span', {}, `${count(offset + 1)} to ${count(offset + shown.length)}`),
        offset + page < a.total && el('a', { href: to({ offset: offset + page }) }, 'next')].filter(Boolean))
    } else {
      total.textContent = `${count(shown.length)} found, ${a.next ? `${count(a.next)} of ${count(a.of)} records searched` : 'all records searched'}`
      pager.replaceChildren(...(a.next ? [el('a', { href: to({ at: a.next }) }, 'next')] : []))
    }
  }
  tell()
  // What is searched comes part by part: hits are shown as they are found.
  let open = true
  const search = async () => {
    try {
      while (open && a.next && shown.length < page) {
        const more = await ask({ at: a.next, limit: page - shown.length })
        if (!open) return
        a.next = more.next
        shown.push(...more.rows)
        if (more.rows.length) {
          const longer = table('Records', columns, shown)
          list.replaceWith(longer)
          list = longer
        }
        tell()
      }
    } catch (err) {
      say(err.message, true)
    }
  }
  return {
    title: 'Rows', content: [filterBox(p), facets(p), total, list, pager],
    keys: { j: () => move(1), k: () => move(-1) }, shown: search, left: () => { open = false },
  }
}

function columnsOf(p) {
  const sorted = (name) => link('rows', { q: p.q, sort: p.sort === `-${name}` ? name : `-${name}` })
  const order = (name) => (p.sort === name ? 'ascending' : p.sort === `-${name}` ? 'descending' : undefined)
  const column = (title, name, cell) => ({ title, numeric: true, sort: sorted(name), order: order(name), cell })
  return [
    { title: 'record', numeric: true, cell: (r) => el('a', { href: link('record', { n: r.record, q: p.q }) }, count(r.record)) },
    { title: 'kind', cell: (r) => r.kind },
    { title: 'task', cell: (r) => visible(r.task ?? '') },
    { title: 'example', cell: (r) => visible(r.example) + (r.turn ? `, ${visible(r.turn)}` : '') },
    { title: 'builder', cell: (r) => visible(r.builder) },
    { title: 'fate', cell: (r) => r.fate },
    column('score', 'score', (r) => number(r.score)),
    column('length', 'length', (r) => count(r.length)),
    { title: 'mark', cell: (r) => r.mark ?? '' },
    { title: 'beginning', wide: true, cell: (r) => visible(r.text) },
  ]
}

/** What the records have one of, counted over all of them; a value is added to the filter. */
function facets(p) {
  const details = el('details', {}, el('summary', {}, 'builders, kinds, tasks, splits, reasons, fidelity'))
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

function filterBox(p) {
  const box = el('input', { id: 'filter', type: 'search', value: p.q ?? '', 'aria-label': 'Filter', autocomplete: 'off', spellcheck: 'false',
    placeholder: 'builder:dpo reason:tie margin>0.2 words in the text' })
  return el('form', { class: 'filter', role: 'search', onsubmit: (event) => {
    event.preventDefault()
    go('rows', { q: box.value.trim(), sort: p.sort })
  } }, box, el('button', {}, 'Filter'), p.q && el('a', { href: '#/rows' }, 'all'))
}
