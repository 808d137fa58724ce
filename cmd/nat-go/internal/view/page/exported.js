// Gets an exported page's data from the file itself. Each answer is a separate member, which is opened when it is needed.

const index = JSON.parse(document.getElementById('index').textContent)
const text = document.getElementById('data').textContent

/** Whether marks can't be set: there is no run to keep them next to. */
export const readOnly = true

const opened = new Map() // the members opened last
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

/** Yields the lines of a list. */
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

let last = {} // the last query, and the rows that match it

/** Finds the rows that match a filter's clauses, in the requested order, but leaves clauses about texts to lines. */
async function find(q, sort) {
  const clauses = filter(q)
  const texts = clauses.filter((c) => c.text)
  if (last.q === q && last.sort === sort) return { found: last.found, texts }
  const found = []
  for await (const r of list('rows')) if (clauses.every((c) => c.text || c.holds(r))) found.push(r)
  if (sort) {
    const [name, by] = sort.startsWith('-') ? [sort.slice(1), -1] : [sort, 1]
    const missing = (r) => r[name] === null
    found.sort((a, b) => missing(a) - missing(b) || (missing(a) ? 0 : by * (a[name] - b[name])))
  }
  last = { q, sort, found }
  return { found, texts }
}

async function rows({ q = '', sort = '', offset = 0, limit = 50 }) {
  const { found, texts } = await find(q, sort)
  if (texts.length) return { total: 0, search: true, rows: [] }
  return { total: found.length, rows: found.slice(offset, offset + limit) }
}

const mostHits = 1000

/** Yields the rows that match a filter with clauses about texts, and the progress, as the server does. */
export async function * lines(what, { q = '', sort = '', at = 0 }, signal) {
  const { found, texts } = await find(q, sort)
  let hits = 0
  let next = Number(at)
  for (; next < found.length && hits < mostHits; next++) {
    if (signal.aborted) return
    const row = { ...found[next], texts: await textsOf(found[next]) }
    if (texts.every((c) => c.holds(row))) {
      hits++
      yield { row: found[next] }
    }
    if (next % 100 === 99) yield { at: next + 1, of: found.length }
  }
  yield { at: next, of: found.length, more: next < found.length }
}

const reasonOf = (r) => (r.fate.startsWith('dropped: ') ? r.fate.slice('dropped: '.length) : '')
const field = {
  id: (r) => r.example,
  task: (r) => r.task || r.example,
  reason: reasonOf,
  mark: (r) => r.mark ?? '',
  split: (r) => (reasonOf(r) ? [] : r.fate.split(' and ')),
  format: (r) => r.formats ?? [],
  margin: (r) => (r.kind === 'preference' ? r.score ?? NaN : NaN),
  score: (r) => (r.kind === 'preference' ? NaN : r.score ?? NaN),
  text: (r) => r.texts,
}
for (const name of ['builder', 'kind', 'fidelity']) field[name] = (r) => r[name]
for (const name of ['length', 'messages', 'sites', 'turns', 'share', 'spread']) field[name] = (r) => r[name] ?? NaN

const operation = {
  '<': (a, b) => a < b,
  '<=': (a, b) => a <= b,
  '>': (a, b) => a > b,
  '>=': (a, b) => a >= b,
  '==': (a, b) => a === b,
  '!=': (a, b) => a !== b,
  '+': (a, b) => a + b,
  '-': (a, b) => a - b,
  '*': (a, b) => a * b,
  '/': (a, b) => a / b,
}
const tests = {
  contains: (b) => (a) => a.includes(b),
  startsWith: (b) => (a) => a.startsWith(b),
  endsWith: (b) => (a) => a.endsWith(b),
  matches: (b) => {
    const [, fold, rest] = /^(\(\?i\))?(.*)$/s.exec(b)
    const re = new RegExp(rest, fold ? 'iu' : 'u')
    return (a) => re.test(a)
  },
}

/** Parses a filter, as package where does, into clauses {holds(row), text}; text says whether a clause is about texts. */
function filter(text) {
  const words = /("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\d(?:[eE][+-]|[\w.])*|[\p{L}_][\p{L}\d_]*|[=!<>]=|&&|\|\||\S)/gsu
  const tokens = [...text.matchAll(words)].map(([t]) => t)
  let at = 0
  const take = (...these) => (these.includes(tokens[at]) ? tokens[at++] : undefined)
  const fail = (expected) => {
    throw new Error(`expected ${expected}, got ${tokens[at] ?? 'the end of the filter'}`)
  }
  const need = (t) => take(t) ?? fail(t)
  const joined = (part, ...operators) => {
    let left = part()
    for (let op = take(...operators); op; op = take(...operators)) {
      const [a, b, apply] = [left, part(), operation[op]]
      if (apply) left = (r) => apply(a(r), b(r))
      else if (op === 'or' || op === '||') left = (r) => a(r) || b(r)
      else left = (r) => a(r) && b(r)
    }
    return left
  }
  const value = () => {
    const t = tokens[at++]
    if (t === '(') {
      const inner = or()
      need(')')
      return inner
    }
    if (t === '-') {
      const of = value()
      return (r) => -of(r)
    }
    if (/^["']./.test(t)) {
      const s = t.slice(1, -1).replace(/\\(["'\\])/g, (all, c) => (c === t[0] || c === '\\' ? c : all))
      return () => s
    }
    if (t === 'true' || t === 'false') return () => t === 'true'
    if (/^\d/.test(t) && !Number.isNaN(Number(t))) return () => Number(t)
    if (t !== undefined && Object.hasOwn(field, t)) return field[t]
    at--
    return fail('a field or a value')
  }
  const sum = () => joined(() => joined(value, '*', '/'), '+', '-')
  const member = (left) => {
    need('in')
    if (!take('[')) {
      const all = sum()
      return (r) => all(r).includes(left(r))
    }
    const all = []
    do all.push(sum()); while (take(','))
    need(']')
    return (r) => all.some((x) => x(r) === left(r))
  }
  const comparison = () => {
    const left = sum()
    const op = take('==', '!=', '<=', '>=', '<', '>')
    if (op) {
      const right = sum()
      return (r) => operation[op](left(r), right(r))
    }
    const test = take('contains', 'startsWith', 'endsWith', 'matches')
    if (test) {
      const meets = tests[test](sum()())
      return (r) => [left(r)].flat().some(meets)
    }
    if (take('not')) {
      const is = member(left)
      return (r) => !is(r)
    }
    return tokens[at] === 'in' ? member(left) : left
  }
  const not = () => {
    if (!take('not', '!')) return comparison()
    const of = not()
    return (r) => !of(r)
  }
  const or = () => joined(() => joined(not, 'and', '&&'), 'or', '||')
  const clauses = []
  if (tokens.length === 0) return clauses
  do {
    const from = at
    clauses.push({ holds: not(), text: tokens.slice(from, at).includes('text') })
  } while (take('and', '&&'))
  if (tokens[at] === 'or' || tokens[at] === '||') {
    at = 0
    clauses.splice(0, clauses.length, { holds: or(), text: tokens.includes('text') })
  }
  if (at < tokens.length) fail('an operator, or the end of the filter')
  return clauses
}

/** Gets the texts of a record. */
async function textsOf(row) {
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
  return texts
}
