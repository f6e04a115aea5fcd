import { fetchJson } from '../../auth/keys/jwks-fetch.ts'
import type { DialectPreset } from '../../config/keys/token-keys.ts'
import { UNSET_AUDIENCE } from '../../config/rules/issuer-rules.ts'
import { isPrivateUrl, issuerFault, urlFault } from '../../config/rules/value-rules.ts'
import { CommandFault, UsageFault } from '../command.ts'

interface Provider {
  readonly name: string
  readonly preset: DialectPreset
  readonly fits: (url: URL) => boolean
  /** The usual address of its keys, made from the issuer. */
  readonly jwksUri: (issuer: string) => string
  readonly hasSlash?: (url: URL) => boolean
  /** The audience of its access tokens. */
  readonly audience: string
}

/** Hosts of the public cloud, of sovereign clouds and of external tenants. */
const ENTRA =
  /^(?:login\.microsoftonline\.(?:com|us)|login\.partner\.microsoftonline\.cn|sts\.windows\.net|[^.]+\.ciamlogin\.com)$/

/** Key addresses come from the providers' references; docs/operate/recipes.md lists them. */
const PROVIDERS: readonly Provider[] = [
  {
    name: 'Microsoft Entra',
    preset: 'entra',
    fits: ({ hostname }) => ENTRA.test(hostname),
    jwksUri: entraKeys,
    hasSlash: ({ hostname }) => hostname === 'sts.windows.net',
    audience: 'the client id of the API for tokens v2, its URI for tokens v1',
  },
  {
    name: 'Okta',
    preset: 'okta',
    fits: ({ hostname }) => /\.okta(?:preview|-emea|-gov)?\.com$/.test(hostname),
    jwksUri: (issuer) => `${issuer}${new URL(issuer).pathname === '/' ? '/oauth2' : ''}/v1/keys`,
    audience: 'the audience of the authorization server, such as api://default',
  },
  {
    name: 'Auth0',
    preset: 'auth0',
    fits: ({ hostname }) => hostname.endsWith('.auth0.com'),
    jwksUri: wellKnownKeys,
    hasSlash: () => true,
    audience: 'the identifier of the API',
  },
  {
    name: 'Amazon Cognito',
    preset: 'cognito',
    fits: ({ hostname }) => /^(?:issuer-)?cognito-idp\.[a-z0-9-]+\.amazonaws\.com$/.test(hostname),
    jwksUri: wellKnownKeys,
    audience: 'the ids of the app clients, as a list',
  },
  {
    name: 'Keycloak',
    preset: 'keycloak',
    fits: ({ pathname }) => pathname.includes('/realms/'),
    jwksUri: (issuer) => `${issuer}/protocol/openid-connect/certs`,
    audience: 'what an audience mapper of a client scope adds',
  },
  {
    name: 'PingOne',
    preset: 'ping',
    fits: ({ hostname }) => hostname.startsWith('auth.pingone.'),
    jwksUri: (issuer) => `${issuer}/jwks`,
    audience: 'the audience of the resource',
  },
]
const ANY: Provider = {
  name: 'an unknown provider',
  preset: 'rfc9068',
  fits: () => true,
  jwksUri: wellKnownKeys,
  audience: 'what the provider calls the API',
}

const TIMEOUT_MS = 5_000
const UNSET_CLIENT = { clientId: 'CHANGE-ME', clientSecretFile: 'CHANGE-ME' }

/**
 * Finds gateway.json's keys for an identity provider by its discovery document (OpenID Connect Discovery 1.0, else RFC
 * 8414), or, when none can be read, by the form of its issuer.
 * @throws UsageFault when `issuer` is no issuer, CommandFault when its document names another issuer or cannot be used
 */
