// Gets the page's data from the server that served the page.

const token = new URLSearchParams(location.search).get('token') ?? ''

/** Whether marks can't be set. The server keeps them next to the run. */
export const readOnly = false

async function ask(path, options = {}) {
  const response = await fetch(path, { ...options, headers: { 'X-Nat-Go-Token': token, ...options.headers }, credentials: 'omit' })
  let body
  try {
    body = await response.json()
  } catch {
    throw new Error(`the server answered ${response.status}: is nat-go view still running?`)
  }
  if (!response.ok) throw new Error(body.error)
  return body
}

export function get(what, parameters = {}) {
  const q = new URLSearchParams(Object.entries(parameters).filter(([, v]) => v !== undefined && v !== ''))
  return ask(`/api/${what}?${q}`)
}

/** Yields the lines of an answer as they arrive. */
export async function * lines(what, parameters, signal) {
  const q = new URLSearchParams(Object.entries(parameters).filter(([, v]) => v !== undefined && v !== ''))
  const response = await fetch(`/api/${what}?${q}`, { headers: { 'X-Nat-Go-Token': token }, credentials: 'omit', signal })
  if (!response.ok) throw new Error((await response.json()).error)
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const whole = (rest + part.value).split('\n')
    rest = whole.pop()
    for (const line of whole) yield JSON.parse(line)
  }
}

export function post(what, body) {
  return ask(`/api/${what}`, { method: 'POST', body: JSON.stringify(body), headers: { 'Content-Type': 'application/json' } })
}
