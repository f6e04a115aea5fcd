import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { createSender } from '../../outgoing/sender.ts'
import { cosignatureVerifier } from '../seals/cosignature.ts'
import { parseVerifierKey } from '../seals/signed-note.ts'
import type { Progress } from './paced-rounds.ts'
import { makeSealedLog, type SealedLog } from './sealed-log.test-support.ts'
import { type Lie, startTestWitness, type TestWitness } from './test-witness.test-support.ts'
import { WitnessClient } from './witness-client.ts'
import { WitnessRounds } from './witness-rounds.ts'
import { lastWitnessed, readWitnessed, WITNESSED_FILE } from './witnessed-checkpoint.ts'

const folder = mkdtempSync(join(tmpdir(), 'witnesses '))
const witnesses: TestWitness[] = []
process.on('exit', () => rmSync(folder, { recursive: true }))

function close({ server }: TestWitness): void {
  server.close()
  server.closeAllConnections()
}

/** For a busy machine. */
const LONG_MS = 60_000

let logs = 0
function newLog(): SealedLog {
  return makeSealedLog(join(folder, `log-${logs++}`))
}

async function start(log: SealedLog, name: string, rest: { lie?: Lie; keyType?: 'ml-dsa-44' } = {}) {
  const witness = await startTestWitness({ name, logs: [log.vkey], ...rest })
  witnesses.push(witness)
  return witness
}

interface Running {
  readonly rounds: WitnessRounds
  readonly faults: string[]
  /** Who has cosigned, in this order. */
  readonly signed: string[]
  readonly progress: () => Progress
  /** Resolves when the condition holds after a report. */
  until(condition: () => boolean): Promise<void>
}

function run(
  log: SealedLog,
  asked: readonly Pick<TestWitness, 'url' | 'vkey'>[],
  rest: {
    readonly quorum?: number
    readonly everyMs?: number
    /** What happens after the checkpoint was read, before a witness gets it. */
    readonly beforePost?: () => Promise<void>
  } = {},
): Running {
  const faults: string[] = []
  const signed: string[] = []
  let last: Progress | undefined
  const waiting = new Set<() => void>()
  const wake = () => {
    for (const look of waiting) look()
  }
  const rounds = new WitnessRounds({
    directory: log.directory,
    clients: asked.map(({ url, vkey }) => {
      const send = createSender({ url: `${url}/add-checkpoint`, timeoutMs: LONG_MS })
      return new WitnessClient(cosignatureVerifier(parseVerifierKey(vkey)), async (request) => {
        await rest.beforePost?.()
        return send(request)
      })
    }),
    quorum: { least: rest.quorum ?? asked.length, members: asked.map(({ vkey }) => vkey) },
    everyMs: rest.everyMs ?? 1,
    firstRetryMs: 1,
    reports: {
      progress: (progress) => {
        last = progress
        wake()
      },
      cosigned: (witness) => {
        signed.push(witness)
        wake()
      },
      fault: (witness, failure, cause) => {
        faults.push(`${witness} ${failure}: ${cause}`)
        wake()
      },
    },
  })
  return {
    rounds,
    faults,
    signed,
    progress: () => last as Progress,
    until: (condition) =>
      new Promise((resolve) => {
        const look = () => {
          if (!condition()) return
          waiting.delete(look)
          resolve()
        }
        waiting.add(look)
        look()
      }),
  }
}

function kept(log: SealedLog, asked: readonly TestWitness[]) {
  const keys = asked.map(({ vkey }) => cosignatureVerifier(parseVerifierKey(vkey)))
  const { checkpoint, signers } = readWitnessed(readFileSync(join(log.directory, WITNESSED_FILE)), keys)
  return { size: checkpoint.size, signers: signers.map(({ name }) => name) }
}

