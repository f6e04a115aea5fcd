import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync } from 'node:fs'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import type { Durability } from '../config/settings.ts'
import { PowerDisk } from './commit/power.test-support.ts'
import { type Chance, survivors, writeSurvivors } from './commit/survivors.test-support.ts'
import { sealProgress } from './seals/seal-progress.ts'
import { checkSeal, newSealKey, sealsFor } from './seals/sealed-trail.test-support.ts'
import { Sealer } from './seals/sealer.ts'
import { endOf, requestLine, temporaryDirectory, trailIn } from './trail.test-support.ts'

/**
 * A trail with a sealer, on a disk whose power can be cut. Each time the sealer reads its clock, the clock moves by a
 * second; `pass` moves it further.
 */
export function sealedDisk(t: TestContext, onFault: (message: string) => void = assert.fail) {
  const home = temporaryDirectory(t)
  const directory = join(home, 'data')
  mkdirSync(directory)
  const key = newSealKey(home)
  const seals: number[] = []
  const disk = new PowerDisk(t, directory, () => seals.at(-1) ?? 0)
  const startIn = (where: string, durability: Durability) => {
    const { trail, file } = trailIn(where, { durability })
    let nowMs = 0
    const progress = sealProgress()
    const sealer = new Sealer({
      file,
      directory: join(where, 'audit-log'),
      key,
      progress,
      now: () => (nowMs += 1000),
      onSealed: ({ size }) => seals.push(size),
      onGap: () => assert.fail(),
      onReadBack: () => {},
      onFault,
    })
    trail.sealWith(sealsFor(sealer, trail, () => nowMs, progress))
    t.after(() => sealer.close())
    const write = async (...ids: string[]) => {
      await Promise.all(ids.map((id) => endOf(trail.append(requestLine(id)))))
    }
    const seal = async () => {
      while (await sealer.poll());
    }
    const pass = (ms: number) => {
      nowMs += ms
    }
    return { file, trail, sealer, write, seal, pass, directory: where, log: join(where, 'audit-log') }
  }
  /** Copies what a power cut leaves into a directory. @param at index of its moment, by default the last */
  const cut = (chance: Chance = () => 0, at = -1) => {
    disk.putBack()
    const moment = disk.moments.at(at) ?? assert.fail()
    const image = mkdtempSync(join(home, 'image-'))
    const left = survivors(moment, chance).map((file) => {
      const durable = moment.files.get(file.inode)?.durable ?? Buffer.of()
      // Bytes of the trail that are not synced are left out.
      return file.path.startsWith('audit.ndjson') ? { ...file, bytes: durable } : file
    })
    writeSurvivors(image, left, disk.inodes)
    return { image, seen: moment.seen }
  }
  return {
    key,
    disk,
    seals,
    cut,
    start: (durability: Durability = 'written') => startIn(directory, durability),
    startIn: (where: string) => startIn(where, 'written'),
    /** Sealed leaves after a power cut that leaves only what it must. */
    sizeAfterCut: async () => (await checkSeal(join(cut().image, 'audit.ndjson'), key)).checkpoint.size,
    /** @param which of the next syncs fail */
    fail: (...which: boolean[]) => {
      disk.nextSync = () => ({ turns: 0, fails: which.shift() ?? false })
    },
  }
}
