import type { PathLeniency } from '../../edge/rules/policy/path-readings.ts'
import { readTarget } from '../../edge/rules/request-target.ts'

/** An absolute URL without query and fragment, normalised: two that are equal name the same resource. */
export interface Htu {
  /** Scheme and authority in lower case, without the scheme's default port. */
  readonly origin: string
  /** In the form of a normalised request target. */
  readonly path: string
}

const ORIGIN = /^(https?):\/\/([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{0,5}))?(?:[/?#]|$)/i
const DEFAULT_PORTS: ReadonlyMap<string, string> = new Map([
  ['http', '80'],
  ['https', '443'],
])

/**
 * Reads the claim `htu` (RFC 9449 section 4.2) as section 4.3 compares it: without query and fragment, after the
 * normalisation of RFC 3986 sections 6.2.2 and 6.2.3. Its path is parsed like a request target, so that both sides of the
 * comparison agree.
 *
 * @param leniency what a route may let through in a path
 * @returns undefined unless it is an http or https URL without a user, with a path that a request may have
 */
export function readHtu(htu: string, leniency?: PathLeniency): Htu | undefined {
  const [, scheme = '', host = '', port = ''] = ORIGIN.exec(htu) ?? []
  if (scheme === '') return undefined
  const end = htu.search(/[?#]/)
  const target = readTarget(end === -1 ? htu : htu.slice(0, end), leniency)
  if (typeof target === 'string') return undefined
  const lower = scheme.toLowerCase()
  const suffix = port === '' || Number(port) === Number(DEFAULT_PORTS.get(lower)) ? '' : `:${Number(port)}`
  return { origin: `${lower}://${host.toLowerCase()}${suffix}`, path: target.path }
}
