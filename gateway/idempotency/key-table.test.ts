import assert from 'node:assert/strict'
import fs, {
  appendFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import { describe, it, type TestContext } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import fc from 'fast-check'
import type { Write } from '../storage/append-log.ts'
import { findKeys } from './find-key.ts'
import { type KeySecret, secretsOf } from './key-secret.ts'
import {
  NOW_MS,
  openTable,
  RESPONSE,
  request,
  SECRETS,
  temporaryDirectory,
} from './key-table.test-support.ts'
import { type Begun, callerOf, type Finish, type HeldKey } from './key-table.ts'

const MINUTE_MS = 60_000
const none = () => {}
const realWrite = writeSync as Write
const fullDisk = () => {
  throw Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' })
}

/** A disk that takes a part of each line while `tears`. */
function tearing(disk: { readonly tears: boolean }): Write {
  return (fd, bytes) => {
    if (!disk.tears) return realWrite(fd, bytes)
    if (Buffer.byteLength(bytes) < 100) return fullDisk()
    return realWrite(fd, Buffer.from(bytes).subarray(0, 50)) + (Buffer.byteLength(bytes) - 99)
  }
}

/** A table that is syncing the beginning of a key. `endSync` ends the sync and makes the key free. */
function slowTable(directory: string) {
  let synced: (error: null) => void = none
  const sync = ((_fd: number, done: (error: null) => void) => {
    synced = done
  }) as never
  const { table } = openTable(directory, { sync, syncs: true })
  table.begin(request('slow'), (begun) => {
    if (begun.outcome === 'begun') table.finish(begun.held, 'free', none)
  })
  table.flush()
  return { table, endSync: () => synced(null) }
}

describe('a key', () => {
  it('begins once, and is in progress until it is finished', (t) => {
    const { outcome } = openTable(temporaryDirectory(t))
    assert.deepEqual([outcome('a'), outcome('a'), outcome('b')], ['begun', 'in_progress', 'begun'])
  })

  it('gives the whole response, with the id of the first request, once it is done', (t) => {
    const { finish, begin, held } = openTable(temporaryDirectory(t))
    finish(held('a'), RESPONSE, none)
    assert.deepEqual(begin('a', { requestId: 'another' }), {
      outcome: 'done',
      requestId: 'id-of-a',
      response: RESPONSE,
    })
  })

  it('may be begun again when its request was not sent', (t) => {
    const { finish, outcome, held } = openTable(temporaryDirectory(t))
    finish(held('a'), 'free', none)
    assert.equal(outcome('a'), 'begun')
  })

  it('stays refused while its outcome is unknown, unless the service resolves it', (t) => {
    const { finish, outcome, held } = openTable(temporaryDirectory(t))
    finish(held('a'), 'unknown', none)
    assert.equal(outcome('a'), 'unknown')
    finish(held('a', { resolves: true }), RESPONSE, none)
    assert.equal(outcome('a'), 'done')
  })

  it('stays unknown when the service is asked again and has not carried out the second request', (t) => {
    const directory = temporaryDirectory(t)
    const { finish, outcome, held } = openTable(directory)
    finish(held('a'), 'unknown', none)
    finish(held('a', { resolves: true }), 'free', none)
    assert.equal(outcome('a', { content: ['POST /transfers', '{ }'], resolves: true }), 'reused')
    assert.equal(outcome('a'), 'unknown')
    assert.equal(openTable(directory).outcome('a'), 'unknown')
  })

  it('is kept without its response when responses have too many bytes', (t) => {
    const { finish, begin, held } = openTable(temporaryDirectory(t), { maxBytes: 200 })
    for (const key of ['a', 'b']) finish(held(key), RESPONSE, none)
    const second = begin('b')
    assert.deepEqual(second.outcome === 'done' && second.response, {
      status: 201,
      fields: '',
      body: undefined,
    })
  })

  it('belongs to a user, a client and a row', (t) => {
    const { outcome } = openTable(temporaryDirectory(t))
    outcome('a')
    for (const other of [
      { caller: callerOf('user-2', 'app-1') },
      { caller: callerOf('user-1', 'app-2') },
      { caller: callerOf('user-1app-1') },
      { row: '/refunds' },
    ])
      assert.equal(outcome('a', other), 'begun')
    assert.equal(outcome('a'), 'in_progress')
  })

  it('is refused with other content, whatever became of the first request', (t) => {
    const { finish, outcome, held } = openTable(temporaryDirectory(t))
    const other = { content: ['POST /transfers', '{ }'] }
    const first = held('a')
    assert.equal(outcome('a', other), 'reused')
    finish(first, RESPONSE, none)
    assert.equal(outcome('a', other), 'reused')
    finish(held('b'), 'unknown', none)
    assert.equal(outcome('b', { ...other, resolves: true }), 'reused')
  })

  it('is refused when the same content is divided otherwise', (t) => {
    const { outcome } = openTable(temporaryDirectory(t))
    outcome('a', { content: ['POST', '/a', 'b'] })
    assert.equal(outcome('a', { content: ['POST', '/ab', ''] }), 'reused')
  })

  it('is forgotten when it has been kept long enough, but not while it is in progress', (t) => {
    const { finish, time, outcome, held } = openTable(temporaryDirectory(t))
    const keepMs = MINUTE_MS
    finish(held('done', { keepMs }), RESPONSE, none)
    finish(held('unknown', { keepMs }), 'unknown', none)
    held('slow', { keepMs })
    time.nowMs += keepMs - 1
    assert.deepEqual(
      [outcome('done'), outcome('unknown'), outcome('slow')],
      ['done', 'unknown', 'in_progress'],
    )
    time.nowMs += 1
    assert.deepEqual(
      [outcome('done'), outcome('unknown'), outcome('slow')],
      ['begun', 'begun', 'in_progress'],
    )
  })

  it('is refused when its caller has as many keys as allowed, until some expire', (t) => {
    const { finish, time, outcome, held } = openTable(temporaryDirectory(t))
    const most = { maxKeys: 2, keepMs: MINUTE_MS }
    finish(held('a', most), RESPONSE, none)
    finish(held('b', most), RESPONSE, none)
    assert.equal(outcome('c', most), 'too_many')
    assert.equal(outcome('c', { ...most, row: '/refunds' }), 'too_many')
    assert.equal(outcome('c', { ...most, caller: callerOf('user-2', 'app-1') }), 'begun')
    assert.equal(outcome('a', most), 'done')
    time.nowMs += MINUTE_MS
    assert.equal(outcome('c', most), 'begun')
  })
})

describe('the files of keys', () => {
  it('have no name, key, response or request of a caller in clear', (t) => {
    const directory = temporaryDirectory(t)
    const { finish, held } = openTable(directory)
    held('payment-4712', { requestId: 'id-1' })
    finish(held('payment-4711', { requestId: 'id-2' }), RESPONSE, none)
    const text = readFileSync(join(directory, readdirSync(directory)[0] as string), 'latin1')
    for (const secret of ['payment-471', 'user-1', 'app-1', '/transfers', 'Location', '"id"', '201'])
      for (const form of [secret, Buffer.from(secret).toString('base64url').slice(0, -1)])
        assert.equal(text.includes(form), false, form)
  })

  it('are refused by a gateway that does not know their format', (t) => {
    const directory = temporaryDirectory(t)
    openTable(directory).table.close()
    const file = join(directory, readdirSync(directory)[0] as string)
    writeFileSync(file, readFileSync(file, 'utf8').replace('"version":1', '"version":2'))
    assert.throws(() => openTable(directory), /newer version/)
  })

  it('keep a key as unknown when its record is damaged', (t) => {
    const directory = temporaryDirectory(t)
    const first = openTable(directory)
    first.finish(first.held('a'), RESPONSE, none)
    first.table.close()
    const file = join(directory, readdirSync(directory)[0] as string)
    const text = readFileSync(file, 'latin1')
    const lastLine = text.lastIndexOf('\n', text.length - 2) + 1
    for (const [at, message] of [
      [text.length - 10, /a record is damaged/],
      [text.lastIndexOf('\n=') + 30, /a record is damaged/],
      [lastLine + 30, /1 line\(s\) are damaged/],
    ] as const) {
      writeFileSync(file, `${text.slice(0, at)}~${text.slice(at + 1)}`, 'latin1')
      const { table, outcome, faults } = openTable(directory)
      assert.equal(outcome('a'), 'unknown')
      assert.equal(outcome('a', { resolves: true }), 'unknown')
      assert.match(faults.join(), message)
      table.close()
    }
  })

  it('forget no key when a time in clear is damaged', (t) => {
    const directory = temporaryDirectory(t)
    const first = openTable(directory)
    for (const key of ['a', 'b']) first.finish(first.held(key), RESPONSE, none)
    first.table.close()
    const file = join(directory, readdirSync(directory)[0] as string)
    const text = readFileSync(file, 'latin1')
    const later = (at: number) => writeFileSync(file, `${text.slice(0, at)}9${text.slice(at + 1)}`, 'latin1')
    const time = String(Math.floor(NOW_MS))
    later(text.lastIndexOf(time))
    const { table, outcome } = openTable(directory)
    assert.deepEqual([outcome('a'), outcome('b')], ['done', 'unknown'])
    table.close()
    later(text.indexOf(time))
    assert.throws(() => openTable(directory), /first line is damaged/)
  })

  it('are read at the right places behind a torn line that could not be cut off', (t) => {
    const directory = temporaryDirectory(t)
    const disk = { tears: false }
    const write = tearing(disk)
    const { table, finish, time, begin, held, outcome } = openTable(directory, { write })
    const ftruncate = t.mock.method(fs, 'ftruncateSync', fullDisk)
    t.after(syncBuiltinESMExports)
    syncBuiltinESMExports()
    disk.tears = true
    assert.equal(outcome('torn'), 'unavailable')
    disk.tears = false
    time.nowMs += 1000
    table.maintain()
    finish(held('a'), RESPONSE, none)
    ftruncate.mock.restore()
    syncBuiltinESMExports()
    assert.deepEqual(begin('a'), { outcome: 'done', requestId: 'id-of-a', response: RESPONSE })
    table.close()
    assert.equal(openTable(directory).outcome('a'), 'done')
  })

  it('are read at the right places when a full disk did not take the beginning of a file', (t) => {
    const disk = { isFull: false }
    const write: Write = (fd, bytes) => (disk.isFull ? fullDisk() : realWrite(fd, bytes))
    const { table, finish, time, begin, held } = openTable(temporaryDirectory(t), { write })
    const a = held('a')
    disk.isFull = true
    table.rekey(secretsOf(['another secret of at least 32 chars.', 'a secret of at least 32 characters']))
    table.maintain()
    disk.isFull = false
    time.nowMs += 1000
    finish(a, RESPONSE, none)
    assert.deepEqual(begin('a'), { outcome: 'done', requestId: 'id-of-a', response: RESPONSE })
  })

  it('are read at the right places when the first line since `maintain` ends a torn line', (t) => {
    const disk = { tears: false }
    const write = tearing(disk)
    const { table, finish, time, begin, held, outcome } = openTable(temporaryDirectory(t), { write })
    const a = held('a')
    const ftruncate = t.mock.method(fs, 'ftruncateSync', fullDisk)
    t.after(syncBuiltinESMExports)
    syncBuiltinESMExports()
    disk.tears = true
    assert.equal(outcome('torn'), 'unavailable')
    table.maintain()
    disk.tears = false
    time.nowMs += 1000
    finish(a, RESPONSE, none)
    ftruncate.mock.restore()
    syncBuiltinESMExports()
    assert.deepEqual(begin('a'), { outcome: 'done', requestId: 'id-of-a', response: RESPONSE })
  })

  it('are read while the gateway writes them, however long they are and wherever their last line is torn', (t) => {
    const directory = temporaryDirectory(t)
    const { held, finish } = openTable(directory)
    const find = (key: string) => {
      const { caller, row } = request(key)
      const id = SECRETS[0].idOf(SECRETS[0].callerOf(caller), row, key)
      return findKeys(directory, new Set([id]), SECRETS).get(id)
    }
    const body = 'a'.repeat(65_536)
    for (let at = 0; at < 20; at++) finish(held(`long-${at}`), { ...RESPONSE, body }, none)
    held('a')
    const [file = ''] = readdirSync(directory).filter((name) => name.startsWith('keys-'))
    assert.ok(statSync(join(directory, file)).size > 1_048_576)
    assert.deepEqual([find('a')?.state, find('long-19')?.response?.body], ['begun', body])
    assert.equal(find('b'), undefined)
    const begun = readFileSync(join(directory, file), 'latin1').split('\n').at(-2) ?? ''
    appendFileSync(join(directory, file), begun.replace('begun', 'done').slice(0, -5))
    assert.equal(find('a')?.state, 'begun')
    appendFileSync(join(directory, file), '\n')
    assert.match(find('a')?.state ?? '', /^damaged, in .*keys-0000000001\.log$/)
  })

  it('make no key expire because of a wrong clock', (t) => {
    const directory = temporaryDirectory(t)
    const first = openTable(directory, {}, { nowMs: NOW_MS + 365 * 86_400_000 })
    first.finish(first.held('of a clock ahead'), RESPONSE, none)
    first.table.close()
    const second = openTable(directory)
    second.finish(second.held('of the right clock'), RESPONSE, none)
    second.time.nowMs += MINUTE_MS
    second.finish(second.held('later'), RESPONSE, none)
    second.table.close()
    const third = openTable(directory, {}, { nowMs: NOW_MS + 3 * 365 * 86_400_000 })
    for (const key of ['of a clock ahead', 'of the right clock', 'later'])
      assert.equal(third.outcome(key), 'done')
    third.time.nowMs += 86_400_000 - MINUTE_MS
    assert.equal(third.outcome('of a clock ahead'), 'begun')
    assert.equal(third.outcome('of the right clock'), 'begun')
    assert.equal(third.outcome('later'), 'done')
  })

  it('are removed when nothing in them is kept any more, and rewritten when too little is', {
    timeout: 60_000,
  }, async (t) => {
    const directory = temporaryDirectory(t)
    const { table, finish, time, outcome, held } = openTable(directory, { segmentBytes: 4096 })
    finish(held('kept'), RESPONSE, none)
    finish(held('unknown'), 'unknown', none)
    const slow = held('slow')
    for (let i = 0; i < 200; i++) {
      finish(held(`${i}`, { keepMs: MINUTE_MS, maxKeys: 1000 }), RESPONSE, none)
      table.maintain()
    }
    const before = readdirSync(directory).length
    assert.ok(before > 10, `${before}`)
    time.nowMs += MINUTE_MS
    // Each removal waits for a sync, which takes long on a busy disk.
    while (readdirSync(directory).length > 4) {
      table.maintain()
      await turn()
    }
    assert.deepEqual(
      [outcome('kept'), outcome('unknown'), outcome('slow')],
      ['done', 'unknown', 'in_progress'],
    )
    finish(slow, RESPONSE, none)
    table.close()
    const again = openTable(directory, {}, time)
    for (const [key, state] of [
      ['kept', 'done'],
      ['unknown', 'unknown'],
      ['slow', 'done'],
    ] as const)
      assert.equal(again.outcome(key), state)
    assert.equal(again.outcome('7'), 'begun')
  })
})

describe('keys whose secret is changed', () => {
  const [OLD] = SECRETS
  const LINES = ['a secret of at least 32 characters', 'another secret of 32 characters or more']
  const [, NEW] = secretsOf(LINES) as [KeySecret, KeySecret]
  const OTHER = { content: ['POST /transfers', '{ }'] }

  for (const isLive of [true, false])
    it(`are found by the old secret, and new keys begin under the new secret, ${isLive ? 'at once' : 'at the next start'}`, (t) => {
      const directory = temporaryDirectory(t)
      const first = openTable(directory)
      first.finish(first.held('done'), RESPONSE, none)
      first.finish(first.held('unknown'), 'unknown', none)
      const slow = first.held('slow')
      if (isLive) first.table.rekey([NEW, OLD])
      else first.table.close()
      const second = isLive ? first : openTable(directory, { secrets: [NEW, OLD] })
      const keys = ['done', 'unknown', 'slow']
      const told = () => keys.map((key) => second.outcome(key))
      assert.deepEqual(told(), ['done', 'unknown', isLive ? 'in_progress' : 'unknown'])
      for (const key of keys) assert.equal(second.outcome(key, OTHER), 'reused')
      assert.equal(second.outcome('next', { maxKeys: 3 }), 'too_many', 'a caller has them under both')
      second.finish(second.held('new'), RESPONSE, none)
      if (isLive) second.finish(slow, RESPONSE, none)
      second.table.close()
      const third = openTable(directory, { secrets: [NEW, OLD] })
      assert.deepEqual(third.begin('new'), { outcome: 'done', requestId: 'id-of-new', response: RESPONSE })
      for (const key of [...keys, 'new'])
        assert.equal(
          third.outcome(key),
          key === 'done' || key === 'new' || (isLive && key === 'slow') ? 'done' : 'unknown',
        )
      third.table.close()
      for (const secrets of [[NEW], [OLD]] as const)
        assert.throws(() => openTable(directory, { secrets }), /put that line back, below the new one/)
    })

  it('keep the old secret until nothing needs it, and nothing is sent again', (t) => {
    const directory = temporaryDirectory(t)
    const { table, finish, held, outcome, time } = openTable(directory)
    finish(held('old', { keepMs: MINUTE_MS }), RESPONSE, none)
    assert.throws(
      () => table.rekey([NEW]),
      /has keys that need a line that "idempotencyKeyFile" no longer has/,
    )
    assert.equal(outcome('old'), 'done', 'nothing has changed')
    table.rekey([NEW, OLD])
    finish(held('new'), RESPONSE, none)
    assert.throws(() => table.rekey([NEW]), /has keys that need a line/)
    time.nowMs += MINUTE_MS
    table.rekey([NEW])
    assert.deepEqual([outcome('new'), outcome('old')], ['done', 'begun'])
    table.close()
    assert.equal(openTable(directory, { secrets: [NEW] }, time).outcome('new'), 'done')
  })

  it('are expired for the next process too when the old secret goes, even if nothing was written in between', (t) => {
    const directory = temporaryDirectory(t)
    const { table, finish, held, time } = openTable(directory)
    finish(held('old', { keepMs: MINUTE_MS }), RESPONSE, none)
    time.nowMs += MINUTE_MS / 2
    table.rekey([NEW, OLD])
    time.nowMs += MINUTE_MS / 2
    table.rekey([NEW])
    // The first table is not closed, as after a crash.
    assert.equal(openTable(directory, { secrets: [NEW] }, time).outcome('old'), 'begun')
  })

  it('keep the old secret while the current time cannot be written', (t) => {
    let isFull = false
    const write: Write = (fd, bytes) => {
      if (isFull) throw new Error('ENOSPC')
      return realWrite(fd, bytes)
    }
    const { table } = openTable(temporaryDirectory(t), { write })
    table.rekey([NEW, OLD])
    isFull = true
    assert.throws(() => table.rekey([NEW]), /cannot be written: leave the older lines/)
  })

  it('are written under the new secret once its file can be made', (t) => {
    const directory = temporaryDirectory(t)
    const { table, outcome } = openTable(directory)
    const reserve = join(directory, 'reserve')
    rmSync(reserve)
    mkdirSync(reserve)
    table.rekey([NEW, OLD])
    assert.equal(outcome('a'), 'unavailable')
    rmSync(reserve, { recursive: true })
    table.maintain()
    assert.equal(outcome('a'), 'begun')
    table.rekey([NEW])
  })

  it('leave no file open or behind while the process cannot open another file', (t) => {
    const directory = temporaryDirectory(t)
    const { table, outcome } = openTable(directory)
    const opened = new Set<number>()
    const { openSync, closeSync } = fs
    t.mock.method(fs, 'openSync', (path: string, flags: string, mode: number) => {
      if (flags === 'r' && path.endsWith('.log')) throw new Error('EMFILE')
      const fd = openSync(path, flags, mode)
      opened.add(fd)
      return fd
    })
    t.mock.method(fs, 'closeSync', (fd: number) => {
      opened.delete(fd)
      closeSync(fd)
    })
    const restore = () => {
      t.mock.restoreAll()
      syncBuiltinESMExports()
    }
    t.after(restore)
    syncBuiltinESMExports()
    const files = readdirSync(directory)
    table.rekey([NEW, OLD])
    for (let second = 0; second < 3; second++) table.maintain()
    assert.equal(opened.size, 1, 'the reserve')
    assert.deepEqual(readdirSync(directory), files)
    restore()
    table.maintain()
    assert.equal(outcome('a'), 'begun')
  })

  it('stay known when the old secret goes, after their file was written again under the new secret', async (t) => {
    const directory = temporaryDirectory(t)
    const sync = ((_fd: number, done: (error: null) => void) => setImmediate(done, null)) as never
    const { table, finish, held } = openTable(directory, { segmentBytes: 1000, sync })
    finish(held('old'), RESPONSE, none)
    table.rekey([NEW, OLD])
    for (let i = 0; i < 40; i++) {
      finish(held(`${i}`), 'free', none)
      table.maintain()
      await turn()
    }
    assert.ok(!readdirSync(directory).includes('keys-0000000001.log'))
    table.close()
    assert.equal(openTable(directory, { secrets: [NEW, OLD] }).outcome('old'), 'done')
    assert.throws(
      () => openTable(directory, { secrets: [NEW] }),
      /need a line that "idempotencyKeyFile" no longer has/,
    )
  })

  it('seal nothing more under the old secret, also when the disk is slow during the change', (t) => {
    const directory = temporaryDirectory(t)
    const { table, endSync } = slowTable(directory)
    table.rekey([NEW, OLD])
    table.maintain()
    endSync()
    table.begin(request('new'), none)
    table.flush()
    endSync()
    table.rekey([NEW])
    table.close()
    assert.equal(openTable(directory, { secrets: [NEW] }).outcome('new'), 'unknown')
  })

  it('keep the old secret while the newest file is under it, because a slow disk delays the next file', (t) => {
    const directory = temporaryDirectory(t)
    const { table, endSync } = slowTable(directory)
    endSync()
    table.flush()
    table.rekey([NEW, OLD])
    assert.throws(() => table.rekey([NEW]), /put that line back/)
    endSync()
    table.rekey([NEW])
    table.begin(request('new'), none)
    table.close()
    assert.equal(openTable(directory, { secrets: [NEW] }).outcome('new'), 'unknown')
  })
})

describe('a full disk', () => {
  it('refuses to begin a key, which is free when there is room again', (t) => {
    const disk = { isFull: false }
    const directory = temporaryDirectory(t)
    const { table, finish, time, outcome, held } = withDisk(directory, disk)
    finish(held('before'), RESPONSE, none)
    disk.isFull = true
    assert.equal(outcome('a'), 'unavailable')
    assert.equal(table.isWritable, false)
    assert.equal(outcome('before'), 'done')
    disk.isFull = false
    time.nowMs += 1000
    table.maintain()
    assert.equal(outcome('a'), 'begun')
  })

  it('takes the outcome of every key that has begun, and at least the status of a response', (t) => {
    fc.assert(
      fc.property(fc.nat(60_000), fc.nat(6), (freeBytes, others) => {
        const directory = temporaryDirectory(t)
        const disk = { capacityBytes: Number.POSITIVE_INFINITY }
        const { table, finish, begin } = openTable(directory, { write: smallDisk(directory, disk) })
        disk.capacityBytes = bytesIn(directory) + freeBytes
        const begun = Array.from({ length: 3 + others }, (_, i) => begin(`${i}`))
        const told: unknown[] = []
        for (const one of begun)
          if (one.outcome === 'begun')
            finish(one.held, { ...RESPONSE, body: '.'.repeat(9000) }, (error) => told.push(error))
          else assert.equal(one.outcome, 'unavailable')
        assert.deepEqual(
          told,
          begun.flatMap(({ outcome }) => (outcome === 'begun' ? [undefined] : [])),
        )
        table.close()
        const again = openTable(directory)
        for (const [i, { outcome }] of begun.entries())
          assert.equal(again.outcome(`${i}`), outcome === 'begun' ? 'done' : 'begun')
        again.table.close()
      }),
    )
  })

  it('takes the record that a key was not sent', (t) => {
    const directory = temporaryDirectory(t)
    const disk = { capacityBytes: Number.POSITIVE_INFINITY }
    const { table, finish, held } = openTable(directory, { write: smallDisk(directory, disk) })
    const a = held('a')
    disk.capacityBytes = bytesIn(directory)
    finish(a, 'free', none)
    table.close()
    assert.equal(openTable(directory).outcome('a'), 'begun')
  })

  it('that takes nothing at all leaves a key unknown, and nobody gets its response', (t) => {
    const disk = { isFull: false }
    const directory = temporaryDirectory(t)
    const { table, finish, held, outcome } = withDisk(directory, disk)
    const a = held('a')
    disk.isFull = true
    let told: Error | undefined
    finish(a, RESPONSE, (error) => {
      told = error
    })
    assert.match(String(told), /cannot be written/)
    assert.equal(outcome('a'), 'unknown')
    table.close()
    assert.equal(openTable(directory).outcome('a'), 'unknown')
  })

  /** A disk whose files have `capacityBytes` at most. */
  function smallDisk(directory: string, disk: { readonly capacityBytes: number }): Write {
    return (fd, bytes) => {
      const room = disk.capacityBytes - bytesIn(directory)
      if (room <= 0) return fullDisk()
      return realWrite(fd, Buffer.from(bytes).subarray(0, room))
    }
  }

  function bytesIn(directory: string): number {
    return readdirSync(directory).reduce((sum, name) => sum + statSync(join(directory, name)).size, 0)
  }

  function withDisk(directory: string, disk: { isFull: boolean }) {
    const write = (fd: number, bytes: string | Uint8Array) =>
      disk.isFull ? fullDisk() : realWrite(fd, bytes)
    return openTable(directory, { write })
  }
})

describe('keys with durability synced', () => {
  /** A disk that syncs when the test says so. */
  function slowDisk(t: TestContext) {
    const syncs: ((error: Error | null) => void)[] = []
    const sync = ((_fd: number, done: (error: Error | null) => void) => syncs.push(done)) as never
    const directory = temporaryDirectory(t)
    return { directory, syncs, ...openTable(directory, { syncs: true, sync }) }
  }

  it('begin and are done only when the disk has them', (t) => {
    const { table, syncs, begin, outcome } = slowDisk(t)
    let begun: Begun | undefined
    table.begin(request('a'), (one) => {
      begun = one
    })
    assert.deepEqual([begun, outcome('a')], [undefined, 'in_progress'])
    syncs.shift()?.(null)
    assert.equal(begun?.outcome, 'begun')
    let isDurable = false
    table.finish((begun as Extract<Begun, { outcome: 'begun' }>).held, RESPONSE, (error) => {
      isDurable = error === undefined
    })
    assert.deepEqual([isDurable, begin('a').outcome], [false, 'in_progress'])
    syncs.shift()?.(null)
    assert.deepEqual([isDurable, begin('a').outcome], [true, 'done'])
  })

  it('retry a file that could not be made only at `maintain`, not at each request', (t) => {
    const { directory, table, syncs, faults } = slowDisk(t)
    const { openSync } = fs
    t.mock.method(fs, 'openSync', (path: string, flags: string, mode: number) => {
      if (flags === 'ax' && path.endsWith('.log')) throw new Error('EDQUOT')
      return openSync(path, flags, mode)
    })
    const restore = () => {
      t.mock.restoreAll()
      syncBuiltinESMExports()
    }
    t.after(restore)
    syncBuiltinESMExports()
    table.rekey([...secretsOf(['another secret of at least 32 characters']), ...SECRETS])
    const told: string[] = []
    for (const key of ['a', 'b']) {
      table.begin(request(key), ({ outcome }) => told.push(outcome))
      table.flush()
      syncs.shift()?.(null)
    }
    assert.deepEqual([told, faults.length], [['begun', 'begun'], 1])
    table.maintain()
    assert.equal(faults.length, 2)
    restore()
    table.maintain()
    assert.ok(readdirSync(directory).includes('keys-0000000002.log'))
  })

  it('are refused when a sync fails, and written again into another file', (t) => {
    const { directory, table, syncs, outcome } = slowDisk(t)
    const told: string[] = []
    table.begin(request('before'), ({ outcome }) => told.push(outcome))
    table.flush()
    syncs.shift()?.(null)
    table.begin(request('a'), ({ outcome }) => told.push(outcome))
    table.flush()
    syncs.shift()?.(new Error('EIO'))
    assert.deepEqual([told, outcome('b')], [['begun', 'unavailable'], 'unavailable'])
    table.maintain()
    assert.equal(outcome('before'), 'in_progress')
    table.begin(request('a'), ({ outcome }) => told.push(outcome))
    table.flush()
    while (syncs.length > 0) syncs.shift()?.(null)
    assert.deepEqual(told, ['begun', 'unavailable', 'begun'])
    assert.deepEqual(readdirSync(directory), ['keys-0000000002.log', 'reserve'])
    table.close()
    assert.equal(openTable(directory).outcome('before'), 'unknown')
  })
})

it('files that are removed under the gateway are made again with all that is known', async (t) => {
  const directory = temporaryDirectory(t)
  const { table, held, faults } = openTable(directory, {
    segmentBytes: 1000,
    sync: ((_fd: number, done: (error: null) => void) => setImmediate(done, null)) as never,
  })
  for (let i = 0; i < 20; i++) {
    table.finish(held(`${i}`), RESPONSE, none)
    table.maintain()
  }
  const begun = held('in progress')
  rmSync(directory, { recursive: true })
  table.maintain()
  assert.match(faults.join(), /was removed while the gateway was running/)
  for (let i = 0; i < 100; i++) await turn()
  table.finish(begun, RESPONSE, none)
  table.close()
  const again = openTable(directory)
  for (const key of ['0', '7', '19', 'in progress']) assert.equal(again.outcome(key), 'done', key)
})

describe('a table that another process takes over', () => {
  /** Both processes while the files change hands. */
  function handedOver(t: TestContext, keys: readonly string[]) {
    const directory = temporaryDirectory(t)
    const old = openTable(directory)
    const held = Object.fromEntries(keys.map((key) => [key, old.held(key)]))
    const begun = old.table.suspend()
    const next = openTable(directory)
    next.table.inherit(begun)
    return { directory, old, held, begun, next }
  }

  it('tells the new process what is in progress, and later the outcomes', (t) => {
    const { directory, old, held, next } = handedOver(t, ['done', 'long', 'free', 'unknown', 'early'])
    const told: string[] = []
    const finish = (key: string, finish: Finish) =>
      old.table.finish(held[key] as HeldKey, finish, (error) =>
        told.push(error === undefined ? key : `${error}`),
      )
    finish('early', RESPONSE)
    assert.deepEqual(
      [told.length, next.outcome('early'), old.outcome('new')],
      [0, 'in_progress', 'unavailable'],
    )
    old.table.leaveTo((key, run) => next.table.apply(JSON.parse(JSON.stringify(key)), run))
    finish('done', RESPONSE)
    finish('long', { ...RESPONSE, body: undefined })
    finish('free', 'free')
    finish('unknown', 'unknown')
    old.table.close()
    next.table.flush()
    assert.deepEqual(told, ['early', 'done', 'long', 'free', 'unknown'])
    for (const table of [next, openTable(directory)]) {
      assert.deepEqual(table.begin('done'), { outcome: 'done', requestId: 'id-of-done', response: RESPONSE })
      const outcomes = ['early', 'long', 'unknown'].map((key) => table.outcome(key))
      assert.deepEqual(outcomes, ['done', 'done', 'unknown'])
    }
    assert.equal(next.outcome('free'), 'begun')
  })

  it('leaves the remaining keys unknown when the old process has ended', (t) => {
    const { old, held, next } = handedOver(t, ['a', 'b'])
    old.table.leaveTo((key, run) => next.table.apply(key, run))
    old.table.finish(held.a as HeldKey, RESPONSE, none)
    next.table.release()
    assert.deepEqual([next.outcome('a'), next.outcome('b')], ['done', 'unknown'])
    const told: (Error | undefined)[] = []
    old.table.finish(held.b as HeldKey, RESPONSE, (error) => told.push(error))
    assert.match(String(told[0]), /is not in progress here/)
    assert.equal(next.outcome('b'), 'unknown')
  })

  it('gets no file after the hand-over, even when one is due and a sync ends late', (t) => {
    const directory = temporaryDirectory(t)
    const { table, endSync } = slowTable(directory)
    table.rekey([...secretsOf(['another secret of at least 32 characters']), ...SECRETS])
    const files = readdirSync(directory)
    table.suspend()
    endSync()
    assert.deepEqual(readdirSync(directory), files)
    table.resume()
    assert.equal(readdirSync(directory).length, files.length + 1)
  })

  it('begins no other file when it goes on and was never suspended', (t) => {
    const directory = temporaryDirectory(t)
    const { table } = openTable(directory)
    const files = readdirSync(directory)
    table.resume()
    assert.deepEqual(readdirSync(directory), files)
  })

  it('goes on with its files when the other process does not serve', (t) => {
    const { directory, old, held, next } = handedOver(t, ['a'])
    let isDurable = false
    old.table.finish(held.a as HeldKey, RESPONSE, (error) => {
      isDurable = error === undefined
    })
    assert.equal(isDurable, false)
    next.table.close()
    old.table.resume()
    old.table.flush()
    assert.deepEqual([isDurable, old.outcome('b')], [true, 'begun'])
    old.table.close()
    const again = openTable(directory)
    assert.deepEqual([again.outcome('a'), again.outcome('b')], ['done', 'unknown'])
  })
})
