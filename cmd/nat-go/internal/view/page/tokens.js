import { el, count, counted, number, percent, table, visible } from './dom.js'
import { get } from './data.js'
import { link, say } from './nav.js'

const page = 100

export async function tokens(p) {
  return p.ref ? one(p) : list(p)
}

async function list(p) {
  const offset = Number(p.offset ?? 0)
  const a = await get('batches', { channel: p.channel, offset, limit: page, run: p.run })
  const to = (n) => link('tokens', { channel: p.channel, offset: n, run: p.run })
  return { title: 'Tokens', content: [
    el('h2', {}, p.channel ? `Rows of ${p.channel}` : 'Rows of token batches'),
    a.total === 0 ? el('p', {}, 'There are none: a run writes them where collator.tokenizer names a tokenizer.')
      : table('Token rows', [
        { title: 'row', cell: (r) => el('a', { href: link('tokens', { ref: r.ref, run: p.run }) }, r.ref) },
        { title: 'channel', cell: (r) => r.channel },
        { title: 'split', cell: (r) => r.split },
        { title: 'example', cell: (r) => r.example },
        { title: 'record', numeric: true, cell: (r) => el('a', { href: link('record', { n: r.record, run: p.run }) }, count(r.record)) },
        { title: 'sites', numeric: true, cell: (r) => r.sites || '' }], a.rows),
    el('div', { class: 'pager' }, offset > 0 && el('a', { href: to(Math.max(0, offset - page)) }, 'previous'),
      offset + page < a.total && el('a', { href: to(offset + page) }, 'next')),
  ] }
}

/** Returns the class of a token: trained, context, hint, filler (of the template), or dropped from the loss. */
function classOf(t) {
  if (t.trained) return 'trained'
  if (t.why === 'hint') return 'hint'
  if (t.why === 'filler' || t.message < 0) return 'filler'
  if (t.why && t.why !== 'context') return 'dropped'
  return 'context'
}

/** Numbers that can be drawn as heat on trained tokens, in five steps from cold to hot. */
const heats = {
  logprob: { name: 'log-prob', has: (s) => s.log_prob, of: (t) => t.log_prob, steps: [-0.1, -0.5, -1, -2], hot: (v, step) => v < step },
  hint: { name: 'hint effect', has: (s) => s.jsd, of: (t) => t.jsd, steps: [0.001, 0.01, 0.05, 0.2], hot: (v, step) => v > step },
}

function heatOf(t, heat) {
  const v = heat?.of(t)
  if (!t.trained || v === undefined) return ''
  return ` heat heat-${heat.steps.filter((step) => heat.hot(v, step)).length}`
}

async function one(p) {
  const head = await get('row', { ref: p.ref, with: p.with, run: p.run })
  const to = (change) => link('tokens', { ref: p.ref, with: p.with, heat: p.heat, run: p.run, ...change })
  const heat = Object.hasOwn(heats, p.heat ?? '') ? heats[p.heat] : undefined
  const detail = el('p', { class: 'detail', id: 'token', role: 'status', 'aria-live': 'polite' }, 'Point at a token, or move to one with the arrows.')
  const strip = new Strip(p, head, heat, detail)
  const choices = Object.entries(heats).filter(([, h]) => head.sides.some(h.has))
  return { title: `Tokens of ${p.ref}`, content: [
    el('h2', {}, `${head.file}, row ${head.row}`),
    el('p', {}, facts(head).join(', ')),
    el('p', {}, 'of ', el('a', { href: link('record', { n: head.info.ordinal + 1, run: p.run }) }, `record ${count(head.info.ordinal + 1)}`)),
    el('ul', { class: 'legend strip' }, ['trained', 'context', 'hint', 'filler', 'dropped'].map((c) => el('li', {}, el('span', { class: c }, ` ${c} `)))),
    choices.length > 0 && el('p', { class: 'actions' }, 'Heat on trained tokens: ',
      el('a', { href: to({ heat: undefined }), 'aria-current': !heat && 'true' }, 'none'),
      choices.map(([key, h]) => [', ', el('a', { href: to({ heat: key }), 'aria-current': heat === h && 'true' }, h.name)])),
    heat && el('ul', { class: 'legend strip' }, [...heat.steps, undefined].map((step, i) => el('li', {},
      el('span', { class: `heat heat-${i}` }, step === undefined ? ' beyond ' : ` to ${step} `)), ' nats')),
    head.sides.length > 2 && el('p', { class: 'actions' }, 'Beside the first: ', head.sides.slice(1).map((s, i) =>
      [i > 0 && ', ', el('a', { href: to({ with: i + 1 }), 'aria-current': head.shown[1] === i + 1 && 'true' }, `${s.name} ${i + 1}`)])),
    el('div', { class: 'beside', 'data-sides': head.shown.length }, head.shown.map((k) => {
      const s = head.sides[k]
      return el('h3', {}, `${s.name || 'row'}: ${counted(s.length, 'token')}, ${count(s.trained)} trained (${percent(s.trained, s.length)})`)
    })),
    strip.element, detail,
  ], shown: () => strip.start(), left: () => strip.end() }
}

function facts({ info, channel, weight }) {
  const out = [`channel ${channel}`, `example ${info.example}`, `ids ${info.ids}`, `on policy: ${info.on_policy}`, `fidelity ${info.fidelity}`, `weight ${number(weight)}`]
  if (info.flags) out.push(...info.flags)
  if (info.scored) out.push(info.scored.null ? 'not scored' : `reward ${number(info.scored.reward)}, advantage ${number(info.scored.advantage)}`)
  if (info.reference) out.push(`reference log-probs ${number(info.reference.chosen)} and ${number(info.reference.rejected)}`)
  return out
}

