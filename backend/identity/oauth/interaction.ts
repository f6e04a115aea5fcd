import type { FastifyReply, FastifyRequest } from 'fastify'
import type { InteractionResults } from 'oidc-provider'
import { Problem } from '../../problems.ts'
import type { App, Services } from '../../services.ts'
import { originOf } from '../attempt-origin.ts'
import { KNOWN_BROWSER_COOKIE, KNOWN_BROWSER_SECONDS, knownBrowser, markBrowser } from '../known-browser.ts'
import { signIn } from '../sign-in.ts'
import { findAccount, type UserAccount } from './account.ts'
import { cookieOf } from './cookie.ts'
import { errors, type Provider } from './library.ts'
import { type Asked, consentPage, errorPage, type Page, signInPage } from './pages/pages.ts'
import { byBody, FORM, SIGN_IN_FORM_PATH, signInCookie } from './pages/sign-in-form.ts'
import { INTERACTION_COOKIE, INTERACTION_SECONDS } from './policy.ts'
import { methodsOf } from './proven-password.ts'
import { ALL_SCOPES, apiScopesOfClient, grantable, SCOPE_MEANINGS } from './scopes.ts'
import { type AuthorizationServer, INTERACTION_PATH } from './server.ts'

const FORM_LIMIT_BYTES = 16 * 1024
const MAX_EMAIL_CHARACTERS = 254
const MAX_PASSWORD_CHARACTERS = 1024

const EXPIRED = 'This sign-in has expired, was finished already, or was begun in another browser or window.'

/** The context of a request to one of the pages. */
interface Turn {
  readonly request: FastifyRequest
  readonly reply: FastifyReply
  readonly services: Services
  readonly provider: Provider
  readonly details: Awaited<ReturnType<Provider['interactionDetails']>>
  readonly asked: Asked
  readonly form: URLSearchParams
}

/**
 * The pages on which a person signs in and consents: GET /oauth/interaction shows the one that is due. The form with the
 * password is posted to /api/login (sign-in-form.ts), the others to /consent and /deny below the page. No script, and no
 * state but that of oidc-provider.
 *
 * A form is accepted from our own page only: the id in it must be that in the browser's cookie, which is HttpOnly and
 * SameSite=Lax, and the browser must not say that another site sent it.
 */
export async function registerInteraction(
  app: App,
  services: Services,
  server: AuthorizationServer,
): Promise<void> {
  const context = { services, server }
  app.addConstraintStrategy(byBody)
  await app.register(async (scope) => {
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser(
      FORM,
      { parseAs: 'string', bodyLimit: FORM_LIMIT_BYTES },
      (_request, body, done) => done(null, new URLSearchParams(body as string)),
    )
    const schema = { hide: true }
    scope.get(INTERACTION_PATH, { schema }, (request, reply) => inTurn(context, { request, reply }, showDue))
    scope.post(SIGN_IN_FORM_PATH, { schema, constraints: { body: 'form' } }, (request, reply) => {
      // A form from elsewhere is an API request with the wrong media type.
      if (!(request.body instanceof URLSearchParams && request.body.has('id')))
        throw new Problem('unsupported_media_type')
      return inTurn(context, { request, reply }, signInStep)
    })
    const steps = { consent: consentStep, deny: denyStep }
    for (const [name, step] of Object.entries(steps)) {
      scope.post(`${INTERACTION_PATH}/${name}`, { schema }, (request, reply) =>
        inTurn(context, { request, reply }, step),
      )
    }
  })
}

