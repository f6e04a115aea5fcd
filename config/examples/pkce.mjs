// Signs in at the gateway as the demo client "mobile-app": OAuth 2.0 authorization code with PKCE (RFC 7636, RFC 8252).
//
//   node config/examples/pkce.mjs [issuer]                       default http://localhost:8080
//   node config/examples/pkce.mjs issuer e-mail password         plays the person with the browser, too
//
// It prints an address to open in a browser, waits for the browser to come back to a port of this machine, exchanges
// the code for tokens, asks for the balance, and renews the tokens. Nothing but Node 20 or later is needed.
import { createHash, randomBytes } from 'node:crypto'
import { createServer } from 'node:http'

const [issuer = 'http://localhost:8080', email, password] = process.argv.slice(2)
const metadata = await json(await fetch(`${issuer}/.well-known/oauth-authorization-server`))

const verifier = randomBytes(32).toString('base64url')
const challenge = createHash('sha256').update(verifier).digest('base64url')
const state = randomBytes(16).toString('base64url')

const server = createServer().listen(0, '127.0.0.1')
await new Promise((resolve) => server.once('listening', resolve))
const redirectUri = `http://127.0.0.1:${server.address().port}/callback`

const authorize = new URL(metadata.authorization_endpoint)
authorize.search = new URLSearchParams({
  client_id: 'mobile-app',
  response_type: 'code',
  redirect_uri: redirectUri,
  scope: 'openid offline_access accounts:read',
  // Without the prompt no refresh token is given (OpenID Connect Core, section 11).
  prompt: 'consent',
  state,
  code_challenge: challenge,
  code_challenge_method: 'S256',
}).toString()
const answered = new Promise((resolve) => {
  server.on('request', (request, response) => {
    const url = new URL(request.url, redirectUri)
    if (url.pathname !== '/callback') return response.writeHead(404).end()
    response
      .writeHead(200, { 'content-type': 'text/plain', connection: 'close' })
      .end('You can close this page.\n')
    resolve(url.searchParams)
  })
})
if (email === undefined) console.log(`Open this address in a browser:\n\n${authorize}\n`)
else await playPerson(authorize)
const answer = await answered
server.close()
// RFC 9207: an answer of another server, or to another question, is not for us.
if (answer.get('iss') !== metadata.issuer) throw new Error('the answer is of another issuer')
if (answer.get('state') !== state) throw new Error('the answer belongs to another request')
if (answer.has('error')) throw new Error(`${answer.get('error')}: ${answer.get('error_description') ?? ''}`)

const tokens = await json(
  await fetch(metadata.token_endpoint, {
    method: 'POST',
    body: new URLSearchParams({
      grant_type: 'authorization_code',
      client_id: 'mobile-app',
      code: answer.get('code'),
      redirect_uri: redirectUri,
      code_verifier: verifier,
    }),
  }),
)
const { token_type: type, expires_in: seconds, scope } = tokens
console.log(`Access: ${scope} (${type}, ${seconds} s)`)

const balance = await fetch(`${issuer}/api/balance`, {
  headers: { authorization: `Bearer ${tokens.access_token}` },
})
console.log('Balance:', (await json(balance)).balance)

const renewed = await json(
  await fetch(metadata.token_endpoint, {
    method: 'POST',
    body: new URLSearchParams({
      grant_type: 'refresh_token',
      client_id: 'mobile-app',
      refresh_token: tokens.refresh_token,
    }),
  }),
)
console.log('Renewed:', renewed.refresh_token !== tokens.refresh_token, '(each refresh token is good once)')

async function json(response) {
  if (!response.ok) throw new Error(`${response.url}: ${response.status} ${await response.text()}`)
  return response.json()
}

/** Plays the person with the browser: signs in, allows, and goes back to the app. */
async function playPerson(start) {
  const cookies = new Map()
  const forms = [{ button: 'Sign in', fields: { email, password } }, { button: 'Allow' }]
  let url = start
  let body
  for (;;) {
    const cookie = [...cookies.values()].filter(({ path }) => url.pathname.startsWith(path))
    const headers = { cookie: cookie.map(({ pair }) => pair).join('; ') }
    const page = await fetch(url, { method: body ? 'POST' : 'GET', body, headers, redirect: 'manual' })
    for (const line of page.headers.getSetCookie()) {
      const path = /; *path=([^;]+)/i.exec(line)?.[1] ?? '/'
      cookies.set(`${line.split('=')[0]} ${path}`, { pair: line.split(';')[0], path })
    }
    const location = page.headers.get('location')
    const text = await page.text()
    body = undefined
    if (location !== null) {
      url = new URL(location, url)
      // The app's own server, above, answers this address.
      if (url.href.startsWith(redirectUri)) return fetch(url)
      continue
    }
    const { button, fields } = forms.shift() ?? {}
    const form = text.match(/<form[\s\S]*?<\/form>/g)?.find((one) => one.includes(`>${button}</button>`))
    if (form === undefined) throw new Error(`no button "${button}" at ${url}: ${page.status} ${text}`)
    url = new URL(/action="([^"]+)"/.exec(form)[1], url)
    const id = /name="id" value="([^"]+)"/.exec(form)[1]
    body = new URLSearchParams({ id, ...fields })
  }
}
