import { el, count, percent, table, visible } from './dom.js'
import { get } from './data.js'
import { link } from './app.js'

const width = 2048 // tokens that are shown at once
const page = 100

export async function tokens(p) {
  return p.ref ? one(p) : list(p)
}

async function list(p) {
  const offset = Number(p.offset ?? 0)
  const a = await get('batches', { channel: p.channel, offset, limit: page })
  const to = (n) => link('tokens', { channel: p.channel, offset: n })
  return { title: 'Tokens', content: [
    el('h2', {}, p.channel ? `Rows of ${visible(p.channel)}` : 'Rows of token batches'),
    a.total === 0 ? el('p', {}, 'There are none: a run writes them where collator.tokenizer names a tokenizer.')
      : table('Token rows', [
        { title: 'row', cell: (r) => el('a', { href: link('tokens', { ref: r.ref }) }, r.ref) },
        { title: 'channel', cell: (r) => r.channel },
        { title: 'split', cell: (r) => r.split },
        { title: 'example', cell: (r) => visible(r.example) },
        { title: 'record', numeric: true, cell: (r) => el('a', { href: link('record', { n: r.record }) }, count(r.record)) },
        { title: 'sites', numeric: true, cell: (r) => r.sites || '' }], a.rows),
    el('div', { class: 'pager' }, offset > 0 && el('a', { href: to(Math.max(0, offset - page)) }, 'previous'),
      offset + page < a.total && el('a', { href: to(offset + page) }, 'next')),
  ] }
}

/** What a token is, of five: trained, context, hint, template filler, left out of the loss. */
function classOf(t, hints) {
  if (t.trained) return 'trained'
  if (hints?.some(([from, to]) => t.position >= from && t.position < to)) return 'hint'
  if (t.why === 'filler' || t.message < 0) return 'filler'
  if (t.why && t.why !== 'context') return 'dropped'
  return 'context'
}

async function one(p) {
  const from = Number(p.from ?? 0)
  const a = await get('tokens', { ref: p.ref, from, n: width })
  const detail = el('p', { class: 'detail', role: 'status', 'aria-live': 'polite' }, 'Point at a token, or move to one with Tab.')
  const longest = Math.max(...a.sides.map((s) => s.length))
  const to = (n) => link('tokens', { ref: p.ref, from: n })
  return { title: `Tokens of ${p.ref}`, content: [
    el('h2', {}, `${a.file}, row ${a.row}`),
    el('p', {}, `example ${visible(a.info.example)}, ids ${a.info.ids ?? ''} `, a.info.on_policy && el('span', { class: 'badge' }, `on policy: ${a.info.on_policy}`)),
    el('ul', { class: 'legend strip' }, ['trained', 'context', 'hint', 'filler', 'dropped'].map((c) => el('li', {}, el('span', { class: c }, ` ${c} `)))),
    a.sides.map((s, k) => strip(s, hintsOf(a, k), detail)),
    el('div', { class: 'pager' }, from > 0 && el('a', { href: to(Math.max(0, from - width)) }, 'previous tokens'),
      el('span', {}, `tokens ${count(from)} to ${count(Math.min(from + width, longest))} of ${count(longest)}`),
      from + width < longest && el('a', { href: to(from + width) }, 'next tokens')),
    detail,
  ] }
}

/** The ranges of a side that are a hint: in a teacher's row, from where it was spliced in. */
const hintsOf = (a, side) => (a.info.sites ?? []).filter((s) => s.teacher !== undefined && side === s.teacher + 1).map((s) => [s.at, s.at + s.hint])

function strip(s, hints, detail) {
  const about = (t) => {
    const owner = t.message < 0 ? 'the template' : `message ${t.message}`
    detail.textContent = `${t.position}: id ${t.id}, ${JSON.stringify(t.text)}, of ${owner}, ${t.trained ? 'trained' : 'not trained'}${t.why ? ': ' + t.why : ''}`
  }
  const token = (t) => el('span', { class: classOf(t, hints), 'data-position': t.position, onmouseenter: () => about(t) }, visible(t.text) || '\u00a0')
  const line = el('div', { class: 'strip', tabindex: '0', role: 'group', 'aria-label': `tokens${s.name ? ' of ' + s.name : ''}: arrows move` }, s.tokens.map(token))
  let at = -1
  line.addEventListener('keydown', (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key]
    if (!by || !s.tokens.length) return
    event.preventDefault()
    line.children[at]?.removeAttribute('aria-current')
    at = Math.max(0, Math.min(s.tokens.length - 1, at + by))
    line.children[at].setAttribute('aria-current', 'true')
    about(s.tokens[at])
  })
  return el('section', { 'aria-label': s.name || 'row' },
    el('h3', {}, `${s.name || 'row'}: ${count(s.length)} tokens, ${count(s.trained)} trained (${percent(s.trained, s.length)})`), line)
}
