import assert from 'node:assert/strict'
import { closeSync, fstatSync, mkdtempSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import fc from 'fast-check'
import { Tail } from './journal-tail.ts'

const home = mkdtempSync(join(tmpdir(), 'tail-'))
after(() => rmSync(home, { recursive: true }))
let files = 0

function newFile(): { file: string; fd: number } {
  const file = join(home, `${++files}`)
  return { file, fd: openSync(file, 'ax') }
}

/** A tail on a disk that takes `room.bytes` more and then fails as a full disk does. */
function fillingTail(room: { bytes: number }): { tail: Tail; failures: unknown[] } {
  const failures: unknown[] = []
  const full = openSync('/dev/full', 'w')
  after(() => closeSync(full))
  const write = (fd: number, bytes: string | Uint8Array): number => {
    if (room.bytes === 0) return writeSync(full, 'x')
    const part = Buffer.from(bytes).subarray(0, room.bytes)
    room.bytes -= part.length
    return writeSync(fd, part)
  }
  return { tail: new Tail(write, (error) => failures.push(error)), failures }
}

describe('the tail of the journal', () => {
  test('hands every line to the operating system before put returns', () => {
    const { file, fd } = newFile()
    const tail = new Tail(
      (to, bytes) => writeSync(to, bytes as string),
      (error) => assert.fail(String(error)),
    )
    tail.swap(fd, 'header\n', 0)
    tail.put('é\n', 0)
    assert.equal(readFileSync(file, 'utf8'), 'header\né\n')
    assert.deepEqual([tail.sizeBytes, tail.waitingBytes], [10, 0])
    tail.close()
  })

  test('goes on at the very byte where a full disk stopped, once there is room again', () => {
    const { file, fd } = newFile()
    const room = { bytes: 12 }
    const { tail, failures } = fillingTail(room)
    tail.swap(fd, 'header\n', 0)
    tail.put('first é line\n', 0)
    assert.equal((failures[0] as NodeJS.ErrnoException).code, 'ENOSPC')
    tail.put('second line\n', 1)
    assert.equal(readFileSync(file, 'utf8'), 'header\nfirst')
    assert.equal(tail.waitingBytes, 26)
    room.bytes = 100
    tail.put('third line\n', 250)
    assert.equal(readFileSync(file, 'utf8'), 'header\nfirst é line\nsecond line\nthird line\n')
    assert.equal(tail.waitingBytes, 0)
    tail.close()
  })

  test('counts what went out in bytes, not in characters', () => {
    const { file, fd } = newFile()
    const room = { bytes: 1000 }
    const { tail } = fillingTail(room)
    tail.swap(fd, '#\n', 0)
    room.bytes = 'é line\n'.length
    tail.put('é line\n', 0)
    assert.equal(tail.waitingBytes, 8)
    room.bytes = 1000
    tail.put('next\n', 250)
    assert.equal(readFileSync(file, 'utf8'), '#\né line\nnext\n')
    tail.close()
  })

  test('waits a quarter of a second between attempts on a disk that takes nothing', () => {
    const { fd } = newFile()
    const { tail, failures } = fillingTail({ bytes: 0 })
    tail.swap(fd, 'header\n', 0)
    for (const at of [0, 1, 249, 250, 251, 499, 500]) tail.put('line\n', at)
    assert.equal(failures.length, 3)
    tail.close()
  })

  test('takes up a torn line whole in the next file', () => {
    const [old, next] = [newFile(), newFile()]
    const room = { bytes: 10 }
    const { tail } = fillingTail(room)
    tail.swap(old.fd, 'one\n', 0)
    tail.put('two\n', 0)
    tail.put('three\n', 0)
    assert.equal(readFileSync(old.file, 'utf8'), 'one\ntwo\nth')
    room.bytes = 100
    tail.swap(next.fd, 'header\n', 1)
    assert.equal(readFileSync(next.file, 'utf8'), 'header\nthree\n')
    assert.throws(() => fstatSync(old.fd), /EBADF/)
    tail.close()
  })

  test('keeps what is put before there is a file, and after it was closed', () => {
    const { file, fd } = newFile()
    const tail = new Tail(
      (to, bytes) => writeSync(to, bytes as string),
      (error) => assert.fail(String(error)),
    )
    tail.put('early\n', 0)
    tail.flush(0)
    assert.equal(tail.waitingBytes, 6)
    tail.swap(fd, 'header\n', 0)
    tail.close()
    tail.put('late\n', 0)
    assert.equal(readFileSync(file, 'utf8'), 'header\nearly\n')
    assert.equal(tail.waitingBytes, 5)
  })

  test('reports a disk that takes no byte, and one that fails on closing', () => {
    const failures: unknown[] = []
    const tail = new Tail(
      () => 0,
      (error) => failures.push(error),
    )
    tail.swap(1_000_000, 'header\n', 0)
    assert.match(String(failures[0]), /took no byte/)
    tail.close()
    assert.match(String(failures[1]), /EBADF/)
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
        const { tail } = fillingTail(room)
        let current = newFile()
        const written: string[] = [current.file]
        tail.swap(current.fd, '#\n', 0)
        let at = 0
        const lines = steps.map(({ line }, i) => `${i} ${JSON.stringify(line)}\n`)
        for (const [i, { room: bytes, swap }] of steps.entries()) {
          at += 1000
          room.bytes = bytes
          if (swap) {
            current = newFile()
            written.push(current.file)
            tail.swap(current.fd, '#\n', at)
          }
          tail.put(lines[i] ?? '', at)
        }
        room.bytes = 1_000_000
        tail.flush(at)
        tail.close()
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
