import { readFileSync } from 'node:fs'
import type { Revocations } from '../../auth/revocations.ts'
import { readClaims } from '../../auth/tokens/claims.ts'
import { faultOfKind } from '../../auth/tokens/dialect.ts'
import { type TrustedIssuer, trustedIssuers } from '../../auth/tokens/issuers.ts'
import { issuerNamed, parseToken } from '../../auth/tokens/token.ts'
import { TokenVerifier } from '../../auth/tokens/verifier.ts'
import type { Principal } from '../../principal.ts'
import { CONFIG_FLAGS, type Command, EXIT, environmentOf, print } from '../command.ts'
import { readTables } from './row-reasons.ts'

/** Only the running gateway knows which sessions have ended. */
const NONE_REVOKED = { isRevoked: () => false } as unknown as Revocations

export const command: Command = {
  flags: CONFIG_FLAGS,
  about: [
    'Reads an access token from standard input, never from an argument, and says which checks of the gateway it passes and which not, and why. It reads the files here; no gateway need run. The keys of the issuer are fetched from its jwksUri. An issuer with introspection is asked about an opaque token.',
    'It cannot tell whether the session has ended, and asks for no proof of possession. It shows claims that a check refuses, acr and auth_time, never the signature.',
  ],
  examples: [['countersign explain token < token.txt', 'why a token gets 401']],
  fault: 'the token is not accepted, or the configuration is faulty',
  async run({ flags }) {
    const { settings } = readTables(environmentOf(flags))
    const text = readFileSync(0, 'utf8').trim()
    const sources = { ...settings, upstreamSecret: undefined }
    const issuers = trustedIssuers(settings, {
      clock: Date.now,
      onFault: (uri, cause) => print(`      ${uri}: ${cause}`),
      sources: () => sources,
    })
    const asked = issuers.filter((one) => isAsked(one, text, issuers))
    if (asked.length > 0) return askAbout(text, asked)
    const parsed = parseToken(text)
    if (!passes('form', parsed.fault?.cause) || parsed.token === undefined) return EXIT.fault
    const { type, claims } = parsed.token
    const issuer = issuers.find((one) => one.issuer === claims.iss)
    const trusted = issuers.map((one) => one.issuer).join(', ')
    if (!passes('issuer', issuer ? undefined : `iss is none of ${trusted}`) || !issuer) return EXIT.fault
    const results = [
      passes('kind', faultOfKind(type, claims, issuer.tokens)),
      passes('claims', readClaims(claims, issuer, Date.now()).fault?.cause),
    ]
    if (results.includes(false)) return EXIT.fault
    await issuer.keys.refresh()
    const verifier = new TokenVerifier({ issuers, revocations: NONE_REVOKED, clock: Date.now })
    const { fault, principal } = await verifier.verify(text, { address: '', closed: false })
    if (!passes('signature', fault?.cause) || principal === undefined) return EXIT.fault
    printPrincipal(principal)
    return EXIT.good
  },
}

/** True for an issuer that the gateway would ask about the token, on a row that trusts this one. */
function isAsked(issuer: TrustedIssuer, text: string, issuers: readonly TrustedIssuer[]): boolean {
  if (issuer.introspection === undefined) return false
  const named = issuerNamed(text)
  if (named === issuer.issuer) return issuer.introspection.for === 'all'
  return issuers.every((one) => one.issuer !== named)
}

/** Asks each issuer, because the row of a request decides which one the gateway asks. */
async function askAbout(text: string, asked: readonly TrustedIssuer[]): Promise<number> {
  for (const { issuer, introspector } of asked) {
    const verification = await introspector?.verify(text, { address: '', closed: false })
    if (!passes(`introspection by ${issuer}`, verification?.fault?.cause)) continue
    if (verification?.principal !== undefined) printPrincipal(verification.principal)
    return EXIT.good
  }
  return EXIT.fault
}

function printPrincipal(principal: Principal): void {
  const { subject = 'none', client = 'none', scope, acr = 'none', authenticatedAtMs } = principal
  const at = authenticatedAtMs && new Date(authenticatedAtMs).toISOString()
  print(`      user ${subject}, client ${client}, scopes ${scope || 'none'}`)
  print(`      acr ${acr}, auth_time ${at === undefined ? 'none' : `with the clock tolerance ${at}`}`)
}

function passes(check: string, cause: string | undefined): boolean {
  print(`${cause === undefined ? 'pass' : 'FAIL'}  ${cause === undefined ? check : `${check}: ${cause}`}`)
  return cause === undefined
}