/** Finds the interaction that the request belongs to and lets `step` respond; without one it responds with a page. */
async function inTurn(
  { services, server }: { readonly services: Services; readonly server: AuthorizationServer },
  { request, reply }: Pick<Turn, 'request' | 'reply'>,
  step: (turn: Turn) => Promise<FastifyReply>,
): Promise<FastifyReply> {
  const issuer = services.publicUrl
  const form = request.body instanceof URLSearchParams ? request.body : new URLSearchParams()
  const id = request.method === 'POST' ? form.get('id') : new URL(request.url, issuer).searchParams.get('id')
  if (request.method === 'POST' && isCrossSite(request, issuer)) {
    return send(
      reply,
      403,
      errorPage(issuer, { error: 'cross_site_form', detail: 'This form came from another site.' }),
    )
  }
  const provider = server.instance()
  const details = await provider.interactionDetails(request.raw, reply.raw).catch(noneIfEnded)
  if (details === undefined || details.uid !== id) {
    return send(reply, 400, errorPage(issuer, { error: 'interaction_not_found', detail: EXPIRED }))
  }
  const { client_id, redirect_uri } = details.params
  const client = await provider.Client.find(String(client_id))
  const application = client?.clientName ?? String(client_id)
  const asked = { id, issuer, application, redirectUri: String(redirect_uri) }
  return step({ request, reply, services, provider, details, asked, form })
}

/** Fetch Metadata and RFC 6454 section 7: browsers name the origin of a form, other programs do not. */
function isCrossSite({ headers }: FastifyRequest, issuer: string): boolean {
  const site = headers['sec-fetch-site']
  if (site !== undefined && site !== 'same-origin') return true
  return headers.origin !== undefined && headers.origin !== new URL(issuer).origin
}

async function showDue(turn: Turn): Promise<FastifyReply> {
  const { reply, services, details, asked } = turn
  if (details.prompt.name === 'login') {
    const hint = details.params.login_hint
    const email = typeof hint === 'string' && hint.length <= MAX_EMAIL_CHARACTERS ? hint : ''
    // The provider's own cookie of this name applies only to the path of the page.
    const cookie = { name: INTERACTION_COOKIE, value: details.uid, seconds: INTERACTION_SECONDS }
    reply.header('set-cookie', signInCookie(services.publicUrl, cookie))
    return send(reply, 200, signInPage(asked, { email }))
  }
  const account = await signedIn(turn)
  return account === undefined ? expired(turn) : send(reply, 200, await consentPageFor(turn, account))
}

function expired({ reply, asked }: Turn): FastifyReply {
  return send(reply, 400, errorPage(asked.issuer, { error: 'interaction_not_found', detail: EXPIRED }))
}

/** The signed-in user when consent is due; undefined before. */
async function signedIn({ services, details }: Turn): Promise<UserAccount | undefined> {
  const id = details.session?.accountId
  if (details.prompt.name !== 'consent' || id === undefined) return undefined
  return findAccount(services.database, id)
}

async function consentPageFor({ provider, details, asked }: Turn, account: UserAccount): Promise<Page> {
  const client = await provider.Client.find(String(details.params.client_id))
  const { protocol, api } = askedScopes(details.params.scope, { clientScope: client?.scope, account })
  return consentPage(asked, {
    name: account.name,
    email: account.email,
    meanings: [
      ...protocol.filter((scope) => scope !== 'offline_access'),
      ...api,
      ...protocol.filter((scope) => scope === 'offline_access'),
    ].map((scope) => SCOPE_MEANINGS[scope] ?? scope),
    isPublic: client?.clientAuthMethod === 'none',
  })
}

interface AskedScopes {
  /** `openid`, `offline_access`. */
  readonly protocol: string[]
  /** Scopes of the API that the client may have and the user may grant. */
  readonly api: string[]
}

function askedScopes(
  scope: unknown,
  { clientScope, account }: { readonly clientScope: string | undefined; readonly account: UserAccount },
): AskedScopes {
  const requested = typeof scope === 'string' ? scope.split(' ') : []
  const ofClient = apiScopesOfClient(clientScope)
  return {
    protocol: requested.filter((one) => one === 'openid' || one === 'offline_access'),
    api: grantable(
      requested.filter((one) => ofClient.includes(one)),
      account.role,
    ),
  }
}

