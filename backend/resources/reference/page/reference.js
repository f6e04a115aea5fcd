/** Sends what the forms of the page say. Texts of others are put into the page as text only. */

const tokenField = /** @type {HTMLInputElement} */ (document.querySelector('#token'))
const signIn = /** @type {HTMLFormElement} */ (document.querySelector('#sign-in'))

signIn.addEventListener('submit', async (event) => {
  event.preventDefault()
  const password = field(signIn, '#password')
  const body = JSON.stringify({ email: field(signIn, '#email').value, password: password.value })
  const { status, text } = await send('/api/login', { method: 'POST', body })
  if (status === 200) {
    tokenField.value = JSON.parse(text).accessToken
    password.value = ''
  }
  say(signIn, status === 200 ? 'Signed in: the token is sent with what you try.' : `${status}\n${text}`)
})

for (const form of /** @type {NodeListOf<HTMLFormElement>} */ (document.querySelectorAll('form.try'))) {
  form.addEventListener('submit', async (event) => {
    event.preventDefault()
    say(form, '…')
    const { url, headers } = filledIn(form)
    const body = form.querySelector('textarea')?.value
    const { status, text, facts } = await send(url, { method: form.dataset.method, headers, body })
    say(form, [status, ...facts, '', text].join('\n'))
  })
}

/**
 * The target and the headers that a form asks for.
 * @param {HTMLFormElement} form
 */
function filledIn(form) {
  let path = form.dataset.path ?? '/'
  const query = new URLSearchParams()
  /** @type {Record<string, string>} */
  const headers = {}
  for (const { name, value, dataset } of form.querySelectorAll('input')) {
    if (dataset.in === 'path') path = path.replace(`{${name}}`, encodeURIComponent(value))
    else if (value !== '' && dataset.in === 'query') query.set(name, value)
    else if (value !== '') headers[name] = value
  }
  return { url: query.size > 0 ? `${path}?${query}` : path, headers }
}

/**
 * @param {string} url
 * @param {{ method?: string | undefined, headers?: Record<string, string>, body?: string | undefined }} request
 * @returns {Promise<{ status: string | number, text: string, facts: string[] }>}
 */
async function send(url, { method = 'GET', headers = {}, body }) {
  const token = tokenField.value.trim()
  try {
    const response = await fetch(url, {
      method,
      credentials: 'omit',
      headers: {
        ...headers,
        ...(token !== '' && url !== '/api/login' && { authorization: `Bearer ${token}` }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
      },
      ...(body !== undefined && { body }),
    })
    const facts = [
      'x-request-id',
      'ratelimit',
      'retry-after',
      'location',
      'idempotency-replayed',
      'link',
    ].flatMap((name) => (response.headers.has(name) ? [`${name}: ${response.headers.get(name)}`] : []))
    return { status: response.status, text: tidy(await response.text()), facts }
  } catch (error) {
    return { status: 'Not sent', text: String(error), facts: [] }
  }
}

/** @param {string} text */
function tidy(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2)
  } catch {
    return text
  }
}

/**
 * @param {HTMLFormElement} form
 * @param {string} text
 */
function say(form, text) {
  const status = form.querySelector('[role=status]')
  if (status !== null) status.textContent = text
}

/**
 * @param {HTMLFormElement} form
 * @param {string} selector
 */
function field(form, selector) {
  return /** @type {HTMLInputElement} */ (form.querySelector(selector))
}
