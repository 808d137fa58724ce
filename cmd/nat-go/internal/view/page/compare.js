import { chart } from './chart.js'
import { el, count, table } from './dom.js'
import { get, readOnly } from './data.js'
import { link } from './nav.js'

const page = 50

export async function compare(p) {
  const offset = Number(p.offset ?? 0)
  const c = await get('compare', { what: p.what, offset, limit: page })
  const [first, second] = c.runs
  const to = (n) => link('compare', { what: p.what, offset: n })
  const kinds = [['appeared', `only in ${second}`, c.appeared], ['vanished', `only in ${first}`, c.vanished], ['moved', 'another fate', c.moved], ['changed', 'other content', c.changed]]
  return { title: 'Compare', content: [
    el('h2', {}, `From ${first} to ${second}`),
    el('ol', { class: 'flow' },
      el('li', {}, el('b', {}, count(c.same)), 'alike'),
      kinds.map(([what, text, n]) => el('li', {}, el('b', {}, count(n)), el('a', { href: link('compare', { what }) }, text)))),
    el('div', { class: 'cards' }, c.histograms.map((h) => chart(h, { other: h.other, names: [first, second] }))),
    el('h2', {}, p.what ? kinds.find(([what]) => what === p.what)?.[1] ?? '' : 'What differs'),
    c.total === 0 ? el('p', {}, 'Nothing.') : table('What differs', [
      { title: 'what', cell: (d) => d.what },
      { title: first, numeric: true, cell: (d) => d.first && el('a', { href: link('record', { n: d.first.record }) }, count(d.first.record)) },
      { title: second, numeric: true, cell: (d) => d.second && (readOnly ? count(d.second.record)
        : el('a', { href: link('record', { n: d.second.record, run: 2 }) }, count(d.second.record))) },
      { title: 'fate', cell: (d) => [...new Set([d.first?.fate, d.second?.fate].filter(Boolean))].join(' to ') },
      { title: 'example', cell: (d) => (d.first ?? d.second).example },
      { title: 'builder', cell: (d) => (d.first ?? d.second).builder },
      { title: 'beginning', wide: true, cell: (d) => (d.first ?? d.second).text }], c.list),
    el('div', { class: 'pager' }, offset > 0 && el('a', { href: to(Math.max(0, offset - page)) }, 'previous'),
      offset + page < c.total && el('a', { href: to(offset + page) }, 'next')),
  ] }
}
