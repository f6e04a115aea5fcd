import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Client, InteractionResults } from 'oidc-provider'
import { Problem } from '../../problems.ts'
import type { App, Services } from '../../services.ts'
import { originOf } from '../attempt-origin.ts'
import { KNOWN_BROWSER_COOKIE, KNOWN_BROWSER_SECONDS, knownBrowser, markBrowser } from '../known-browser.ts'
import { signIn } from '../sign-in.ts'
import { findAccount, methodsOf, type UserAccount } from './account.ts'
import { errors, type Provider } from './library.ts'
import { type Asked, consentPage, errorPage, type Page, signInPage } from './pages/pages.ts'
import { byBody, cookieOf, FORM, SIGN_IN_FORM_PATH, signInCookie } from './pages/sign-in-form.ts'
import { INTERACTION_COOKIE, INTERACTION_SECONDS } from './policy.ts'
import { ALL_SCOPES, apiScopesOfClient, grantable, SCOPE_MEANINGS } from './scopes.ts'
import { type AuthorizationServer, INTERACTION_PATH } from './server.ts'

const FORM_LIMIT_BYTES = 16 * 1024
const MAX_EMAIL_CHARACTERS = 254
const MAX_PASSWORD_CHARACTERS = 1024

const WRONG = 'The e-mail address or the password is wrong.'

interface Turn {
  readonly request: FastifyRequest
  readonly reply: FastifyReply
  readonly services: Services
  readonly provider: Provider
  readonly details: Awaited<ReturnType<Provider['interactionDetails']>>
  readonly client: Client
  readonly asked: Asked
  readonly form: URLSearchParams
}

type Step = (turn: Turn) => Promise<FastifyReply>

/**
 * Serves the pages on which a person signs in and consents. The password form goes to /api/login (sign-in-form.ts).
 *
 * A form is accepted from our own page only: its id must equal the id in the browser's cookie, and the browser must not
 * say that another site sent it.
 */
export async function registerInteraction(
  app: App,
  services: Services,
  server: AuthorizationServer,
): Promise<void> {
  const by = (step: Step) => (request: FastifyRequest, reply: FastifyReply) =>
    inTurn(services, server.instance(), { request, reply }, step)
  app.addConstraintStrategy(byBody)
  await app.register(async (scope) => {
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser(
      FORM,
      { parseAs: 'string', bodyLimit: FORM_LIMIT_BYTES },
      (_request, body, done) => done(null, new URLSearchParams(body as string)),
    )
    const schema = { hide: true }
    scope.get(INTERACTION_PATH, { schema }, by(showDue))
    scope.post(SIGN_IN_FORM_PATH, { schema, constraints: { body: 'form' } }, (request, reply) => {
      // A form without an id is an API request with the wrong media type.
      if (!(request.body instanceof URLSearchParams && request.body.has('id')))
        throw new Problem('unsupported_media_type')
      return by(signInStep)(request, reply)
    })
    scope.post(`${INTERACTION_PATH}/consent`, { schema }, by(consentStep))
    scope.post(`${INTERACTION_PATH}/deny`, { schema }, by(denyStep))
  })
}

/** Finds the interaction of the request and lets `step` respond; responds with an error page when there is none. */
async function inTurn(
  services: Services,
  provider: Provider,
  { request, reply }: Pick<Turn, 'request' | 'reply'>,
  step: Step,
): Promise<FastifyReply> {
  const issuer = services.publicUrl
  const form = request.body instanceof URLSearchParams ? request.body : new URLSearchParams()
  const id = request.method === 'POST' ? form.get('id') : new URL(request.url, issuer).searchParams.get('id')
  if (request.method === 'POST' && isCrossSite(request, issuer)) {
    const detail = 'This form came from another site.'
    return send(reply, 403, errorPage(issuer, { error: 'cross_site_form', detail }))
  }
  const details = await provider.interactionDetails(request.raw, reply.raw).catch(noneIfEnded)
  if (details === undefined || details.uid !== id) return expired(reply, issuer)
  const { client_id, redirect_uri } = details.params
  const client = await provider.Client.find(String(client_id))
  if (client === undefined) return expired(reply, issuer)
  const application = client.clientName ?? client.clientId
  const asked = { id, issuer, application, redirectUri: String(redirect_uri) }
  return step({ request, reply, services, provider, details, client, asked, form })
}

/** True when the browser says that another site sent the form (Fetch Metadata, RFC 6454 section 7). */
function isCrossSite({ headers }: FastifyRequest, issuer: string): boolean {
  const site = headers['sec-fetch-site']
  if (site !== undefined && site !== 'same-origin') return true
  return headers.origin !== undefined && headers.origin !== new URL(issuer).origin
}

async function showDue(turn: Turn): Promise<FastifyReply> {
  const { reply, services, details, client, asked } = turn
  if (details.prompt.name === 'login') {
    const hint = details.params.login_hint
    const email = typeof hint === 'string' && hint.length <= MAX_EMAIL_CHARACTERS ? hint : ''
    // The provider's own cookie of this name applies only to the path of the page.
    const cookie = { name: INTERACTION_COOKIE, value: details.uid, seconds: INTERACTION_SECONDS }
    reply.header('set-cookie', signInCookie(services.publicUrl, cookie))
    return send(reply, 200, signInPage(asked, { email }))
  }
  const account = await signedIn(turn)
  if (account === undefined) return expired(reply, asked.issuer)
  const { protocol, api } = askedScopes(turn, account)
  const offline = protocol.filter((scope) => scope === 'offline_access')
  const page = consentPage(asked, {
    name: account.name,
    email: account.email,
    meanings: [...protocol.filter((scope) => scope !== 'offline_access'), ...api, ...offline].map(
      (scope) => SCOPE_MEANINGS[scope] ?? scope,
    ),
    isPublic: client.clientAuthMethod === 'none',
  })
  return send(reply, 200, page)
}

