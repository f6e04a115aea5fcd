import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { parseCheckpoint } from '../audit/seals/checkpoint.ts'
import { HASH_BYTES } from '../audit/seals/hashes.ts'
import { formatSignature, parseNote } from '../audit/seals/signed-note.ts'
import { checkpointFile, tilePath } from '../audit/seals/tiles.ts'
import { makeSealedLog, type SealedLog } from '../audit/witness/sealed-log.test-support.ts'
import {
  makeStampAuthority,
  type StampAuthority,
} from '../audit/witness/stamps/stamp-authority.test-support.ts'
import { keepStamp, stampsDirectory } from '../audit/witness/stamps/stamp-files.ts'
import { stampRequest } from '../audit/witness/stamps/stamp-rounds.ts'
import { startTestWitness, type TestWitness } from '../audit/witness/test-witness.test-support.ts'
import { skipWithout } from '../e2e/other-programs.ts'
import {
  AttestationFault,
  compareKept,
  type KeptCheckpoint,
  openStamps,
  openWitnessed,
  type ProvenLog,
  readAuthorities,
  trustedWitnesses,
} from './attested-checkpoints.ts'
import { ProvenTiles } from './verify/proven-tiles.ts'
import { trustedKey } from './verify/trusted-key.ts'

const home = mkdtempSync(join(tmpdir(), 'attested '))
const witnesses: TestWitness[] = []

function provenLog({ directory }: SealedLog): ProvenLog {
  const checkpoint = parseCheckpoint(parseNote(readFileSync(checkpointFile(directory))).text)
  const tiles = new ProvenTiles(directory, checkpoint)
  return { checkpoint, provenRootAt: (size) => tiles.provenRootAt(size) }
}

