import { count, counted, el } from './dom.js'
import { get, post, readOnly } from './data.js'
import { go, link, say } from './nav.js'

const messagesShown = 200 // maximum number of messages on a page

export async function record(p) {
  const from = p.m === undefined ? p.from : Number(p.m) - (Number(p.m) % messagesShown)
  const { run } = p // 2: the run that this one is compared with
  const [r, batches] = await Promise.all([get('record', { n: p.n, from, run }), get('batches', { record: p.n, run })])
  const v = r.view
  const folded = { open: false }
  const body = v.messages !== undefined ? [conversation(r, run), pager(r, p)] : pair(r)
  const fold = () => {
    folded.open = !folded.open
    for (const d of document.querySelectorAll('main details.fold')) if (!d.classList.contains('written')) d.open = folded.open
  }
  const mark = (m) => !readOnly && setMark(r, run, m, () => dispatchEvent(new HashChangeEvent('hashchange')))
  const step = (n) => n && go('record', { n, q: p.q, run })
  return {
    title: `Record ${p.n}`,
    content: [
      el('h2', {}, v.title),
      run && el('p', {}, 'of the second run'),
      el('ul', {}, v.facts.map((f) => el('li', {}, f)), r.file && el('li', {}, `from ${r.file}, ${r.line ? `line ${count(r.line)}, ` : ''}byte ${r.offset}`)),
      el('p', { class: 'actions' },
        r.prev > 0 && el('a', { href: link('record', { n: r.prev, q: p.q, run }) }, 'previous in the group'), ' ',
        r.next > 0 && el('a', { href: link('record', { n: r.next, q: p.q, run }) }, 'next in the group')),
      el('p', { class: 'actions' },
        !readOnly && [button('Approve', r.mark?.mark === 'approve', () => mark('approve')), ' ',
        button('Reject', r.mark?.mark === 'reject', () => mark('reject')), ' ',
        el('button', { type: 'button', onclick: () => note(r, run) }, r.mark?.note ? 'Change the note' : 'Add a note'), ' '],
        el('button', { type: 'button', onclick: () => copy(JSON.stringify(r.view, null, 2)) }, 'Copy JSON'), ' ',
        el('button', { type: 'button', onclick: () => copy(markdown(r)) }, 'Copy Markdown'), ' ',
        el('button', { type: 'button', onclick: fold }, 'Fold or open')),
      r.mark?.note && el('p', {}, 'Note: ', r.mark.note),
      batches.rows.length > 0 && el('p', {}, 'As token rows: ', batches.rows.map((b, i) => [i > 0 && ', ',
        el('a', { href: link('tokens', { ref: b.ref, run }) }, b.ref)])),
      body,
      r.tools?.length > 0 && el('details', { class: 'fold' }, el('summary', {}, r.tools.length < r.all_tools ? `${r.tools.length} of ${counted(r.all_tools, 'tool')}` : counted(r.tools.length, 'tool')),
        r.tools.map((t) => el('section', {}, el('h3', {}, t.name), el('pre', {}, JSON.stringify(t.schema, null, 2))))),
      r.metadata && el('details', { class: 'fold' }, el('summary', {}, 'metadata'), el('pre', {}, JSON.stringify(r.metadata, null, 2))),
      writtenRows(p.n, run),
      el('details', { class: 'fold' }, el('summary', {}, 'the record as JSON'), el('pre', {}, JSON.stringify(v, null, 2))),
    ],
    shown: () => p.m !== undefined && document.getElementById(`message-${p.m}`)?.scrollIntoView(),
    keys: {
      n: () => step(r.next), p: () => step(r.prev), a: () => mark('approve'), r: () => mark('reject'), f: fold,
      c: () => copy(JSON.stringify(r.view, null, 2)), m: () => copy(markdown(r)),
      j: () => step(Number(p.n) + 1), k: () => step(Number(p.n) - 1),
    },
  }
}

