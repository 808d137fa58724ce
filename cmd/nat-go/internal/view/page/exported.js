// Where an exported page's data comes from: the file itself. Each answer is a member of its own, opened when it is asked for.

const index = JSON.parse(document.getElementById('index').textContent)
const text = document.getElementById('data').textContent

/** Marks stand beside a run; here is none. */
export const readOnly = true

const opened = new Map() // the last members
const keep = 32

function member(n) {
  if (!opened.has(n)) {
    if (opened.size === keep) opened.delete(opened.keys().next().value)
    opened.set(n, unpack(...index.members[n]))
  }
  return opened.get(n)
}

async function unpack(offset, length) {
  const bytes = Uint8Array.from(atob(text.slice(offset, offset + length)), (c) => c.charCodeAt(0))
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'))).json()
}

/** The lines of a list, one after the other. */
async function * list(name) {
  for (const n of index.lists[name]) yield * await member(n)
}

export async function get(what, parameters = {}) {
  if (what === 'name') return index.name
  if (what === 'rows') return rows(parameters)
  if (what === 'drops') {
    const { stage, reason, unit } = parameters
    return part('drops', 'drops', parameters, (d) => (!stage || d.stage === stage) && (!reason || d.reason === reason) && (!unit || d.unit === unit))
  }
  if (what === 'batches') {
    const { record, channel } = parameters
    return part('batches', 'rows', parameters, (b) => (!record || b.record === Number(record)) && (!channel || b.channel === channel))
  }
  if (parameters.run) throw new Error('the records of the second run are not in this file')
  if (what === 'record') return stored(what, { from: parameters.from ?? 0, n: parameters.n }, `record ${parameters.n}`)
  if (what === 'written') return stored(what, { n: parameters.n }, `record ${parameters.n}`)
  if (what === 'row') return stored(what, { ref: parameters.ref, ...(parameters.with > 1 && { with: parameters.with }) }, `the row ${parameters.ref}`)
  if (what === 'tokens') {
    return stored(what, { from: parameters.from ?? 0, ref: parameters.ref, side: parameters.side ?? 0 }, `the row ${parameters.ref}`)
  }
  if (what === 'compare') return stored(what, { what: parameters.what ?? '' }, 'the comparison')
  return stored(what, {}, `the ${what}`)
}

export async function post() {
  throw new Error('this is a file: nat-go view RUN sets marks')
}

function stored(what, parameters, name) {
  const question = Object.keys(parameters).length ? `${what}?${new URLSearchParams(parameters)}` : what
  if (!Object.hasOwn(index.answers, question)) throw new Error(`${name} is not in this file`)
  return member(index.answers[question])
}

async function part(name, key, { offset = 0, limit = 200 }, fits) {
  const a = { total: 0, [key]: [] }
  for await (const line of list(name)) {
    if (!fits(line)) continue
    if (++a.total > offset && a[key].length < limit) a[key].push(line)
  }
  return a
}

let last = {} // the question that was asked last, and what fits it

/** The rows that fit a filter, in the order asked for; what their texts have to hold is left to lines. */
async function find(q, sort) {
  const { terms, words } = filter(q)
  if (last.q === q && last.sort === sort) return { found: last.found, words }
  const found = []
  for await (const r of list('rows')) if (terms.every((t) => t(r))) found.push(r)
  if (sort) {
    const [name, by] = sort.startsWith('-') ? [sort.slice(1), -1] : [sort, 1]
    const missing = (r) => r[name] === null
    found.sort((a, b) => missing(a) - missing(b) || (missing(a) ? 0 : by * (a[name] - b[name])))
  }
  last = { q, sort, found }
  return { found, words }
}

async function rows({ q = '', sort = '', offset = 0, limit = 50 }) {
  const { found, words } = await find(q, sort)
  if (words.length) return { total: 0, search: true, rows: [] }
  return { total: found.length, rows: found.slice(offset, offset + limit) }
}

