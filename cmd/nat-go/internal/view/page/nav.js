// The links between pages, and the line that reports what the page does.

import { visible } from './dom.js'

const status = document.getElementById('status')

export function say(text, error = false) {
  status.textContent = visible(text)
  status.className = error ? 'error' : ''
}

/** Returns the link to a page with parameters, without the ones that are empty or 0. */
export function link(page, parameters = {}) {
  const q = new URLSearchParams(Object.entries(parameters).filter(([, v]) => v !== undefined && v !== '' && v !== 0))
  return `#/${page}${q.size ? '?' + q : ''}`
}

export function go(page, parameters) {
  location.hash = link(page, parameters)
}