/** Shows the rows written for the record, which are requested when the element is opened. */
function writtenRows(n, run) {
  const details = el('details', { class: 'fold written' }, el('summary', {}, 'the rows as written'))
  details.addEventListener('toggle', async () => {
    if (!details.open || details.dataset.asked) return
    details.dataset.asked = 'yes'
    try {
      const rows = await get('written', { n, run })
      details.append(...(rows.length ? rows.map((r) => el('section', { 'aria-label': `${r.format}: ${r.file}:${r.row}` },
        el('h3', {}, `${r.format}: ${r.file}:${r.row}`), el('pre', {}, r.text))) : [el('p', {}, 'It was written as no row.')]))
    } catch (err) {
      delete details.dataset.asked
      say(err.message, true)
    }
  })
  return details
}

const button = (text, pressed, onclick) => el('button', { type: 'button', 'aria-pressed': String(Boolean(pressed)), onclick }, text)

/** Returns the endpoint that sets marks of a run. */
const to = (run) => (run ? `mark?run=${encodeURIComponent(run)}` : 'mark')

async function setMark(r, run, m, done) {
  try {
    await post(to(run), { record: r.key, mark: r.mark?.mark === m ? '' : m, note: r.mark?.note ?? '' })
    done()
  } catch (err) {
    say(err.message, true)
  }
}

async function note(r, run) {
  const text = prompt('Note', r.mark?.note ?? '')
  if (text === null) return
  try {
    await post(to(run), { record: r.key, mark: r.mark?.mark ?? '', note: text })
    dispatchEvent(new HashChangeEvent('hashchange'))
  } catch (err) {
    say(err.message, true)
  }
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text)
    say('copied')
  } catch {
    say('the browser doesn\'t let this page write to the clipboard', true)
  }
}

function pair(r) {
  const v = r.view
  const side = (name, content, pieces) => el('section', { class: name, 'aria-label': name }, el('h3', {}, name),
    pieces ? el('pre', {}, pieces.map((x) => (x.differs ? el('mark', {}, x.text) : x.text))) : passage(content))
  return [
    el('details', { class: 'fold' }, el('summary', {}, `prompt${gist(v.prompt)}`),
      r.before > 0 && el('p', { class: 'dim' }, `${counted(r.before, 'message before these is', 'messages before these are')} left out`), passage(v.prompt)),
    el('div', { class: 'sides' },
      side('chosen', v.chosen, single(v.chosen) && r.diff?.chosen), side('rejected', v.rejected, single(v.rejected) && r.diff?.rejected)),
  ]
}

const gistLength = 100 // characters

/** Returns a prompt's number of messages and the beginning of its last message with text, in one line. */
function gist(content) {
  const last = typeof content === 'string' ? content : content.findLast((m) => typeof m.content === 'string' && m.content)?.content ?? ''
  const line = last.trim().replace(/\s+/g, ' ')
  const shown = [...line.slice(0, 2 * gistLength)]
  return (typeof content === 'string' ? ': ' : ` (${counted(content.length, 'message')}): `) +
    (shown.length > gistLength ? `${shown.slice(0, gistLength).join('')} ...` : line)
}

/** Returns whether a side is a single text or message without reasoning: only then do the differences show all of it. */
const single = (content) => typeof content === 'string' || (content.length === 1 && !content[0].reasoning)

const passage = (content) => (typeof content === 'string' ? el('pre', {}, content) : content.map((m, i) => message(m, i, {})))

function conversation(r, run) {
  if (typeof r.view.messages === 'string') return passage(r.view.messages)
  const failed = new Map()
  for (const s of r.sites ?? []) {
    failed.set(s.call, s)
    if (s.result >= 0) failed.set(s.result, s)
  }
  const turns = new Map((r.turns ?? []).map((t) => [t.message, t]))
  return [tree(r, run), r.view.messages.map((m, i) =>
    message(m, r.from + i, { n: r.row.record, run, site: failed.get(r.from + i), sampled: r.sampled?.[i], turn: turns.get(r.from + i) }))]
}

