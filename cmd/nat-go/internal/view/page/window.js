// A table of any length of which only the rows near what is seen are in the page.

import { el } from './dom.js'

const beyond = 8 // rows drawn above and below what is seen
const tallest = 8_000_000 // pixels: browsers draw nothing right beyond some 16 million; longer tables scroll faster instead
const ahead = 100 // rows that are asked for at once
const kept = 16 // answers that are kept

/** Rows out of answers of a part each: ask(offset, limit) gets one. */
export class Pages {
  constructor(total, ask) {
    Object.assign(this, { total, ask, parts: new Map(), asked: new Set() })
  }

  row(i) { return this.parts.get(Math.floor(i / ahead))?.[i % ahead] }

  /** Gets the rows [from, to) that are not here yet; changed is called whenever some came. */
  async need(from, to, changed, failed) {
    this.wanted = [Math.floor(from / ahead), Math.floor((Math.max(from + 1, to) - 1) / ahead)]
    for (let part = this.wanted[0]; part <= this.wanted[1]; part++) {
      const rows = this.parts.get(part)
      if (rows) { // as the last one that was looked at
        this.parts.delete(part)
        this.parts.set(part, rows)
      } else if (!this.asked.has(part) && this.asked.size < 2) this.load(part, changed, failed)
    }
  }

  async load(part, changed, failed) {
    this.asked.add(part)
    try {
      const { rows } = await this.ask(part * ahead, ahead)
      this.parts.set(part, rows)
      if (this.parts.size > kept) this.parts.delete(this.parts.keys().next().value)
    } catch (err) {
      failed(err)
      return
    } finally {
      this.asked.delete(part)
    }
    changed()
  }
}

/** Rows that are all here, and may become more. */
export class List {
  constructor() { this.rows = [] }

  get total() { return this.rows.length }

  row(i) { return this.rows[i] }

  need() {}
}

/** The table: columns as in dom.js, but one line each. moved(first, at) is told what is seen first, and what is selected. */
export class Window {
  constructor(caption, columns, source, { moved, failed }) {
    Object.assign(this, { columns, source, moved, failed, at: -1, drawn: new Map() })
    this.body = el('tbody')
    this.table = el('table', {},
      el('colgroup', {}, columns.map((c) => el('col', { class: `of-${c.size ?? 'some'}` }))),
      el('thead', {}, el('tr', { 'aria-rowindex': '1' }, columns.map((c) => el('th', { scope: 'col', class: c.numeric && 'number', 'aria-sort': c.order },
        c.sort ? el('a', { href: c.sort }, c.title) : c.title)))), this.body)
    this.space = el('div', { class: 'space' }, this.table)
    this.element = el('div', { class: 'scroll window', tabindex: '0', role: 'region', 'aria-label': caption, onscroll: () => this.soon() }, this.space)
  }

  /** Shows the row first on top, with row at selected; the element is in the page. */
  start(first, at) {
    this.rowHeight = 2 * parseFloat(getComputedStyle(document.documentElement).fontSize)
    this.resized = new ResizeObserver(() => this.draw())
    this.resized.observe(this.element)
    this.at = at
    this.draw()
    this.element.scrollTop = this.topOf(first)
    this.draw()
  }

  end() {
    this.resized?.disconnect()
    clearTimeout(this.resting)
  }

  /** How many rows fit, and the heights of all and of what is seen of them. */
  sizes() {
    const { total } = this.source
    const seen = Math.max(this.rowHeight, this.element.clientHeight - this.table.tHead.offsetHeight)
    const whole = total * this.rowHeight
    const scaled = whole > tallest
    return { total, fit: seen / this.rowHeight, all: scaled ? tallest : whole, seen, scaled }
  }

  /** Where to scroll to for a row to be on top. */
  topOf(row) {
    const { total, fit, all, seen, scaled } = this.sizes()
    return scaled ? Math.min(1, row / Math.max(1, total - fit)) * (all - seen) : row * this.rowHeight
  }

  /** The row on top, in parts of rows. */
  first() {
    const { total, fit, all, seen, scaled } = this.sizes()
    const at = Math.max(0, this.element.scrollTop)
    return scaled ? Math.min(1, at / (all - seen)) * (total - fit) : at / this.rowHeight
  }

  soon() {
    if (this.waiting) return
    this.waiting = true
    requestAnimationFrame(() => {
      this.waiting = false
      if (this.element.isConnected) this.draw()
    })
  }

  draw() {
    this.space.style.height = `${this.sizes().all + this.table.tHead.offsetHeight}px`
    const { total, fit } = this.sizes() // after the height, as the rows that fit depend on it
    this.table.setAttribute('aria-rowcount', total + 1)
    const first = this.first()
    const from = Math.max(0, Math.floor(first) - beyond)
    const to = Math.min(total, Math.ceil(first + fit) + beyond)
    this.table.style.top = `${Math.max(0, this.element.scrollTop - (first - from) * this.rowHeight)}px`
    for (const [i, row] of this.drawn) {
      if (i >= from && i < to) continue
      if (row.contains(document.activeElement)) this.element.focus({ preventScroll: true })
      row.remove()
      this.drawn.delete(i)
    }
    let next = this.body.firstElementChild
    for (let i = from; i < to; i++) {
      let row = this.drawn.get(i)
      if (row) next = row.nextElementSibling
      else {
        row = el('tr', { 'aria-rowindex': i + 2, 'data-row': i, 'aria-current': i === this.at && 'true' })
        this.body.insertBefore(row, next)
        this.drawn.set(i, row)
      }
      this.fill(row, i)
    }
    this.source.need(from, to, () => this.soon(), this.failed)
    clearTimeout(this.resting)
    this.resting = setTimeout(() => this.element.isConnected && this.moved(Math.round(first), this.at), 200)
  }

  fill(row, i) {
    const value = this.source.row(i)
    if (row.value === value && row.cells.length) return
    row.value = value
    row.ariaBusy = value ? null : 'true'
    row.replaceChildren(...this.columns.map((c) => el('td', { class: c.numeric && 'number' }, value ? c.cell(value) : '')))
  }

  /** Selects the row by so many further on, and goes to its link. */
  step(by) {
    const { total, fit } = this.sizes()
    if (!total) return
    const first = this.first()
    const at = this.at < 0 ? Math.ceil(first) : this.at + by
    this.at = Math.max(0, Math.min(total - 1, at))
    if (this.at < first) this.element.scrollTop = this.topOf(this.at)
    else if (this.at + 1 > first + fit) this.element.scrollTop = this.topOf(Math.ceil(this.at + 1 - fit))
    this.draw()
    for (const [i, row] of this.drawn) {
      if (i === this.at) row.setAttribute('aria-current', 'true')
      else row.removeAttribute('aria-current')
    }
    this.drawn.get(this.at)?.querySelector('a')?.focus({ preventScroll: true })
  }
}
