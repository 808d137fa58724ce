// Shows the page that the location's hash names, #/page?key=value, so every view has a link.

import { el, visible } from './dom.js'
import { get } from './data.js'
import { go, say } from './nav.js'
import { overview } from './overview.js'
import { rows } from './rows.js'
import { record } from './record.js'
import { tokens } from './tokens.js'
import { drops } from './drops.js'
import { compare } from './compare.js'

const pages = { overview, rows, record, tokens, drops, compare }
const main = document.getElementById('main')

let keys = {} // of the page that is shown
let left // called when the page is left
let toFilter = false // whether the next page focuses its filter box
let turn = 0 // number of calls of show: a slow page must not overwrite a later one

async function show() {
  const mine = ++turn
  const { hash } = location // may change while the page loads
  const [name, query = ''] = hash.replace(/^#\/?/, '').split('?')
  const page = Object.hasOwn(pages, name) ? name : 'overview'
  for (const a of document.querySelectorAll('nav a')) {
    if (a.getAttribute('href') === `#/${page}`) a.setAttribute('aria-current', 'page')
    else a.removeAttribute('aria-current')
  }
  say('Loading ...')
  try {
    const view = await pages[page](Object.fromEntries(new URLSearchParams(query)))
    if (mine !== turn) return
    left?.()
    left = view.left
    main.replaceChildren(...[view.content].flat(Infinity).filter((c) => c instanceof Node))
    keys = view.keys ?? {}
    document.title = visible(`${view.title} - nat-go view`)
    say('')
    main.dataset.shown = hash
    view.shown?.()
    if (toFilter) document.getElementById('filter')?.focus()
    toFilter = false
  } catch (err) {
    if (mine !== turn) return
    keys = {}
    left?.()
    left = undefined
    main.dataset.shown = hash
    main.replaceChildren(el('p', {}, el('a', { href: '#/overview' }, 'To the overview')))
    say(err.message, true)
  }
}

const dialog = document.getElementById('keys')
document.getElementById('help').addEventListener('click', () => dialog.showModal())

addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || dialog.open) return
  const writing = event.target.matches('input, textarea, select')
  if (event.key === 'Escape') {
    if (writing) event.target.blur()
    else history.back()
    return
  }
  if (writing) return
  if (event.key === '?') dialog.showModal()
  else if (event.key === '/') {
    const box = document.getElementById('filter')
    if (box) box.focus()
    else {
      toFilter = true
      go('rows')
    }
  } else if (keys[event.key]) keys[event.key](event)
  else return
  event.preventDefault()
})

addEventListener('hashchange', show)
show()
get('name').then((n) => {
  document.getElementById('run').textContent = visible(n.run)
  document.getElementById('compare').hidden = !n.compared
  const exported = document.getElementById('exported')
  exported.hidden = !n.exported
  exported.textContent = n.exported ?? ''
}, () => {})