/** Shows the other conversations of the example, sorted by the message at which each branches off. */
function tree(r, run) {
  if (!r.branches?.length) return undefined
  const list = [...r.branches].sort((a, b) => a.parts - b.parts || a.record - b.record)
  return el('details', { open: list.length <= 20 }, el('summary', {}, list.length === 1 ? 'another branch of the example' : `${count(list.length)} other branches of the example`),
    el('ul', { class: 'tree' }, list.map((b) => {
      const own = b.messages - b.parts
      const line = el('li', {}, el('a', { href: link('record', { n: b.record, m: own > 0 ? String(b.parts) : undefined, run }) }, `record ${b.record}`),
        own > 0 ? ` of ${b.builder} parts at message ${b.parts}: ${own} of its own` : ` of ${b.builder} ends before message ${b.parts}`,
        b.sampled > 0 && [' ', el('span', { class: 'badge' }, `${b.sampled} sampled`)])
      line.style.marginInlineStart = `${Math.min(b.parts, 12)}rem`
      return line
    })))
}

/** Shows links to the messages before and after the ones that are shown. */
function pager(r, p) {
  const shown = r.view.messages.length
  if (typeof r.view.messages === 'string' || shown === r.messages) return undefined
  const to = (from) => link('record', { n: p.n, q: p.q, from, run: p.run })
  return el('div', { class: 'pager' },
    r.from > 0 && el('a', { href: to(Math.max(0, r.from - shown)) }, 'previous messages'),
    el('span', {}, `messages ${r.from} to ${r.from + shown - 1} of ${r.messages}`),
    r.from + shown < r.messages && el('a', { href: to(r.from + shown) }, 'next messages'))
}

/** Shows whether a turn is trained here or in another record, and what changed its context. */
function use(t, run) {
  if (!t) return undefined
  const badge = (...text) => [' ', el('span', { class: 'badge' }, ...text)]
  if (t.in) return badge('context here, trained in ', el('a', { href: link('record', { n: t.in, m: String(t.message), run }) }, `record ${t.in}`))
  return [badge(t.trained ? 'trained' : 'context, not trained'), t.changed && badge(`context changed: ${t.changed}`)]
}

function message(m, i, { n, run, site, sampled, turn }) {
  const text = typeof m.content === 'string' ? el('pre', {}, m.content)
    : m.content ? el('pre', {}, m.content.map((part) => part.text ?? JSON.stringify(part)).join('\n')) : undefined
  return el('article', { class: `message ${m.role === 'assistant' ? 'assistant' : ''} ${site ? 'failed' : ''}`, id: `message-${i}` },
    el('h3', {}, n ? el('a', { href: link('record', { n, m: String(i), run }) }, `${i}.`) : `${i}.`, ` ${m.role}`, sampled === 'yes' && [' ', el('span', { class: 'badge' }, 'sampled')],
      use(turn, run), site && [' ', el('span', { class: 'badge' }, `failed: ${site.error}`)]),
    m.reasoning && el('details', { class: 'fold' }, el('summary', {}, 'reasoning'), el('pre', {}, m.reasoning)),
    m.role === 'tool' ? el('details', { class: 'fold', open: true }, el('summary', {}, 'result'), text ?? '') : text,
    m.tool_calls?.map((c) => el('details', { class: 'fold', open: true }, el('summary', {}, `call of ${c.name}`), el('pre', {}, c.arguments))),
    site?.hint && site.call === i && el('p', {}, el('span', { class: 'badge' }, `hint from ${site.source}`), ' ', site.hint))
}

function markdown(r) {
  const v = r.view
  const fence = (text) => '````\n' + text + '\n````\n'
  const part = (content) => (typeof content === 'string' ? fence(content)
    : content.map((m) => `**${m.role}**\n\n` + fence([m.content, ...(m.tool_calls ?? []).map((c) => `${c.name}(${c.arguments})`)].filter(Boolean)
      .map((x) => (typeof x === 'string' ? x : JSON.stringify(x))).join('\n'))).join('\n'))
  const head = `# ${v.title}\n\n${v.facts.map((f) => `- ${f}`).join('\n')}\n\n`
  if (v.messages !== undefined) return head + part(v.messages)
  return head + `## prompt\n\n${part(v.prompt)}\n## chosen\n\n${part(v.chosen)}\n## rejected\n\n${part(v.rejected)}`
}