async function signInStep(turn: Turn): Promise<FastifyReply> {
  const { request, reply, services, asked, form, details } = turn
  if (details.prompt.name !== 'login') return expired(turn)
  const email = form.get('email')?.trim() ?? ''
  const password = form.get('password') ?? ''
  const again = (status: number, problem: string) =>
    send(reply, status, signInPage(asked, { email, problem }))
  if (email === '' || password === '') return again(422, 'Enter your e-mail address and your password.')
  // PostgreSQL refuses U+0000 in a text.
  if (
    email.length > MAX_EMAIL_CHARACTERS ||
    password.length > MAX_PASSWORD_CHARACTERS ||
    email.includes('\0')
  ) {
    return again(422, 'The e-mail address or the password is wrong.')
  }
  const { knownBrowser: secret } = services.secrets
  const browser = knownBrowser(secret, cookieOf(request.headers.cookie, KNOWN_BROWSER_COOKIE), email)
  const attempt = { email, password, origin: originOf(request), knownBrowser: browser }
  const result = await signIn(services.database, attempt, services.clock())
  switch (result.outcome) {
    case 'wrong':
      return again(422, 'The e-mail address or the password is wrong.')
    case 'throttled':
      reply.header('retry-after', String(result.retryAfterSeconds))
      return again(429, `Too many attempts to sign in. ${waitText(result.retryAfterSeconds)}`)
    case 'signed_in': {
      const mark = {
        name: KNOWN_BROWSER_COOKIE,
        value: markBrowser(secret, email),
        seconds: KNOWN_BROWSER_SECONDS,
      }
      reply.header('set-cookie', signInCookie(services.publicUrl, mark))
      const { id, passwordHash } = result.user
      return finish(turn, { login: { accountId: id, remember: false, amr: methodsOf(passwordHash) } })
    }
  }
}

function waitText(seconds: number): string {
  const minutes = Math.ceil(seconds / 60)
  if (seconds <= 60) return `Try again in ${seconds} ${seconds === 1 ? 'second' : 'seconds'}.`
  return `Try again in ${minutes} minutes.`
}

/** Each consent makes one grant, which ends as a whole and alone. */
async function consentStep(turn: Turn): Promise<FastifyReply> {
  const { services, provider, details } = turn
  const account = await signedIn(turn)
  const clientId = String(details.params.client_id)
  const client = await provider.Client.find(clientId)
  if (account === undefined || client === undefined) return expired(turn)
  const { protocol, api } = askedScopes(details.params.scope, { clientScope: client.scope, account })
  const grant = new provider.Grant({ accountId: account.accountId, clientId })
  const resource = `${services.publicUrl}/api`
  grant.addOIDCScope([...protocol, ...api].join(' '))
  if (api.length > 0) grant.addResourceScope(resource, api.join(' '))
  // Of what was asked for, what the user cannot grant is rejected, or it would be asked for again and again. What was not
  // asked for is not: the user is asked when it is.
  const asked = String(details.params.scope).split(' ')
  const refused = ALL_SCOPES.filter(
    (one) => asked.includes(one) && !protocol.includes(one) && !api.includes(one),
  )
  if (refused.length > 0) {
    grant.rejectOIDCScope(refused.join(' '))
    grant.rejectResourceScope(resource, refused.join(' '))
  }
  const returnTo = await storeResult(turn, { consent: { grantId: await grant.save() } })
  // Nothing leads to it, and it would be kept for a year.
  if (returnTo === undefined) await grant.destroy()
  return leave(turn, returnTo)
}

function denyStep(turn: Turn): Promise<FastifyReply> {
  return finish(turn, { error: 'access_denied', error_description: 'the user denied the request' })
}

async function finish(turn: Turn, result: InteractionResults): Promise<FastifyReply> {
  return leave(turn, await storeResult(turn, result))
}

/** @returns where the browser goes on; `undefined` when the sign-in has ended since {@link inTurn} found it */
function storeResult(
  { request, reply, provider }: Turn,
  result: InteractionResults,
): Promise<string | undefined> {
  return provider.interactionResult(request.raw, reply.raw, result).catch(noneIfEnded)
}

function leave(turn: Turn, returnTo: string | undefined): FastifyReply {
  return returnTo === undefined ? expired(turn) : turn.reply.redirect(returnTo, 303)
}

function noneIfEnded(fault: unknown): undefined {
  if (fault instanceof errors.SessionNotFound) return undefined
  throw fault
}

function send(reply: FastifyReply, status: number, { html, headers }: Page): FastifyReply {
  return reply.code(status).headers(headers).send(html)
}