describe('a log with witnesses', () => {
  after(() => witnesses.forEach(close))

  it('has its last checkpoint signed at the end before the interval is over, and does not wait long for a witness that stalls', async () => {
    const log = newLog()
    const quick = await start(log, 'w.example/quick')
    const stalling = await start(log, 'w.example/stalling', { lie: () => 'stall' })
    const once = run(log, [quick, stalling], { quorum: 1, everyMs: 3_600_000 })
    once.rounds.sealed(log.grow(3))
    await once.until(() => once.progress().attested === 3)
    once.rounds.sealed(log.grow(4))
    // The earlier round still waits for the stalling witness, and so would this one.
    await once.rounds.finish(new AbortController().signal)
    assert.deepEqual(kept(log, [quick]), { size: 7, signers: ['w.example/quick'] })
    assert.deepEqual(once.faults, [])
    await once.rounds.finish(new AbortController().signal)
    assert.equal(quick.statuses.length, 2, 'nothing is new')

    const both = run(log, [quick, stalling], { quorum: 2, everyMs: 3_600_000 })
    both.rounds.sealed(log.grow(1))
    const bound = new AbortController()
    const finished = both.rounds.finish(bound.signal)
    await both.until(() => both.signed.includes('w.example/quick'))
    bound.abort(new DOMException('', 'TimeoutError'))
    await finished
    assert.deepEqual(both.faults, ['w.example/stalling unreachable: no response in time'])
    assert.equal(kept(log, [quick]).size, 7)
  })

  it('has checkpoints of any size cosigned by all, also of many tiles', async () => {
    const log = newLog()
    const asked = [await start(log, 'w.example/1'), await start(log, 'w.example/2', { keyType: 'ml-dsa-44' })]
    const { rounds, faults, progress, until } = run(log, asked)
    for (const leaves of [1, 2, 254, 256, 300, 70_000]) {
      const size = log.grow(leaves)
      rounds.sealed(size)
      await until(() => progress().attested === size)
      await until(() => asked.every(({ sizeOf }) => sizeOf(log.key.origin) === size))
    }
    assert.deepEqual(faults, [])
    assert.deepEqual(kept(log, asked), { size: 70_813, signers: ['w.example/1', 'w.example/2'] })
    assert.equal(progress().behindSinceMs, undefined)
    rounds.close()
  })

  it('goes on with a witness that knows it, and at the next start from what was kept', async () => {
    const log = newLog()
    const witness = await start(log, 'w.example/again')
    const first = run(log, [witness])
    first.rounds.sealed(log.grow(5))
    await first.until(() => first.progress().attested === 5)
    first.rounds.close()
    const second = run(log, [witness])
    second.rounds.sealed(5)
    assert.deepEqual(second.progress(), { sealed: 5, attested: 5, behindSinceMs: undefined })
    second.rounds.sealed(log.grow(5))
    await second.until(() => second.progress().attested === 10)
    assert.deepEqual(witness.statuses, [200, 409, 200])
    second.rounds.close()
  })

  it('needs only a quorum of them: one is away, one stalls', async () => {
    const log = newLog()
    const honest = [await start(log, 'w.example/a'), await start(log, 'w.example/b')]
    const away = await start(log, 'w.example/away')
    await new Promise((resolve) => away.server.close(resolve))
    const stalls = await start(log, 'w.example/stalls', { lie: () => 'stall' })
    const { rounds, progress, until, faults } = run(log, [away, stalls, ...honest], { quorum: 2 })
    rounds.sealed(log.grow(3))
    await until(() => progress().attested === 3)
    await until(() => faults.some((fault) => fault.startsWith('w.example/away unreachable: ')))
    assert.deepEqual(kept(log, [stalls, ...honest]), { size: 3, signers: ['w.example/a', 'w.example/b'] })
    const nobody = { least: 0, members: [] }
    assert.ok(lastWitnessed(log.directory, { verifiers: [], quorum: nobody }))
    const one = { least: 1, members: [honest[0]?.vkey ?? ''] }
    assert.equal(lastWitnessed(log.directory, { verifiers: [], quorum: one }), undefined)
    rounds.close()
  })

  it('causes no conflict when another process has had more of the same log signed, as during a restart', async () => {
    const log = newLog()
    const witness = await start(log, 'w.example/both')
    const next = run(log, [witness])
    let isNew = true
    const before = run(log, [witness], {
      beforePost: async () => {
        if (!isNew) return
        isNew = false
        next.rounds.sealed(log.grow(7))
        await next.until(() => next.progress().attested === 10)
      },
    })
    before.rounds.sealed(log.grow(3))
    await before.until(() => before.signed.length > 0 || before.faults.length > 0)
    assert.deepEqual(before.faults, [])
    assert.deepEqual(next.faults, [])
    assert.deepEqual(witness.statuses.slice(0, 2), [200, 409])
    assert.deepEqual(kept(log, [witness]), { size: 10, signers: ['w.example/both'] })
    for (const { rounds } of [before, next]) rounds.close()
  })

  it('is told by an honest witness that it was put back or forked, and gets no signature', async () => {
    const log = newLog()
    const witness = await start(log, 'w.example/keeps')
    const before = run(log, [witness])
    before.rounds.sealed(log.grow(10))
    await before.until(() => before.progress().attested === 10)
    before.rounds.close()
    const fork = makeSealedLog(join(folder, 'fork'), log.key)
    const after = run(fork, [witness])
    after.rounds.sealed(fork.grow(9))
    await after.until(() => after.faults.length > 0)
    assert.match(
      after.faults[0] ?? '',
      /^w.example\/keeps conflict: has cosigned a tree of 10 leaves, .* has 9/,
    )
    after.rounds.sealed(fork.grow(1, 'other'))
    await after.until(() => after.faults.some((fault) => fault.endsWith('another tree of 10 leaves')))
    after.rounds.sealed(fork.grow(20, 'other'))
    await after.until(() => after.faults.some((fault) => fault.includes('does not go on from')))
    assert.equal(after.progress().attested, 0)
    assert.equal(witness.sizeOf(log.key.origin), 10)
    after.rounds.close()
  })
})

