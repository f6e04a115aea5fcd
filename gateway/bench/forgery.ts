import { readFileSync } from 'node:fs'
import type { Tokens } from './bench-tokens.ts'
import type { ScenarioRequest } from './scenarios.ts'

/** Whether a token with the signature of another gets 401: contenders that do not check are not compared with those that do. */
export async function refusesForgery(
  port: number,
  { method, path, body, algorithm }: ScenarioRequest,
  tokens: Tokens,
): Promise<boolean> {
  const [one = '', other = ''] = readFileSync(tokens.files[algorithm], 'latin1').split('\n', 2)
  const forged = one.slice(0, one.lastIndexOf('.')) + other.slice(other.lastIndexOf('.'))
  const response = await fetch(`http://127.0.0.1:${port}${path}`, {
    method,
    headers: { authorization: `Bearer ${forged}`, 'content-type': 'application/json' },
    ...(method === 'POST' ? { body } : {}),
  })
  await response.arrayBuffer()
  return response.status === 401
}