const kept = 64 // windows of tokens in memory

/** The tokens of a row, in pieces with the sides next to each other. Only pieces near the visible part are drawn. */
class Strip {
  constructor(p, head, heat, detail) {
    Object.assign(this, { p, head, heat, detail, windows: new Map(), at: undefined })
    this.pieces = head.pieces.map((piece) => {
      const node = el('div', { class: `piece beside ${piece.what}`, 'data-sides': head.shown.length })
      const longest = Math.max(...piece.spans.map(([from, to]) => to - from))
      node.style.minHeight = `${Math.max(1, Math.round(longest / (head.shown.length > 1 ? 10 : 20))) * 1.7}rem`
      return { ...piece, node }
    })
    this.element = el('div', { class: 'strip tokens', tabindex: '0', role: 'group', 'aria-label': 'tokens: arrows move', 'aria-describedby': 'token',
      onmouseover: (e) => this.about(e.target), onclick: (e) => this.pick(e.target), onkeydown: (e) => this.key(e) }, this.pieces.map((x) => x.node))
  }

  start() {
    this.observer = new IntersectionObserver((seen) => {
      for (const s of seen) {
        const piece = this.pieces.find((x) => x.node === s.target)
        if (s.isIntersecting) this.draw(piece)
        else this.clear(piece)
      }
    }, { rootMargin: '800px 0px' })
    for (const x of this.pieces) this.observer.observe(x.node)
    if (this.p.at !== undefined) this.move(Number(this.p.side ?? 0), Number(this.p.at))
  }

  end() { this.observer?.disconnect() }

  /** Gets the tokens [from, to) of a side from the windows that hold them. */
  async range(side, from, to) {
    const { width } = this.head
    const out = []
    for (let w = from - (from % width); w < to; w += width) {
      const key = `${side} ${w}`
      if (!this.windows.has(key)) {
        if (this.windows.size === kept) this.windows.delete(this.windows.keys().next().value)
        this.windows.set(key, get('tokens', { ref: this.p.ref, side, from: w, run: this.p.run }))
      }
      out.push(...(await this.windows.get(key)).tokens.filter((t) => t.position >= from && t.position < to))
    }
    return out
  }

  draw(piece) {
    piece.drawing ??= this.fill(piece)
    return piece.drawing
  }

  async fill(piece) {
    try {
      const sides = await Promise.all(piece.spans.map(([from, to], i) => this.range(this.head.shown[i], from, to)))
      if (!piece.drawing) return // it was cleared meanwhile
      piece.node.replaceChildren(...sides.map((list, i) => el('div', {}, list.map((t) => this.token(t, this.head.shown[i])))))
      piece.node.style.minHeight = ''
    } catch (err) {
      piece.drawing = undefined
      say(err.message, true)
    }
  }

  clear(piece) {
    if (piece.node.childElementCount) {
      piece.node.style.minHeight = `${piece.node.offsetHeight}px`
      piece.node.replaceChildren()
    }
    piece.drawing = undefined
  }

  token(t, side) {
    const node = el('span', { class: classOf(t) + heatOf(t, this.heat), 'data-position': t.position, 'data-side': side, 'data-id': t.id }, t.text || '\u00a0')
    node.token = t
    if (this.at && this.at[0] === side && this.at[1] === t.position) node.setAttribute('aria-current', 'true')
    return node
  }

  about(node) {
    const t = node.token
    if (!t) return
    const { info, weight } = this.head
    const words = [`${t.position}: id ${t.id}`, JSON.stringify(t.text), t.bytes && `bytes ${t.bytes[0]} to ${t.bytes[1]}`,
      `of ${t.why === 'hint' ? 'the hint' : t.message < 0 ? 'the template' : `message ${t.message}`}`, t.trained ? `trained, weight ${number(weight)}` : 'not trained', t.why && !t.trained && t.why !== 'hint' && t.why,
      t.log_prob !== undefined && `log-prob ${number(t.log_prob)}`, t.trained && info.scored && !info.scored.null && `advantage ${number(info.scored.advantage)}`,
      t.jsd !== undefined && `hint effect ${number(t.jsd)} nats`]
    this.detail.textContent = visible(words.filter(Boolean).join(', '))
  }

  pick(node) {
    if (node.token) this.move(Number(node.dataset.side), node.token.position)
  }

  key(event) {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key]
    if (!by) return
    event.preventDefault()
    const [side, at] = this.at ?? [this.head.shown[0], by > 0 ? -1 : 1]
    this.move(side, Math.max(0, Math.min(this.head.sides[side].length - 1, at + by)))
  }

  /** Moves to a token, drawing its piece if necessary, and updates the link. */
  async move(side, at) {
    const column = this.head.shown.indexOf(side)
    const piece = this.pieces.find((x) => column >= 0 && x.spans[column][0] <= at && at < x.spans[column][1])
    if (!piece) return
    this.element.querySelector('[aria-current]')?.removeAttribute('aria-current')
    this.at = [side, at]
    let node
    for (let tries = 0; tries < 20 && !node; tries++) {
      await this.draw(piece)
      if (this.at[0] !== side || this.at[1] !== at) return // the user moved on
      node = [...piece.node.querySelectorAll('span')].find((x) => x.token?.position === at && Number(x.dataset.side) === side)
      if (node) break
      piece.node.scrollIntoView({ block: 'center' }) // because a piece far from the visible part is cleared again
      await new Promise(requestAnimationFrame)
    }
    if (!node) return
    node.setAttribute('aria-current', 'true')
    node.scrollIntoView({ block: 'nearest' })
    this.about(node)
    history.replaceState(history.state, '', link('tokens', { ...this.p, side: side || undefined, at: String(at) }))
  }
}
