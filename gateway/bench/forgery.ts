import { readFileSync } from 'node:fs'
import type { Tokens } from './bench-tokens.ts'
import type { ScenarioRequest } from './scenarios.ts'

/** Whether a token whose signature is another's gets 401. Who does not look is not measured with those who do. */
export async function refusesForgery(
  port: number,
  { method, path, body, algorithm }: ScenarioRequest,
  tokens: Tokens,
): Promise<boolean> {
  const [one = '', other = ''] = readFileSync(tokens.files[algorithm], 'latin1').split('\n', 2)
  const forged = one.slice(0, one.lastIndexOf('.')) + other.slice(other.lastIndexOf('.'))
  const answer = await fetch(`http://127.0.0.1:${port}${path}`, {
    method,
    headers: { authorization: `Bearer ${forged}`, 'content-type': 'application/json' },
    ...(method === 'POST' ? { body } : {}),
  })
  await answer.arrayBuffer()
  return answer.status === 401
}
