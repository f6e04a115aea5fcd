import { Gauge, type Registry } from 'prom-client'

/** How long certificates, revocation lists and keys are still good. */
export function expiryMetrics(registers: Registry[]) {
  // No sample without an HTTPS listener or client certificates: 0 would mean expired in 1970.
  let certificate: Gauge | undefined
  let trust: Gauge<'what'> | undefined
  return {
    /** Epoch seconds at which the listener's certificate expires. */
    certificateExpiry: (notAfterSeconds: number) => {
      certificate ??= new Gauge({
        name: 'gateway_tls_certificate_expiry_timestamp_seconds',
        help: 'When the certificate of the HTTPS listener expires, in seconds since the epoch.',
        registers,
      })
      certificate.set(notAfterSeconds)
    },
    /** Epoch milliseconds at which client authorities and revocation lists expire; Infinity: never. */
    clientTrustExpiry: (goodUntilMs: Readonly<Record<'authorities' | 'lists', number>>) => {
      trust ??= new Gauge({
        name: 'gateway_tls_client_trust_expiry_timestamp_seconds',
        help: 'When the first client authority, or the newest revocation list of one, expires: its clients are refused then.',
        labelNames: ['what'],
        registers,
      })
      for (const [what, ms] of Object.entries(goodUntilMs)) trust.set({ what }, ms / 1000)
    },
    /** Exposes how many milliseconds old the keys of the issuers in force are. Called once. */
    issuerKeys: (ages: () => readonly (readonly [issuer: string, ageMs: number])[]) => {
      new Gauge({
        name: 'gateway_issuer_keys_age_seconds',
        help: "Time since the issuer's keys were last fetched, or since the start; they are fetched every 5 minutes.",
        labelNames: ['issuer'],
        registers,
        collect() {
          this.reset()
          for (const [issuer, ageMs] of ages()) this.set({ issuer }, ageMs / 1000)
        },
      })
    },
  }
}