const mostHits = 1000

/** The records whose texts hold what is searched for, as the server sends them. */
export async function * lines(what, { q = '', sort = '', at = 0 }, signal) {
  const { found, words } = await find(q, sort)
  let hits = 0
  let next = Number(at)
  for (; next < found.length && hits < mostHits; next++) {
    if (signal.aborted) return
    if (await holds(found[next], words)) {
      hits++
      yield { row: found[next] }
    }
    if (next % 100 === 99) yield { at: next + 1, of: found.length }
  }
  yield { at: next, of: found.length, more: next < found.length }
}

const number = {
  margin: (r) => (r.kind === 'preference' ? r.score : null),
  score: (r) => (r.kind === 'preference' ? null : r.score),
}
for (const name of ['length', 'messages', 'sites', 'turns', 'share', 'spread']) number[name] = (r) => r[name]
const compare = { '<': (a, b) => a < b, '<=': (a, b) => a <= b, '>': (a, b) => a > b, '>=': (a, b) => a >= b, '=': (a, b) => a === b, '==': (a, b) => a === b }
const reasonOf = (r) => (r.fate.startsWith('dropped: ') ? r.fate.slice('dropped: '.length) : '')
const field = {
  builder: (r, v) => r.builder === v,
  kind: (r, v) => r.kind === v,
  fidelity: (r, v) => r.fidelity === v,
  split: (r, v) => !reasonOf(r) && r.fate.split(' and ').includes(v),
  reason: (r, v) => (v === 'none' ? !reasonOf(r) : v === 'any' ? reasonOf(r) !== '' : reasonOf(r) === v),
  task: (r, v) => (r.task || r.example) === v,
  example: (r, v) => r.example === v,
  format: (r, v) => (r.formats ?? []).includes(v),
  mark: (r, v) => (v === 'none' ? !r.mark : v === 'any' ? Boolean(r.mark) : r.mark === v),
}

/** The terms of the filter box, as the server reads them. */
function filter(text) {
  const terms = []
  const words = []
  for (const [token] of text.trim().matchAll(/(?:"[^"]*"?|[^ "])+/g)) {
    const bare = token.replaceAll('"', '')
    const [, name, op, value] = /^(\w+)(<=|>=|==|<|>|=)(.*)$/s.exec(bare) ?? []
    const [, key, wanted] = /^(\w+):(.*)$/s.exec(bare) ?? []
    if (token.startsWith('"')) words.push(bare.toLowerCase())
    else if (Object.hasOwn(number, name ?? '')) {
      if (value.trim() === '' || Number.isNaN(Number(value))) throw new Error(`cannot compare "${op}${value}" with a number`)
      terms.push((r) => number[name](r) !== null && compare[op](number[name](r), Number(value)))
    } else if (Object.hasOwn(field, key ?? '')) terms.push((r) => field[key](r, wanted))
    else if (bare) words.push(bare.toLowerCase())
  }
  return { terms, words: words.filter(Boolean) }
}

/** Whether the texts of a record hold all words. */
async function holds(row, words) {
  const texts = []
  const passage = (p) => {
    if (typeof p === 'string') texts.push(p)
    for (const m of typeof p === 'string' || !p ? [] : p) {
      texts.push(m.reasoning ?? '', ...(m.tool_calls ?? []).flatMap((c) => [c.name, c.arguments]))
      if (typeof m.content === 'string') texts.push(m.content)
      else for (const x of m.content ?? []) texts.push(JSON.stringify(x))
    }
  }
  for (let from = 0, all = 1; from < all;) {
    const { view: v, messages, sampled } = await get('record', { n: row.record, from })
    for (const p of [v.prompt, v.chosen, v.rejected, v.messages]) passage(p)
    all = messages
    from += sampled?.length || all || 1
  }
  return words.every((w) => texts.some((t) => t.toLowerCase().includes(w)))
}
