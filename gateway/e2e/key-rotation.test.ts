import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { Agent } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { decodeJwt, decodeProtectedHeader } from 'jose'
import { run } from './child-process.ts'
import { call, type ReceivedResponse } from './client.ts'
import { until } from './running-gateway.ts'
import { startService, type TestService } from './running-service.ts'
import { SteppedClock } from './time-lapse.ts'

/** A token lives ten minutes, and a key is published ten minutes ahead. Both pass in seven seconds or more. */
const FACTOR = 90
const CLIENTS = 4
/**
 * A token is used until this time before it expires. During a response, 130 calls of other apps may pass, which move
 * the date nearly as far.
 */
const MARGIN_SECONDS = 120
/** The pause between the calls of an app. Each call moves the date by its share of the pause. */
const PAUSE_MS = 40
const CALL_LASTS_MS = (PAUSE_MS * FACTOR) / CLIENTS
/** The pause between two looks at the published keys. */
const LOOK_MS = 50
/** An app gets a new token this long before the old one expires. */
const REFRESH_SECONDS = 480

interface Session {
  readonly accessToken: string
  readonly refreshToken: string
}

/** The schedule is as in production, but time runs faster for both programs. */
describe('a rotation of the signing keys under load', () => {
  const dir = mkdtempSync(join(tmpdir(), 'countersign-rotation-'))
  const clock = new SteppedClock(join(dir, 'clock'), Date.now())
  let service: TestService
  before(async () => {
    service = await startService({
      // Limits count in real time, and these apps refresh 90 times as often as usual.
      limits: 'unlimited',
      env: {
        TIME_LAPSE: String(FACTOR),
        ...clock.env,
        NODE_OPTIONS: `--import ${new URL('time-lapse.ts', import.meta.url).href}`,
      },
    })
  })
  after(async () => {
    await service.end()
    rmSync(dir, { recursive: true })
  })

  const kidOf = (token: string) => String(decodeProtectedHeader(token).kid)
  const usableSeconds = (token: string) => Number(decodeJwt(token).exp) - clock.nowMs / 1000
  const post = async (path: string, body: object) => {
    const response = await call(service.url + path, { method: 'POST', body })
    assert.equal(response.status, 200, response.body)
    return response.json<Session>()
  }
  const publishedKids = async () =>
    (await call(`${service.url}/.well-known/jwks.json`))
      .json<{ keys: { kid: string }[] }>()
      .keys.map(({ kid }) => kid)

  /** Numbers of accepted requests, by key. */
  const accepted = new Map<string, number>()
  const others: string[] = []
  let newestKid = ''
  let oldAfterNew = 0
  let over = false

  function note(response: ReceivedResponse, token: string): void {
    const kid = kidOf(token)
    if (response.status !== 200) {
      // A token that is still good now was also good when the gateway verified it.
      if (response.status !== 401 || usableSeconds(token) > 0)
        others.push(`${response.status} with ${usableSeconds(token)} s to go, ${response.body}`)
      return
    }
    accepted.set(kid, (accepted.get(kid) ?? 0) + 1)
    if (kid !== newestKid) oldAfterNew++
  }

  /** An app that calls all the time, refreshes early, and uses each token until shortly before its end. */
  async function callOn(email: string): Promise<void> {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    let session = await post('/api/login', { email, password: 'demo-password' })
    let tokens = [session.accessToken]
    while (!over) {
      tokens = tokens.filter((token) => usableSeconds(token) > MARGIN_SECONDS)
      const newest = session.accessToken
      if (usableSeconds(newest) < REFRESH_SECONDS) {
        session = await post('/api/session/refresh', { refreshToken: session.refreshToken })
        tokens.push(session.accessToken)
        newestKid = kidOf(session.accessToken)
      }
      for (const token of tokens) {
        // The token may have aged during the calls before.
        if (usableSeconds(token) <= MARGIN_SECONDS) continue
        const headers = { authorization: `Bearer ${token}` }
        note(await call(`${service.url}/api/data`, { agent, headers }), token)
        await pause(PAUSE_MS)
        clock.advance(CALL_LASTS_MS)
      }
    }
    agent.destroy()
  }

  it('by command makes no good token fail, uses the new key once it is known, and drops the old one', async (test) => {
    const [oldKid = ''] = await publishedKids()
    newestKid = oldKid
    const emails = ['alice@example.com', 'bob@example.com', 'operator@example.com', 'alice@example.com']
    const load = Promise.all(emails.slice(0, CLIENTS).map(callOn))
    const meanwhile = <T>(look: () => T | undefined | Promise<T | undefined>) =>
      Promise.race([until(look), load.then(() => assert.fail('the load is over'))])
    await meanwhile(() => ((accepted.get(oldKid) ?? 0) > 100 ? true : undefined))
    const command = run('backend/identity/rotate-keys.ts', { BACKEND_DATA_DIR: service.backendDir })
    assert.equal(await command.ended, 0, command.plain())
    assert.match(command.plain(), /taken it up/)

    const both = await meanwhile(async () => {
      const kids = await publishedKids()
      if (kids.length === 2) return kids
      await pause(LOOK_MS)
      return undefined
    })
    assert.equal(both[0], oldKid, 'the new key is published ahead, and the old one still signs')
    const newKid = both[1] as string
    assert.equal(accepted.has(newKid), false)
    await meanwhile(() => ((accepted.get(newKid) ?? 0) > 0 ? true : undefined))
    await meanwhile(async () => {
      if (!(await publishedKids()).includes(oldKid)) return true
      await pause(LOOK_MS)
      return undefined
    })
    const whenDropped = accepted.get(newKid) as number
    // The load goes on for a while with the new key alone.
    await meanwhile(() => ((accepted.get(newKid) ?? 0) > whenDropped + 100 ? true : undefined))
    over = true
    await load

    assert.deepEqual(await publishedKids(), [newKid])
    assert.deepEqual(others, [])
    assert.ok(oldAfterNew > 10, `${oldAfterNew} of them after the new key had begun to sign`)
    test.diagnostic(
      `accepted: ${accepted.get(oldKid)} old, ${accepted.get(newKid)} new, ${oldAfterNew} old after new`,
    )
  })
})
