import assert from 'node:assert/strict'
import {
  closeSync,
  fstatSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import fc from 'fast-check'
import { AppendLog } from './append-log.ts'

const home = mkdtempSync(join(tmpdir(), 'append-log-'))
process.on('exit', () => rmSync(home, { recursive: true }))
let files = 0

function newFile(): { file: string; fd: number } {
  const file = join(home, `${++files}`)
  return { file, fd: openSync(file, 'ax') }
}

const RETRY_MS = 250

/** A log on a disk that takes `room.bytes` more and then fails as a full disk does. */
function fillingLog(room: { bytes: number }): { log: AppendLog; failures: unknown[] } {
  const failures: unknown[] = []
  const full = openSync('/dev/full', 'w')
  after(() => closeSync(full))
  const write = (fd: number, bytes: string | Uint8Array): number => {
    if (room.bytes === 0) return writeSync(full, 'x')
    const part = Buffer.from(bytes).subarray(0, room.bytes)
    room.bytes -= part.length
    return writeSync(fd, part)
  }
  const log = new AppendLog({ write, retryMs: RETRY_MS, onFault: (error) => failures.push(error) })
  return { log, failures }
}

describe('an append log', () => {
  test('hands every line to the operating system before put returns', () => {
    const { file, fd } = newFile()
    const log = new AppendLog({ retryMs: RETRY_MS, onFault: (error) => assert.fail(String(error)) })
    log.moveTo(fd, 'header\n', 0)
    log.put('é\n', 0)
    assert.equal(readFileSync(file, 'utf8'), 'header\né\n')
    assert.deepEqual([log.sizeBytes, log.waitingBytes], [10, 0])
    log.close()
  })

  test('leaves no part of a line on a full disk, and goes on once there is room again', () => {
    const { file, fd } = newFile()
    const room = { bytes: 12 }
    const { log, failures } = fillingLog(room)
    log.moveTo(fd, 'header\n', 0)
    log.put('first é line\n', 0)
    assert.equal((failures[0] as NodeJS.ErrnoException).code, 'ENOSPC')
    log.put('second line\n', 1)
    assert.equal(readFileSync(file, 'utf8'), 'header\n')
    assert.equal(log.waitingBytes, 26)
    room.bytes = 100
    log.put('third line\n', 250)
    assert.equal(readFileSync(file, 'utf8'), 'header\nfirst é line\nsecond line\nthird line\n')
    assert.equal(log.waitingBytes, 0)
    log.close()
  })

  test('lets eight mebibytes wait, and counts further lines as lost', () => {
    const { log } = fillingLog({ bytes: 0 })
    log.moveTo(newFile().fd, '', 0)
    const line = `${'k'.repeat(1024 * 1024)}\n`
    for (let i = 0; i < 10; i++) log.put(line, 0)
    assert.equal(log.lostLines, 2)
    assert.ok(log.waitingBytes < 10 * 1024 * 1024)
    log.put('a\nb\n', 0)
    assert.equal(log.lostLines, 4)
    log.close()
  })

  test('counts what went out in bytes, not in characters', () => {
    const { file, fd } = newFile()
    const room = { bytes: 1000 }
    const { log } = fillingLog(room)
    log.moveTo(fd, '#\n', 0)
    room.bytes = 'é line\n'.length
    log.put('é line\n', 0)
    assert.equal(readFileSync(file, 'utf8'), '#\n')
    assert.equal(log.waitingBytes, 8)
    room.bytes = 1000
    log.put('next\n', 250)
    assert.equal(readFileSync(file, 'utf8'), '#\né line\nnext\n')
    log.close()
  })

  test('waits a quarter of a second between attempts on a disk that takes nothing', () => {
    const { fd } = newFile()
    const { log, failures } = fillingLog({ bytes: 0 })
    log.moveTo(fd, 'header\n', 0)
    for (const at of [0, 1, 249, 250, 251, 499, 500]) log.put('line\n', at)
    assert.equal(failures.length, 3)
    log.close()
  })

  test('continues in the next file with the lines that the full file did not take', () => {
    const [old, next] = [newFile(), newFile()]
    const room = { bytes: 10 }
    const { log } = fillingLog(room)
    log.moveTo(old.fd, 'one\n', 0)
    log.put('two\n', 0)
    log.put('three\n', 0)
    assert.equal(readFileSync(old.file, 'utf8'), 'one\ntwo\n')
    room.bytes = 100
    log.moveTo(next.fd, 'header\n', 1)
    assert.equal(readFileSync(next.file, 'utf8'), 'header\nthree\n')
    assert.throws(() => fstatSync(old.fd), /EBADF/)
    log.close()
  })

  test('begins a file with its own header alone, when a full disk did not take the header of the file before', () => {
    const [old, next] = [newFile(), newFile()]
    const room = { bytes: 0 }
    const { log } = fillingLog(room)
    log.moveTo(old.fd, 'old header\n', 0)
    log.put('line\n', 0)
    log.moveTo(next.fd, 'header\n', 0)
    assert.equal(log.waitingBytes, 12)
    room.bytes = 100
    log.flush(250)
    assert.equal(readFileSync(next.file, 'utf8'), 'header\nline\n')
    assert.equal(log.waitingBytes, 0)
    log.close()
  })

  test('keeps what is put before there is a file, and after the file was closed', () => {
    const { file, fd } = newFile()
    const log = new AppendLog({ retryMs: RETRY_MS, onFault: (error) => assert.fail(String(error)) })
    log.put('early\n', 0)
    log.flush(0)
    assert.equal(log.waitingBytes, 6)
    log.moveTo(fd, 'header\n', 0)
    log.close()
    log.put('late\n', 0)
    assert.equal(readFileSync(file, 'utf8'), 'header\nearly\n')
    assert.equal(log.waitingBytes, 5)
  })

  test('reports a disk that takes no byte, and one that fails on closing', () => {
    const failures: unknown[] = []
    const log = new AppendLog({
      write: () => 0,
      retryMs: RETRY_MS,
      onFault: (error) => failures.push(error),
    })
    log.moveTo(1_000_000, 'header\n', 0)
    assert.match(String(failures[0]), /took no byte/)
    log.close()
    assert.match(String(failures[1]), /EBADF/)
  })

  test('ends a torn line that it could not cut off', () => {
    const { file, fd } = newFile()
    // This descriptor cannot truncate, like one of a file that only grows.
    const readOnly = openSync(file, 'r')
    const room = { bytes: 12 }
    const full = openSync('/dev/full', 'w')
    after(() => closeSync(full))
    const write = (_: number, bytes: string | Uint8Array): number => {
      if (room.bytes === 0) return writeSync(full, 'x')
      const part = Buffer.from(bytes).subarray(0, room.bytes)
      room.bytes -= part.length
      return writeSync(fd, part)
    }
    const log = new AppendLog({ write, retryMs: RETRY_MS, onFault: () => {} })
    log.moveTo(readOnly, 'header\n', 0)
    assert.equal(log.append('refused\n', 0), false)
    assert.deepEqual([log.isTorn, log.isFailing, log.isWritable], [true, true, false])
    // As much as a full disk may have left in the last block of a file.
    room.bytes = 50
    log.maintain(RETRY_MS)
    assert.deepEqual([log.isTorn, log.isFailing], [true, true])
    room.bytes = 10_000
    log.maintain(2 * RETRY_MS)
    assert.deepEqual([log.isTorn, log.isFailing, log.isWritable], [false, false, true])
    assert.equal(log.append('next\n', 2 * RETRY_MS), true)
    assert.equal(readFileSync(file, 'utf8').replaceAll(/\n+/g, '\n'), 'header\nrefus\nnext\n')
    log.close()
    closeSync(fd)
  })

  test('that has a path begins each new file with the header, and looks for a new file in each turn', async () => {
    const file = join(home, `${++files}`)
    const failures: unknown[] = []
    const log = new AppendLog({ file, header: '#\n', retryMs: 0, onFault: (error) => failures.push(error) })
    assert.equal(log.append('one\n', 0), true)
    renameSync(file, `${file}-old`)
    assert.equal(log.append('same turn\n', 0), true)
    await turn()
    assert.equal(log.put('two\n', 0), true)
    await turn()
    mkdirSync(`${file}-blocked`)
    renameSync(file, `${file}-newer`)
    renameSync(`${file}-blocked`, file)
    assert.equal(log.append('refused\n', 0), false)
    assert.equal(log.put('three\n', 0), false)
    assert.match(String(failures[1]), /EISDIR/)
    rmSync(file, { recursive: true })
    assert.equal(log.put('four\n', 0), true)
    await turn()
    assert.equal(readFileSync(`${file}-old`, 'utf8'), '#\none\nsame turn\n')
    assert.equal(readFileSync(`${file}-newer`, 'utf8'), '#\ntwo\n')
    assert.equal(readFileSync(file, 'utf8'), '#\nthree\nfour\n')
  })

  test('loses, repeats and reorders nothing on a disk that stops and goes on anywhere', () => {
    const step = fc.record({
      line: fc.string({ maxLength: 12 }),
      room: fc.integer({ min: 0, max: 20 }),
      swap: fc.boolean(),
    })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 30, size: 'max' }), (steps) => {
        const room = { bytes: 10 }
        const { log } = fillingLog(room)
        let current = newFile()
        const written: string[] = [current.file]
        log.moveTo(current.fd, '#\n', 0)
        let at = 0
        const lines = steps.map(({ line }, i) => `${i} ${JSON.stringify(line)}\n`)
        for (const [i, { room: bytes, swap }] of steps.entries()) {
          at += 1000
          room.bytes = bytes
          if (swap) {
            current = newFile()
            written.push(current.file)
            log.moveTo(current.fd, '#\n', at)
          }
          log.put(lines[i] ?? '', at)
        }
        room.bytes = 1_000_000
        log.flush(at)
        log.close()
        const whole = written.flatMap((file) => {
          const text = readFileSync(file, 'utf8')
          return text.slice(0, text.lastIndexOf('\n') + 1).match(/[^\n]*\n/g) ?? []
        })
        assert.deepEqual(
          whole.filter((line) => line !== '#\n'),
          lines,
        )
      }),
      { numRuns: 100 },
    )
  })
})
