// A table of any length. Only the rows near the visible ones are in the page.

import { el } from './dom.js'

const beyond = 8 // rows drawn above and below the visible ones
const tallest = 8_000_000 // pixels: browsers fail at some 16 million, so longer tables scroll faster instead
const ahead = 100 // rows in a part
const kept = 16 // parts kept in memory

/** Rows that are requested in parts with ask(offset, limit). */
export class Pages {
  constructor(total, ask) {
    Object.assign(this, { total, ask, parts: new Map(), asked: new Set() })
  }

  row(i) { return this.parts.get(Math.floor(i / ahead))?.[i % ahead] }

  /** Requests missing parts of the rows [from, to), at most two at a time, and calls changed when one has arrived. */
  async need(from, to, changed, failed) {
    const last = Math.floor((Math.max(from + 1, to) - 1) / ahead)
    for (let part = Math.floor(from / ahead); part <= last; part++) {
      const rows = this.parts.get(part)
      if (rows) { // moves the part to the end, as the one used last
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

/** Rows that are all in memory; more may be added. */
export class List {
  constructor() { this.rows = [] }

  get total() { return this.rows.length }

  row(i) { return this.rows[i] }

  need() {}
}

/** The table, with columns as in dom.js but rows of one line. It calls moved(first, at): the rows on top and selected. */
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

  /** Shows row first on top, and row at as selected. The element must be in the page. */
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

  /** Returns how many rows fit, and the heights of all rows and of the visible ones. */
  sizes() {
    const { total } = this.source
    const seen = Math.max(this.rowHeight, this.element.clientHeight - this.table.tHead.offsetHeight)
    const whole = total * this.rowHeight
    const scaled = whole > tallest
    return { total, fit: seen / this.rowHeight, all: scaled ? tallest : whole, seen, scaled }
  }

  /** Returns the scroll position at which a row is on top. */
  topOf(row) {
    const { total, fit, all, seen, scaled } = this.sizes()
    return scaled ? Math.min(1, row / Math.max(1, total - fit)) * (all - seen) : row * this.rowHeight
  }

  /** Returns the row on top, with the fraction of it that is scrolled away. */
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
    const { total, fit } = this.sizes() // again: how many fit depends on the height
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

  /** Moves the selection by a number of rows, and focuses the row's link. */
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
