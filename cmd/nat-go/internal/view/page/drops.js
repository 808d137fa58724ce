import { both, el, count, counted, has, table } from './dom.js'
import { get } from './data.js'
import { link } from './nav.js'

const page = 100

export async function drops(p) {
  const offset = Number(p.offset ?? 0)
  const [o, a] = await Promise.all([get('overview'), get('drops', { stage: p.stage, reason: p.reason, unit: p.unit, offset, limit: page })])
  const to = (n) => link('drops', { stage: p.stage, reason: p.reason, unit: p.unit, offset: n })
  const loss = o.losses.find((l) => l.reason === p.reason && (!p.stage || l.stage === p.stage))
  return { title: 'Drops', content: [
    el('h2', {}, p.reason ? `Left out: ${p.reason}` : 'Left out'),
    loss?.help && el('p', {}, loss.help),
    el('p', {}, p.reason && el('a', { href: '#/drops' }, 'all reasons'), ' ',
      ['gate', 'curate'].includes(p.stage) && el('a', { href: link('rows', { q: has('reason', p.reason) }) }, 'the records themselves')),
    !p.reason && table('By stage and reason', [
      { title: 'stage', cell: (l) => l.stage },
      { title: 'reason', cell: (l) => el('a', { href: link('drops', { stage: l.stage, reason: l.reason, unit: l.unit }) }, l.reason) },
      { title: 'count', numeric: true, cell: (l) => `${count(l.count)} ${l.unit}` },
      { title: 'what it means', wide: true, cell: (l) => l.help ?? '' }], o.losses),
    a.drops.length > 0 && table('What was left out', [
      { title: 'reason', cell: (d) => d.reason },
      { title: 'example', cell: (d) => about(d) },
      { title: 'turn', cell: (d) => d.turn ?? '' },
      { title: 'builder or format', cell: (d) => d.builder ?? d.format ?? '' },
      { title: 'count', numeric: true, cell: (d) => counted(d.count || 1, d.unit) },
      { title: 'what was seen', wide: true, cell: (d) => d.detail ?? '' }], a.drops),
    el('div', { class: 'pager' }, offset > 0 && el('a', { href: to(Math.max(0, offset - page)) }, 'previous'),
      offset + page < a.total && el('a', { href: to(offset + page) }, 'next')),
  ] }
}

/** Returns the example of a drop with a link to its record or records or, if there are none, its place in the input. */
function about(d) {
  const name = d.example ?? ''
  if (d.records === 1) {
    return el('a', { href: link('record', { n: d.record }) }, name)
  }
  if (d.records > 1) {
    const decided = ['gate', 'curate'].includes(d.stage) && has('reason', d.reason)
    const q = both(has('id', name), d.builder && has('builder', d.builder), decided)
    return el('a', { href: link('rows', { q }) }, name)
  }
  return [name, d.file && el('span', { class: 'dim' }, ` ${d.file}, byte ${count(d.offset ?? 0)}`)]
}
