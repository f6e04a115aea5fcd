import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { type IncomingMessage, request as plainRequest } from 'node:http'
import { request as secureRequest } from 'node:https'
import type { Tokens } from './bench-tokens.ts'
import type { ScenarioRequest } from './scenarios.ts'

/** True when a token with another token's signature gets 401. */
export async function refusesForgery(
  port: number,
  { method, path, body, algorithm }: ScenarioRequest,
  tokens: Tokens,
  tls = false,
): Promise<boolean> {
  const [one = '', other = ''] = readFileSync(tokens.files[algorithm], 'latin1').split('\n', 2)
  const forged = one.slice(0, one.lastIndexOf('.')) + other.slice(other.lastIndexOf('.'))
  const headers = { authorization: `Bearer ${forged}`, 'content-type': 'application/json' }
  const options = { host: '127.0.0.1', port, path, method, headers, agent: false, rejectUnauthorized: false }
  const request = (tls ? secureRequest : plainRequest)(options).end(method === 'POST' ? body : undefined)
  // A contender that refuses a long body may close early.
  request.on('error', () => {})
  const [response] = (await once(request, 'response')) as [IncomingMessage]
  request.destroy()
  return response.statusCode === 401
}
