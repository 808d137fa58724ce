import { both, el, count, counted, has, percent, table } from './dom.js'
import { chart } from './chart.js'
import { get } from './data.js'
import { link } from './nav.js'

export async function overview() {
  const o = await get('overview')
  return { title: o.run, ...follow(o), content: [
    el('h2', {}, o.state === 'rows' ? `Rows of ${o.run}` : `Run ${o.run}: ${o.state}`),
    o.error && el('p', { class: 'error' }, o.error),
    o.stages && stages(o),
    flow(o),
    o.books?.length > 0 && books(o.books),
    o.state !== 'rows' && [el('h2', {}, 'Left out'), o.losses.length ? losses(o.losses) : el('p', {}, 'Nothing was left out.')],
    el('h2', {}, 'Records'),
    el('div', { class: 'cards' },
      Object.entries(o.facets).filter(([, values]) => values.length).map(([key, values]) => facet(key, values)),
      o.histograms.map((h) => chart(h))),
    o.split && split(o.split),
    o.formats.length > 0 && [el('h2', {}, 'Rows'), table('Rows by format', [
      { title: 'format', cell: (f) => (o.state === 'rows' || !f.records ? f.format : el('a', { href: link('rows', { q: has('format', f.format) }) }, f.format)) },
      { title: 'records', numeric: true, cell: (f) => count(f.records) },
      { title: 'rows', numeric: true, cell: (f) => count(f.rows) },
      { title: 'trained turns', numeric: true, cell: (f) => (f.turns ? count(f.turns) : '') },
      { title: 'in a changed context', wide: true, cell: (f) => Object.entries(f.changed ?? {}).map(([by, n]) => `${by} ${count(n)}`).join(', ') },
      { title: 'records it can\'t carry', numeric: true, cell: (f) => count(f.dropped) }], o.formats)],
    o.batches && [el('h2', {}, 'Token batches'), table('Token batches', [
      { title: 'channel', cell: (b) => el('a', { href: link('tokens', { channel: b.name.split('/')[0] }) }, b.name) },
      { title: 'batches', numeric: true, cell: (b) => count(b.batches) },
      { title: 'rows', numeric: true, cell: (b) => count(b.rows) },
      { title: 'tokens', numeric: true, cell: (b) => count(b.tokens) },
      { title: 'trained', numeric: true, cell: (b) => `${count(b.active)} (${percent(b.active, b.tokens)})` },
      { title: 'each prefix once', numeric: true, cell: (b) => b.distinct ? count(b.distinct) : '' }], o.batches), o.forward && el('p', {}, o.forward)],
    o.idle && [el('h2', {}, `${counted(o.idle_marks, 'mark')} on no record of this run`),
      el('p', {}, 'They stay in the file of marks: another run may have the records.'), table('Marks on no record', [
        { title: 'record', wide: true, cell: (m) => m.record },
        { title: 'mark', cell: (m) => m.mark },
        { title: 'note', wide: true, cell: (m) => m.note ?? '' }], o.idle)],
    o.warnings && [el('h2', {}, 'Warnings'), el('ul', {}, o.warnings.map((w) => el('li', {}, w)))],
  ] }
}

/** Shows the progress of a run that hasn't ended. The records are the ones that it had when it was opened. */
const stages = (o) => el('section', { id: 'stages', 'aria-label': 'Stages' }, table('Stages', [
  { title: 'stage', cell: (s) => s.name },
  { title: 'state', cell: (s) => s.state },
  { title: 'so far', wide: true, cell: (s) => s.count ?? '' }], o.stages),
o.records > 0 && el('p', { class: 'dim' }, `${counted(o.records, 'record was', 'records were')} there when it was opened; open it again to see more.`))

/** Updates the stages every two seconds while the run is in progress. */
function follow(o) {
  if (!o.stages || o.state !== 'running') return {}
  const timer = setInterval(async () => {
    try {
      const now = await get('overview')
      if (now.state === 'running') document.getElementById('stages')?.replaceWith(stages(now))
      else { // the run has ended: show the page again
        clearInterval(timer)
        dispatchEvent(new HashChangeEvent('hashchange'))
      }
    } catch {
      clearInterval(timer)
    }
  }, 2000)
  return { left: () => clearInterval(timer) }
}

function flow(o) {
  const c = o.counts
  const steps = [['inputs', o.inputs?.length], ['examples', c.examples], ['candidates', c.candidates], ['records', c.records || o.records], ['kept', c.kept]]
  return el('ol', { class: 'flow', 'aria-label': 'From inputs to rows' },
    steps.filter(([, n]) => n).map(([name, n]) => el('li', {}, el('b', {}, count(n)), n === 1 && name !== 'kept' ? name.slice(0, -1) : name)),
    o.formats.map((f) => el('li', {}, el('b', {}, count(f.rows)), `${f.rows === 1 ? 'row' : 'rows'} of ${f.format}`)))
}

/** Shows the division of records between training and validation: of all, and of each builder's and kind's. */
function split(list) {
  const to = (b, side) => el('a', { href: link('rows', { q: both(b.filter, has('split', side)) }) }, count(b[side]))
  return [el('h2', {}, 'Split'), table('Split between training and validation', [
    { title: 'records', cell: (b) => b.name },
    { title: 'train', numeric: true, cell: (b) => to(b, 'train') },
    { title: 'validation', numeric: true, cell: (b) => to(b, 'validation') },
    { title: 'share of validation', numeric: true, cell: (b) => percent(b.validation, b.train + b.validation) }], list)]
}

/** Shows what went into each stage, and where it went. */
const books = (list) => el('details', {}, el('summary', {}, 'the books: what went into each stage, and where it went'), table('Books', [
  { title: 'stage', cell: (a) => a.stage },
  { title: 'of', cell: (a) => a.unit },
  { title: 'in', numeric: true, cell: (a) => count(a.in) },
  { title: 'out', numeric: true, cell: (a) => count(a.out) },
  { title: 'left out', wide: true, cell: (a) => Object.entries(a.dropped ?? {}).map(([reason, n], i) =>
    [i > 0 && ', ', el('a', { href: link('drops', { stage: a.stage, reason, unit: a.unit }) }, reason), ` ${count(n)}`]) }], list))

function losses(list) {
  return table('What was left out', [
    { title: 'stage', cell: (l) => l.stage },
    { title: 'reason', cell: (l) => el('a', { href: link('drops', { stage: l.stage, reason: l.reason, unit: l.unit }) }, l.reason) },
    { title: 'count', numeric: true, cell: (l) => count(l.count) },
    { title: 'of', cell: (l) => l.unit },
    { title: 'what it means', wide: true, cell: (l) => l.help ?? '' }], list)
}

/** Shows up to 12 values of a field, with links that filter by them and by the condition also. */
export function facet(key, values, also = '') {
  return el('section', { class: 'card', 'aria-label': key }, el('h3', {}, key),
    el('ul', { class: 'facet' }, values.slice(0, 12).map((v) => el('li', {},
      el('a', { href: link('rows', { q: both(also, has(key, v.value)) }) }, v.value), el('span', {}, count(v.count))))))
}
