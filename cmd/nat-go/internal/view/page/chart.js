// Charts of distributions. uPlot draws them on a canvas, which is useless without sight and a pointer, so each chart is
// followed by a list of its bars with the same links.

import { el, count, counted, number, table, visible } from './dom.js'
import { link } from './nav.js'

const height = 140

const dark = matchMedia('(prefers-color-scheme: dark)')

/** Returns the computed value of a colour of style.css, which a canvas needs. */
function colour(name) {
  const probe = el('span', { class: `ink-${name}`, hidden: true })
  document.body.append(probe)
  const value = getComputedStyle(probe).color
  probe.remove()
  return value
}

/**
 * Makes a chart of a histogram: {name, key, min, max, bins, count, whole, zero, unit}. A click on a bar, or on its label in
 * the list, shows its records. other has the bins of a second run, drawn as outlines; names has the names of the runs.
 */
export function chart(h, { other, names } = {}) {
  const bars = barsOf(h, other)
  const said = el('p', { class: 'dim pointed', 'aria-hidden': 'true' }, '\u00a0')
  const canvas = el('div', { class: 'chart', 'aria-hidden': 'true' })
  const text = (b) => `${b.label}: ${names ? `${count(b.count)} in ${names[0]}, ${count(b.other)} in ${names[1]}` : count(b.count)}`
  draw(canvas, bars, other, (i) => { said.textContent = i === null ? '\u00a0' : visible(text(bars[i])) })
  const filled = bars.filter((b) => b.count > 0 || b.other > 0)
  return el('section', { class: 'card', 'aria-label': h.name }, el('h3', {}, names ? h.name : `${h.name} (${count(h.count)}${h.unit ? ` ${h.count === 1 ? h.unit.replace(/s$/, '') : h.unit}` : ''})`),
    canvas, said,
    h.zero > 0 && el('p', {}, el('a', { href: link('rows', { q: 'spread == 0' }) }, `${count(h.zero)} of ${counted(h.count, 'group')}`),
      ' without spread: all their rollouts got the same reward, so no advantage tells them apart.'),
    names && el('p', { class: 'dim' }, `filled: ${names[0]}, outlined: ${names[1]}`),
    el('details', {}, el('summary', {}, filled.length === 1 ? 'the bar as a list' : `${count(filled.length)} bars as a list`),
      table(`Bars of ${h.name}`, [
        { title: h.name, cell: (b) => el('a', { href: b.href }, b.label) },
        { title: names ? names[0] : h.unit ?? 'records', numeric: true, cell: (b) => count(b.count) },
        ...(names ? [{ title: names[1], numeric: true, cell: (b) => count(b.other) }] : []),
      ], filled)))
}

function barsOf(h, other) {
  const only = (v, n, i) => ({ from: v, to: v, count: n, other: other?.[i] ?? 0, label: number(v), href: link('rows', { q: `${h.key} == ${v}` }) })
  const width = (h.max - h.min) / h.bins.length
  const bars = h.whole ? h.bins.map((n, i) => only(h.min + i, n, i)) : h.bins.map((n, i) => {
    const last = i === h.bins.length - 1
    const from = h.min + i * width
    const to = last ? h.max : from + width
    return { from, to, count: n, other: other?.[i] ?? 0, label: `${number(from)} to ${number(to)}`,
      href: link('rows', { q: `${h.key} >= ${from} and ${h.key} ${last ? '<=' : '<'} ${to}` }) }
  })
  if (h.zero > 0) bars.unshift({ ...only(0, h.zero), other: 0, zero: true })
  return bars
}

/** Draws bars once the page shows the element, and again when its width or the theme changes. */
function draw(node, bars, other, point) {
  const { uPlot } = globalThis
  const x = bars.map((_, i) => i)
  const zeros = bars.some((b) => b.zero)
  const series = (values, options) => ({ values, paths: uPlot.paths.bars({ size: [0.9, 60], align: 0 }), points: { show: false }, ...options })
  const drawn = [series(bars.map((b) => (b.zero ? null : b.count)), { fill: () => colour('bar'), stroke: () => colour('bar') })]
  if (zeros) drawn.push(series(bars.map((b) => (b.zero ? b.count : null)), { fill: () => colour('other'), stroke: () => colour('other') }))
  if (other) drawn.push(series(bars.map((b) => b.other), { stroke: () => colour('other'), width: 2 }))
  const axis = { stroke: () => colour('dim'), font: '12px system-ui, sans-serif', ticks: { show: false }, gap: 2 }
  let plot
  const options = (width) => ({
    width, height, legend: { show: false }, padding: [8, 20, 0, 0],
    cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
    scales: { x: { time: false, range: [-0.6, bars.length - 0.4] }, y: { range: (_, __, most) => [0, most || 1] } },
    axes: [
      { ...axis, size: 26, gap: 7, grid: { show: false }, splits: () => ticks(bars), values: (_, at) => at.map((i) => (bars[i] ? number(i > 0 && i === bars.length - 1 ? bars[i].to : bars[i].from) : '')) },
      { ...axis, size: 48, grid: { stroke: () => colour('line'), width: 1 }, values: (_, at) => at.map((n) => (Number.isInteger(n) ? count(n) : '')) }],
    series: [{}, ...drawn.map(({ values, ...s }) => s)],
    hooks: { setCursor: [(u) => point(u.cursor.idx ?? null)] },
  })
  const make = (width) => {
    plot?.destroy()
    plot = new uPlot(options(width), [x, ...drawn.map((s) => s.values)], node)
    plot.over.addEventListener('click', (event) => {
      const bar = bars[plot.posToIdx(event.offsetX)]
      if (bar) location.hash = bar.href
    })
  }
  const theme = () => node.isConnected && plot && make(plot.width)
  dark.addEventListener('change', theme)
  new ResizeObserver(([seen], observer) => {
    const width = Math.floor(seen.contentRect.width)
    if (!node.isConnected) { // the page was left
      observer.disconnect()
      dark.removeEventListener('change', theme)
      plot?.destroy()
    } else if (width > 0 && width !== plot?.width) make(width)
  }).observe(node)
}

/** Returns the indices of the bars that the axis labels: all of up to four, or else the first, the middle and the last. */
function ticks(bars) {
  const last = bars.length - 1
  return last < 4 ? bars.map((_, i) => i) : [0, Math.round(last / 2), last]
}
