// Where the page's data comes from: the server that served it.

const token = new URLSearchParams(location.search).get('token') ?? ''

/** Marks can be set: the server keeps them beside the run. */
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

export function post(what, body) {
  return ask(`/api/${what}`, { method: 'POST', body: JSON.stringify(body), headers: { 'Content-Type': 'application/json' } })
}
