import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { ANY_CHARACTER } from '../../e2e/any-character.ts'
import { ReplyBounds } from './reply-bounds.ts'

const MiB = 1024 * 1024

type Value = string | number | null | readonly Value[]

const { value } = fc.letrec<{ value: Value }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.string({ unit: ANY_CHARACTER }),
    fc.integer(),
    fc.constant(null),
    fc.array(tie('value')),
  ),
}))

function encoded(reply: Value): string {
  if (reply === null) return '$-1\r\n'
  if (typeof reply === 'number') return `:${reply}\r\n`
  if (typeof reply === 'string') return `$${Buffer.byteLength(reply)}\r\n${reply}\r\n`
  return `*${reply.length}\r\n${reply.map(encoded).join('')}`
}

const followed = (...pieces: readonly string[]) => {
  const bounds = new ReplyBounds()
  for (const piece of pieces) bounds.follow(Buffer.from(piece, 'latin1'))
}

describe('the bounds of a reply', () => {
  it('let any number of replies pass, however they are cut into pieces', () => {
    fc.assert(
      fc.property(
        fc.array(value),
        fc.array(fc.integer({ min: 1, max: 20 }), { minLength: 1 }),
        (replies, cuts) => {
          const bytes = Buffer.from(['+OK\r\n', '-ERR no\r\n', '*-1\r\n', ...replies.map(encoded)].join(''))
          const bounds = new ReplyBounds()
          let at = 0
          for (let i = 0; at < bytes.length; i++) {
            const cut = cuts[i % cuts.length] as number
            bounds.follow(bytes.subarray(at, at + cut))
            at += cut
          }
          // The end of each reply was found, so one more of almost the largest size passes.
          bounds.follow(Buffer.from(encoded('x'.repeat(4 * MiB - 30))))
        },
      ),
    )
    followed(encoded(Array(1000).fill('x'.repeat(4000))), encoded(Array(99_999).fill(0)))
  })

  it('end a reply that is too long, whatever it is made of, before it is whole', () => {
    const large = 'x'.repeat(MiB)
    for (const pieces of [
      ['$4194305\r\n'],
      ['+', large, large, large, large],
      ['-', large, large, large, large],
      [':', large, large, large, large],
      ['*5\r\n', ...Array(4).fill(`$${MiB}\r\n${large}\r\n`)],
    ])
      assert.throws(() => followed(...pieces), /more than 4194304 bytes/, pieces[0])
    for (const pieces of [['*100001\r\n'], ['*60000\r\n', '*60000\r\n'], ['*9', '9999999', '9\r\n']])
      assert.throws(() => followed(...pieces), /more than 100000 values/, pieces[0])
  })

  it('end a reply that the client would read otherwise', () => {
    for (const reply of [
      '%1\r\n',
      '>1\r\n',
      '~1\r\n',
      '=5\r\n',
      '_\r\n',
      '#t\r\n',
      'HTTP/1.1 400\r\n',
      '+a\rX',
      '\r\n',
    ])
      assert.throws(() => followed(reply), /no RESP 2/, reply)
    for (const reply of [
      '$x\r\n',
      '*\r\n',
      '*-2\r\n',
      '$-11\r\n',
      '*1x\r\n',
      '*0x10\r\n',
      '$1 \r\n',
      '*00000000001\r\n',
    ])
      assert.throws(() => followed(reply), /malformed length/, reply)
  })
})