describe('a witness that lies', async () => {
  after(() => [other, ...witnesses].forEach(close))
  const other = await startTestWitness({ name: 'w.example/liar', logs: [] })
  let sizes = 0
  const of = (status: number, body: string) => () => ({ status, body })
  const cases: Record<string, readonly [Lie, RegExp]> = {
    'signs another text': [signedElsewhere, /invalid: the response has more than signatures/],
    'changes its signature': [
      (status, body) => ({ status, body: body.replace(/.{8}\n$/, 'AAAAAAA=\n') }),
      /invalid: the response has a wrong signature of w.example\/liar/,
    ],
    'signs with the key of another': [
      of(200, '— w.example/other AAAAAAAAAAAAAAAAAAAAAAAA\n'),
      /invalid: the response has no signature of its key/,
    ],
    'says nothing': [of(200, ''), /invalid: the response has a malformed signature line|is no signed note/],
    'sends too much': [
      of(200, 'x'.repeat(70_000)),
      /unreachable: the response with status 200 is longer than 65536 bytes/,
    ],
    'sends somewhere else': [of(307, ''), /refused: responds with status 307/],
    'names a size each time': [
      () => ({ status: 409, body: `${sizes++ % 3}\n` }),
      /invalid: refuses every tree size that it names/,
    ],
    'names a size that is none': [of(409, '1e3\n'), /invalid: the response does not give the size/],
    'does not know the log': [of(404, ''), /refused: does not know the origin of the log/],
  }
  for (const [what, [lie, expected]] of Object.entries(cases)) {
    it(`that ${what} is not counted`, async () => {
      const log = newLog()
      const witness = await start(log, 'w.example/liar', { lie })
      const { rounds, faults, progress, until } = run(log, [witness], { everyMs: 60_000 })
      rounds.sealed(log.grow(3))
      await until(() => faults.length > 0)
      rounds.close()
      assert.match(faults[0] ?? '', expected)
      assert.equal(progress().attested, 0)
      assert.ok((progress().behindSinceMs ?? 0) > 0)
    })
  }
})

/** An empty line stands before the signature, so that a careless reader takes more for signed. */
function signedElsewhere(status: number, body: string) {
  return { status, body: `— w.example/x AAAAAAAA\n\n${body}` }
}