describe('a log that others attest', { skip: skipWithout('openssl') }, () => {
  const log = makeSealedLog(join(home, 'log'))
  const seen = join(home, 'seen.checkpoint')
  let authority: StampAuthority

  after(() => {
    for (const { server } of witnesses) server.close()
    rmSync(home, { recursive: true })
  })

  before(async () => {
    mkdirSync(join(home, 'authority'))
    authority = makeStampAuthority(join(home, 'authority'))
    for (const name of ['w.example/a', 'w.example/b', 'w.example/c']) {
      witnesses.push(await startTestWitness({ name, logs: [log.vkey] }))
    }
    log.grow(300)
    const bytes = readFileSync(checkpointFile(log.directory))
    const signed = await Promise.all(
      witnesses.slice(0, 2).map(async ({ url }) => {
        const body = `old 0\n\n${bytes}`
        return (await fetch(`${url}/add-checkpoint`, { method: 'POST', body })).text()
      }),
    )
    writeFileSync(seen, `${bytes}${signed.join('')}`)
    const response = await authority.respond(
      stampRequest(hash('sha256', bytes, 'buffer'), Buffer.of(7), undefined),
    )
    keepStamp(stampsDirectory(log.directory), 300, bytes, response)
  })

  const shown = (kept: KeptCheckpoint, against: ProvenLog) => {
    const compared = compareKept(kept, trustedKey(log.vkey), against)
    return 'what' in compared ? `${compared.what}: ${compared.text}` : compared.text
  }
  const keys = (...at: number[]) => at.map((index) => witnesses[index]?.vkey ?? '')

  it('continues the checkpoints that they have seen', () => {
    log.grow(500)
    const witnessed = openWitnessed(seen, trustedWitnesses(keys(0, 1, 2), 2))
    assert.match(witnessed.says, /^signed by w\.example\/a at 20\S+Z, w\.example\/b at 20\S+Z$/)
    const [stamped, ...more] = openStamps(stampsDirectory(log.directory), readAuthorities(authority.caFile))
    assert.match(stamped?.says ?? '', /^stamped at 20\S+Z$/)
    assert.deepEqual(more, [])
    for (const one of [witnessed, stamped]) {
      assert.match(shown(one as KeptCheckpoint, provenLog(log)), /^300 lines (signed by|stamped at) /)
    }
  })

  it('that was put back as a whole is named, although its own seals are in order', () => {
    const kept = openWitnessed(seen, trustedWitnesses(keys(0)))
    const cut = makeSealedLog(join(home, 'cut'), log.key)
    cut.grow(299)
    assert.match(
      shown(kept, provenLog(cut)),
      /^rolled back: .*, signed by w\.example\/a at \S+, is over 300 lines, and the log has 299$/,
    )
    const rewritten = makeSealedLog(join(home, 'rewritten'), log.key)
    rewritten.grow(299)
    rewritten.grow(400, 'other')
    assert.match(
      shown(kept, provenLog(rewritten)),
      /^rolled back: the log does not continue .* written anew with the same key$/,
    )
    assert.match(
      shown(kept, { ...provenLog(log), provenRootAt: () => undefined }),
      /older than what is left of the log$/,
    )
    const other = makeSealedLog(join(home, 'other'))
    other.grow(300)
    assert.match(
      shown(kept, provenLog(other)),
      /^checkpoint: the log is countersign\/\w+, and .* is of countersign\//,
    )
    assert.match(
      shown({ ...kept, bytes: Buffer.from('x') }, provenLog(log)),
      /^checkpoint: .*seen.checkpoint is no signed note$/,
    )
  })

  it('that was written anew with the key is named although the old hashes were left in a tile', () => {
    const kept = openWitnessed(seen, trustedWitnesses(keys(0)))
    const path = tilePath(0, 1)
    const full = (text: string) => {
      const made = makeSealedLog(join(home, `left ${text}`), log.key)
      made.grow(256)
      made.grow(744, text)
      return made
    }
    const honest = full('line')
    assert.match(shown(kept, provenLog(honest)), /^300 lines signed by /)
    const forged = full('other')
    const hashes = readFileSync(join(forged.directory, path))
    readFileSync(join(honest.directory, path)).copy(hashes, 0, 0, 44 * HASH_BYTES)
    writeFileSync(join(forged.directory, path), hashes)
    assert.match(
      shown(kept, provenLog(forged)),
      /^rolled back: nothing proves that the log continues .*, signed by .*: tiles under that checkpoint are not/,
    )
    rmSync(join(forged.directory, path))
    assert.match(shown(kept, provenLog(forged)), /older than what is left of the log$/)
  })

  it('is attested only by witnesses that the auditor trusts', () => {
    assert.throws(
      () => openWitnessed(seen, trustedWitnesses(keys(0, 2))),
      /signed by 1 of the 2 witnesses that must sign it: w.example\/a at/,
    )
    assert.throws(() => openWitnessed(seen, trustedWitnesses(keys(2))), AttestationFault)
    assert.throws(() => trustedWitnesses([log.vkey]), /must be the key of a witness/)
    assert.throws(() => trustedWitnesses(keys(0, 0)), /would count twice/)
    assert.throws(() => trustedWitnesses(keys(0), 2), /the quorum must be 1 to 1/)
    const { text, signatures } = parseNote(readFileSync(seen))
    const changed = join(home, 'changed.checkpoint')
    writeFileSync(
      changed,
      `${text.replace('\n300\n', '\n301\n')}\n${signatures.map(formatSignature).join('')}`,
    )
    assert.throws(() => openWitnessed(changed, trustedWitnesses(keys(0))), /wrong signature of w.example\/a/)
  })

  it('has only the time that a witness has signed, whatever lines others add in the name of the witness', () => {
    const trusted = trustedWitnesses(keys(0, 1))
    const { says } = openWitnessed(seen, trusted)
    const bytes = readFileSync(seen, 'utf8')
    const { signatures } = parseNote(Buffer.from(bytes))
    const { name, keyId } = signatures.at(-1) ?? assert.fail()
    const copy = join(home, 'added.checkpoint')
    const year = Buffer.alloc(72)
    year.writeBigUInt64BE(1_000_000_000n)
    for (const signature of [year, Buffer.alloc(72, 0xff), Buffer.of(1)]) {
      writeFileSync(copy, bytes + formatSignature({ name, keyId, signature }))
      assert.equal(openWitnessed(copy, trusted).says, says)
    }
    assert.throws(() => openWitnessed(home, trusted), /is no regular file/)
  })

  it('is not attested by a stamp of another checkpoint or another authority', () => {
    const directory = join(home, 'stamps')
    cpSync(stampsDirectory(log.directory), directory, { recursive: true })
    const authorities = readAuthorities(authority.caFile)
    assert.equal(openStamps(directory, authorities).length, 1)
    writeFileSync(join(directory, '300.checkpoint'), readFileSync(checkpointFile(log.directory)))
    assert.throws(
      () => openStamps(directory, authorities),
      /300.checkpoint the time stamp is for another hash/,
    )
    assert.throws(() => openStamps(stampsDirectory(log.directory), []), /no trusted authority/)
  })
})