export async function discoverIssuer(issuer: string, audience: string | undefined, fetch = fetchJson) {
  const fault = issuerFault(issuer)
  if (fault !== undefined) throw new UsageFault(`--issuer ${fault}`)
  if (!isPrivateUrl(issuer))
    throw new UsageFault(`--issuer must be https, or on this machine, but is "${issuer}"`)
  const url = new URL(issuer)
  const provider = PROVIDERS.find(({ fits }) => fits(url)) ?? ANY
  if (provider.hasSlash?.(url) && !issuer.endsWith('/'))
    throw new UsageFault(`--issuer of ${provider.name} must end with "/": ${issuer}/`)
  const published = await fetchDocument(issuer, fetch)
  const { cause, jwksUri = cause && provider.jwksUri(issuer), endpoint } = published
  const isOpaque = jwksUri === undefined
  const keys = {
    issuer,
    ...(isOpaque ? {} : { jwksUri }),
    audience: audience ?? UNSET_AUDIENCE,
    tokens: provider.preset,
    ...(isOpaque && { introspection: { url: endpoint, ...UNSET_CLIENT, for: 'all' } }),
  }
  const source = cause === undefined ? `as ${published.uri} says` : 'by the usual form, unchecked'
  const way = isOpaque ? 'no keys, so it is asked about each token' : `keys from ${jwksUri}`
  return {
    keys,
    found: `${provider.name}, "tokens": "${provider.preset}"; ${way}, ${source}`,
    notes: [
      ...(cause === undefined ? [] : [`check "jwksUri": no discovery document could be read (${cause})`]),
      ...(isOpaque
        ? [
            'set "clientId" and "clientSecretFile", or "keyFile", of "introspection": the provider must know the gateway as a client',
          ]
        : []),
      ...(endpoint !== undefined && !isOpaque
        ? [
            `opaque tokens, if it issues any, need "introspection": {"url": "${endpoint}", …} (docs/operate/configuration.md)`,
          ]
        : []),
      ...(audience === undefined
        ? [`set "audience": ${provider.audience}. Until then every token is refused`]
        : []),
      ...notesOn(provider, url),
      'routes ask for no scope yet: name "scopes" in a row (docs/operate/routes.md)',
    ],
  }
}

function notesOn(provider: Provider, { hostname, pathname }: URL): readonly string[] {
  if (provider === ANY)
    return [
      'the provider was not recognised, so its tokens must have "typ": "at+jwt"; otherwise set "tokens" (docs/operate/recipes.md). Opaque tokens need "introspection" (docs/operate/configuration.md)',
    ]
  if (hostname.includes('.okta') && pathname === '/')
    return ['tokens of the organisation server of Okta cannot be verified by others: use a custom server']
  return []
}

/** What a discovery document has: `jwksUri`, `endpoint` or both; or the cause why no document was read. */
interface Published {
  readonly uri?: string
  readonly jwksUri?: string | undefined
  readonly endpoint?: string | undefined
  readonly cause?: string
}

async function fetchDocument(issuer: string, fetch: typeof fetchJson): Promise<Published> {
  const { origin, pathname } = new URL(issuer)
  const path = pathname.replace(/\/$/, '')
  const signal = AbortSignal.timeout(TIMEOUT_MS)
  const causes: string[] = []
  for (const uri of [
    `${origin}${path}/.well-known/openid-configuration`,
    `${origin}/.well-known/oauth-authorization-server${path}`,
  ]) {
    const document = await fetch(uri, signal).catch((error: Error) => {
      causes.push(`${uri}: ${error.message}`)
    })
    if (document !== undefined) return { uri, ...publishedIn(document, issuer, uri) }
  }
  return { cause: causes.join('; ') }
}

function publishedIn(document: unknown, issuer: string, uri: string): Published {
  const members = Object(document) as Record<string, unknown>
  if (members.issuer !== issuer)
    throw new CommandFault(
      `nothing was written: ${uri} is of the issuer ${JSON.stringify(members.issuer)}, not of "${issuer}"`,
    )
  const urlOf = (name: string): string | undefined => {
    const url = members[name]
    if (url === undefined) return undefined
    const fault = typeof url === 'string' ? urlFault(url) : 'must be a URL'
    if (fault === undefined && isPrivateUrl(String(url))) return String(url)
    const reason = fault ?? `must be https, or on this machine, but is "${url}"`
    throw new CommandFault(`nothing was written: "${name}" in ${uri} ${reason}`)
  }
  const found = { jwksUri: urlOf('jwks_uri'), endpoint: urlOf('introspection_endpoint') }
  if (found.jwksUri === undefined && found.endpoint === undefined)
    throw new CommandFault(`nothing was written: "jwks_uri" in ${uri} is missing`)
  return found
}

function wellKnownKeys(issuer: string): string {
  return `${issuer.replace(/\/$/, '')}/.well-known/jwks.json`
}

function entraKeys(issuer: string): string {
  const { hostname, pathname } = new URL(issuer)
  const host = hostname === 'sts.windows.net' ? 'login.microsoftonline.com' : hostname
  const version = issuer.endsWith('/v2.0') ? 'v2.0/' : ''
  return `https://${host}/${pathname.split('/')[1]}/discovery/${version}keys`
}
