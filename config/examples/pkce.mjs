// Signs in at the gateway as the demo client "mobile-app": OAuth 2.0 authorization code with PKCE (RFC 7636, RFC 8252).
//
//   node config/examples/pkce.mjs [issuer]        default http://localhost:8080
//
// It prints an address to open in a browser, waits for the browser to come back to a port of this machine, exchanges
// the code for tokens, and asks for the balance. Nothing but Node 20 or later is needed.
import { createHash, randomBytes } from 'node:crypto'
import { createServer } from 'node:http'

const issuer = process.argv[2] ?? 'http://localhost:8080'
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
  // Without it no refresh token is given (OpenID Connect Core, section 11).
  prompt: 'consent',
  state,
  code_challenge: challenge,
  code_challenge_method: 'S256',
}).toString()
console.log(`Open this address in a browser:\n\n${authorize}\n`)

const answer = await new Promise((resolve) => {
  server.on('request', (request, response) => {
    const url = new URL(request.url, redirectUri)
    if (url.pathname !== '/callback') return response.writeHead(404).end()
    response
      .writeHead(200, { 'content-type': 'text/plain', connection: 'close' })
      .end('You can close this page.\n')
    resolve(url.searchParams)
  })
})
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
console.log('Tokens:', { ...tokens, access_token: '…', refresh_token: '…', id_token: '…' })

const balance = await fetch(`${issuer}/api/balance`, {
  headers: { authorization: `Bearer ${tokens.access_token}` },
})
console.log('Balance:', await json(balance))

async function json(response) {
  if (!response.ok) throw new Error(`${response.url}: ${response.status} ${await response.text()}`)
  return response.json()
}
