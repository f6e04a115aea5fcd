import type { IssuerSettings, Settings } from '../config/settings.ts'
import type { ClaimRules } from './claims.ts'
import { KeySet } from './jwks.ts'
import type { Algorithm } from './verification-key.ts'

/** An issuer whose tokens are accepted, with the keys that verify its tokens and no one else's. */
export interface TrustedIssuer extends ClaimRules {
  readonly algorithms: ReadonlySet<Algorithm>
  readonly keys: KeySet
}

export interface TrustOptions {
  /** Epoch milliseconds. */
  readonly clock: () => number
  /** Told what is wrong with an issuer's keys; once for as long as it stays wrong. */
  readonly onFault: (uri: string, cause: string) => void
}

/** The issuers that the settings trust, our own one first, each with its keys still to be loaded. */
export function trustedIssuers(
  settings: IssuerSettings & Pick<Settings, 'issuers'>,
  options: TrustOptions,
): readonly TrustedIssuer[] {
  return [settings, ...settings.issuers].map((issuer, index) => trust(issuer, index === 0, options))
}

function trust(
  { issuer, audience, jwksUri: uri, algorithms, profile }: IssuerSettings,
  own: boolean,
  { clock, onFault }: TrustOptions,
): TrustedIssuer {
  return {
    issuer,
    audience,
    own,
    boundOnly: profile === 'fapi',
    algorithms: new Set(algorithms),
    keys: new KeySet({ uri, clock, onFault: (cause) => onFault(uri, cause) }),
  }
}

/** The keys of all of them, to be loaded from the start to the stop of the gateway. */
export function keysOf(issuers: readonly TrustedIssuer[]): Pick<KeySet, 'start' | 'stop'> {
  return {
    start: () => issuers.forEach(({ keys }) => void keys.start()),
    stop: () => issuers.forEach(({ keys }) => void keys.stop()),
  }
}