async function signedIn({ services, details }: Turn): Promise<UserAccount | undefined> {
  const id = details.session?.accountId
  if (details.prompt.name !== 'consent' || id === undefined) return undefined
  return findAccount(services.database, id)
}

/** The requested OpenID Connect scopes, and the requested API scopes that client and user may have. */
function askedScopes({ details, client }: Turn, { role }: UserAccount) {
  const requested = scopesOf(details)
  const ofClient = apiScopesOfClient(client.scope)
  return {
    protocol: requested.filter((one) => one === 'openid' || one === 'offline_access'),
    api: grantable(
      requested.filter((one) => ofClient.includes(one)),
      role,
    ),
  }
}

function scopesOf({ params }: Turn['details']): string[] {
  return typeof params.scope === 'string' ? params.scope.split(' ') : []
}

async function signInStep(turn: Turn): Promise<FastifyReply> {
  const { request, reply, services, asked, form, details } = turn
  if (details.prompt.name !== 'login') return expired(reply, asked.issuer)
  const email = form.get('email')?.trim() ?? ''
  const password = form.get('password') ?? ''
  const again = (status: number, problem: string) =>
    send(reply, status, signInPage(asked, { email, problem }))
  if (email === '' || password === '') return again(422, 'Enter your e-mail address and your password.')
  const isTooLong = email.length > MAX_EMAIL_CHARACTERS || password.length > MAX_PASSWORD_CHARACTERS
  // PostgreSQL refuses U+0000 in a text.
  if (isTooLong || email.includes('\0')) return again(422, WRONG)
  const { knownBrowser: secret } = services.secrets
  const browser = knownBrowser(secret, cookieOf(request.headers.cookie, KNOWN_BROWSER_COOKIE), email)
  const attempt = { email, password, origin: originOf(request), knownBrowser: browser }
  const result = await signIn(services.database, attempt, services.clock())
  if (result.outcome === 'wrong') return again(422, WRONG)
  if (result.outcome === 'throttled') {
    reply.header('retry-after', String(result.retryAfterSeconds))
    return again(429, `Too many attempts to sign in. ${waitText(result.retryAfterSeconds)}`)
  }
  const value = markBrowser(secret, email)
  const mark = { name: KNOWN_BROWSER_COOKIE, value, seconds: KNOWN_BROWSER_SECONDS }
  reply.header('set-cookie', signInCookie(services.publicUrl, mark))
  const { id, passwordHash } = result.user
  return finish(turn, { login: { accountId: id, remember: false, amr: methodsOf(passwordHash) } })
}

function waitText(seconds: number): string {
  if (seconds <= 60) return `Try again in ${seconds} ${seconds === 1 ? 'second' : 'seconds'}.`
  return `Try again in ${Math.ceil(seconds / 60)} minutes.`
}

/** Makes one grant for each consent, so that its tokens end together and other tokens stay. */
async function consentStep(turn: Turn): Promise<FastifyReply> {
  const { services, provider, details, client } = turn
  const account = await signedIn(turn)
  if (account === undefined) return expired(turn.reply, turn.asked.issuer)
  const { protocol, api } = askedScopes(turn, account)
  const grant = new provider.Grant({ accountId: account.accountId, clientId: client.clientId })
  const resource = `${services.publicUrl}/api`
  const granted = [...protocol, ...api]
  grant.addOIDCScope(granted.join(' '))
  if (api.length > 0) grant.addResourceScope(resource, api.join(' '))
  // Without a rejection the provider would ask for these scopes again and again.
  const asked = scopesOf(details)
  const refused = ALL_SCOPES.filter((one) => asked.includes(one) && !granted.includes(one)).join(' ')
  if (refused !== '') {
    grant.rejectOIDCScope(refused)
    grant.rejectResourceScope(resource, refused)
  }
  const returnTo = await storeResult(turn, { consent: { grantId: await grant.save() } })
  // The sign-in has ended, so nothing refers to the grant. Undestroyed, it would be kept for a year.
  if (returnTo === undefined) await grant.destroy()
  return leave(turn, returnTo)
}

function denyStep(turn: Turn): Promise<FastifyReply> {
  return finish(turn, { error: 'access_denied', error_description: 'the user denied the request' })
}

async function finish(turn: Turn, result: InteractionResults): Promise<FastifyReply> {
  return leave(turn, await storeResult(turn, result))
}

/** Returns where the browser goes on; `undefined` when the sign-in has ended since {@link inTurn} found it. */
function storeResult(
  { request, reply, provider }: Turn,
  result: InteractionResults,
): Promise<string | undefined> {
  return provider.interactionResult(request.raw, reply.raw, result).catch(noneIfEnded)
}

function leave({ reply, asked }: Turn, returnTo: string | undefined): FastifyReply {
  return returnTo === undefined ? expired(reply, asked.issuer) : reply.redirect(returnTo, 303)
}

function noneIfEnded(fault: unknown): undefined {
  if (fault instanceof errors.SessionNotFound) return undefined
  throw fault
}

function expired(reply: FastifyReply, issuer: string): FastifyReply {
  const detail = 'This sign-in has expired, was finished already, or was begun in another browser or window.'
  return send(reply, 400, errorPage(issuer, { error: 'interaction_not_found', detail }))
}

function send(reply: FastifyReply, status: number, { html, headers }: Page): FastifyReply {
  return reply.code(status).headers(headers).send(html)
}
