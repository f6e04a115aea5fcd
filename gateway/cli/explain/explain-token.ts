import { readFileSync } from 'node:fs'
import type { Revocations } from '../../auth/revocations.ts'
import { readClaims } from '../../auth/tokens/claims.ts'
import { faultOfKind } from '../../auth/tokens/dialect.ts'
import { type TrustedIssuer, trustedIssuers } from '../../auth/tokens/issuers.ts'
import { issuerNamed, parseToken } from '../../auth/tokens/token.ts'
import { TokenVerifier } from '../../auth/tokens/verifier.ts'
import type { Settings } from '../../config/settings.ts'
import type { Principal } from '../../principal.ts'
import { Checks, CONFIG_FLAGS, type Command, EXIT, environmentOf, JSON_FLAG, printJson } from '../command.ts'
import { readTables } from './row-reasons.ts'

/** Only the running gateway knows ended sessions. */
const NONE_REVOKED = { isRevoked: () => false } as unknown as Revocations

export const command: Command = {
  flags: { ...CONFIG_FLAGS, ...JSON_FLAG },
  about: [
    'Reads an access token from standard input. Says which checks of the gateway the token passes, which it fails, and why. It reads the files here, and needs no running gateway. It fetches the keys of the issuer from its jwksUri; about an opaque token it asks the issuer (introspection).',
    'It does not check whether the session has ended, or a proof of possession. It shows acr, auth_time and the claims that fail a check, never the signature.',
  ],
  examples: [['countersign explain token < token.txt', 'why a token gets 401']],
  fault: 'the token is not accepted, or the configuration is faulty',
  async run({ flags }) {
    const { settings } = readTables(environmentOf(flags))
    const told = new Told(flags.json !== undefined)
    const isAccepted = await judge(readFileSync(0, 'utf8').trim(), settings, told)
    if (flags.json !== undefined)
      printJson({ accepted: isAccepted, checks: told.checks, caller: told.caller })
    return isAccepted ? EXIT.good : EXIT.fault
  },
}

class Told extends Checks {
  caller: Readonly<Record<string, string | undefined>> | undefined

  called({ subject, client, scope, acr, authenticatedAtMs }: Principal): void {
    const at = authenticatedAtMs === undefined ? undefined : new Date(authenticatedAtMs).toISOString()
    this.caller = { user: subject, client, scopes: scope, acr, authTime: at }
    this.say(`      user ${subject ?? 'none'}, client ${client ?? 'none'}, scopes ${scope || 'none'}`)
    this.say(`      acr ${acr ?? 'none'}, auth_time ${at ? `with the clock tolerance ${at}` : 'none'}`)
  }
}

async function judge(text: string, settings: Settings, told: Told): Promise<boolean> {
  const sources = { ...settings, upstreamSecret: undefined }
  const issuers = trustedIssuers(settings, {
    clock: Date.now,
    onFault: (uri, cause) => told.say(`      ${uri}: ${cause}`),
    sources: () => sources,
  })
  const asked = issuers.filter((one) => isAsked(one, text, issuers))
  if (asked.length > 0) return askAbout(text, asked, told)
  const parsed = parseToken(text)
  if (!told.passes('form', parsed.fault?.cause) || parsed.token === undefined) return false
  const { type, claims } = parsed.token
  const issuer = issuers.find((one) => one.issuer === claims.iss)
  const trusted = issuers.map((one) => one.issuer).join(', ')
  if (!told.passes('issuer', issuer ? undefined : `iss is not one of ${trusted}`) || !issuer) return false
  const results = [
    told.passes('kind', faultOfKind(type, claims, issuer.tokens)),
    told.passes('claims', readClaims(claims, issuer, Date.now()).fault?.cause),
  ]
  if (results.includes(false)) return false
  await issuer.keys.refresh()
  const verifier = new TokenVerifier({ issuers, revocations: NONE_REVOKED, clock: Date.now })
  const { fault, principal } = await verifier.verify(text, { address: '', closed: false })
  if (!told.passes('signature', fault?.cause) || principal === undefined) return false
  told.called(principal)
  return true
}

/** True when the gateway would ask this issuer, on a row that trusts it. */
function isAsked(issuer: TrustedIssuer, text: string, issuers: readonly TrustedIssuer[]): boolean {
  if (issuer.introspection === undefined) return false
  const named = issuerNamed(text)
  if (named === issuer.issuer) return issuer.introspection.for === 'all'
  return issuers.every((one) => one.issuer !== named)
}

/** Asks each issuer, because a request's row decides which one the gateway asks. */
async function askAbout(text: string, asked: readonly TrustedIssuer[], told: Told): Promise<boolean> {
  for (const { issuer, introspector } of asked) {
    const verification = await introspector?.verify(text, { address: '', closed: false })
    if (!told.passes(`introspection by ${issuer}`, verification?.fault?.cause)) continue
    if (verification?.principal !== undefined) told.called(verification.principal)
    return true
  }
  return false
}
