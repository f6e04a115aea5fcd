import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { HeadDecoder, type HeadField } from './head-decoder.ts'
import { encodeHead } from './head-encoder.ts'

const TABLE_BYTES = 4096

/** @returns lines of the fields; undefined when the block is not valid */
function decode(decoder: HeadDecoder, block: string | Buffer): string[] | undefined {
  const fields: HeadField[] = []
  const bytes = typeof block === 'string' ? Buffer.from(block.replaceAll(' ', ''), 'hex') : block
  const isValid = decoder.decode(bytes, { take: (field) => fields.push(field) })
  return isValid ? fields.map(({ field }) => `${field.name}: ${field.value}`) : undefined
}

/** RFC 7541 appendix C: blocks that one connection sends, and their last lines. */
const EXAMPLES: Readonly<Record<string, readonly (readonly [block: string, last: string])[]>> = {
  'C.3': [
    ['828684410f7777772e6578616d706c652e636f6d', ':authority: www.example.com'],
    ['828684be58086e6f2d6361636865', 'cache-control: no-cache'],
    ['828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565', 'custom-key: custom-value'],
  ],
  'C.4': [
    ['828684418cf1e3c2e5f23a6ba0ab90f4ff', ':authority: www.example.com'],
    ['828684be5886a8eb10649cbf', 'cache-control: no-cache'],
    ['828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf', 'custom-key: custom-value'],
  ],
}

describe('a block of fields', () => {
  for (const [name, blocks] of Object.entries(EXAMPLES))
    it(`is decoded as in RFC 7541 appendix ${name}, with the table of the blocks before it`, () => {
      const decoder = new HeadDecoder(TABLE_BYTES)
      for (const [block, last] of blocks) assert.equal(decode(decoder, block)?.at(-1), last)
    })

  it('evicts the oldest entries of a table that is full (RFC 7541 appendix C.6)', () => {
    const decoder = new HeadDecoder(256)
    const first =
      '488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f0b97c8e9ae82ae43d3'
    const lines = [
      ':status: 302',
      'cache-control: private',
      'date: Mon, 21 Oct 2013 20:13:21 GMT',
      'location: https://www.example.com',
    ]
    assert.deepEqual(decode(decoder, first), lines)
    assert.deepEqual(decode(decoder, '4883640effc1c0bf'), [':status: 307', ...lines.slice(1)])
    assert.equal(decode(decoder, 'c2'), undefined, 'the entry of 302 is gone')
  })

  it('is decoded as it was encoded, whatever the bytes and lengths', () => {
    const bytes = String.fromCharCode(...Array.from({ length: 95 }, (_, at) => 0x20 + at)).trim()
    const lines = [
      'x-a: b',
      `x-long: ${'y'.repeat(20_000)}`,
      `content-type: ${bytes}\xe9`,
      'set-cookie: a',
      'set-cookie: b',
    ]
    for (const status of [200, 299, 404]) {
      const block = Buffer.from(encodeHead(status, lines.map((line) => `${line}\r\n`).join('')), 'latin1')
      assert.deepEqual(decode(new HeadDecoder(TABLE_BYTES), block), [`:status: ${status}`, ...lines])
    }
  })

  it('keeps every byte of a value but the spaces and tabs around it, also 0xA0, a space in Unicode', () => {
    const block = encodeHead(200, 'X-Name: \t\xa0voil\xc3\xa0 \t\r\nX-Empty:\r\n')
    assert.deepEqual(decode(new HeadDecoder(TABLE_BYTES), Buffer.from(block, 'latin1')), [
      ':status: 200',
      'x-name: \xa0voil\xc3\xa0',
      'x-empty: ',
    ])
  })

  const INVALID: Readonly<Record<string, string>> = {
    'index 0': '80',
    'an index that no table has': 'be',
    'an integer without its end': 'ff',
    'an integer beyond any bound': 'ff ffffffffff 01',
    'a text longer than the block': '00 01 61 05 61',
    'a text that is missing': '00',
    'EOS within a text': '00 01 61 84 ffffffff',
    'padding of more than seven bits': '00 01 61 82 1fff',
    'padding that is not all ones': '00 01 61 81 00',
    'a larger table than allowed': '3fe2 1f',
    'a new size behind a field': '82 20',
  }
  for (const [what, block] of Object.entries(INVALID))
    it(`is refused for ${what}`, () => {
      assert.equal(decode(new HeadDecoder(TABLE_BYTES), block), undefined)
    })

  it('costs little when it names one large entry again and again', () => {
    const decoder = new HeadDecoder(TABLE_BYTES)
    const value = 'v'.repeat(4000)
    decode(
      decoder,
      Buffer.from(
        `\x40\x01a\x7f${String.fromCharCode(0x80 | ((4000 - 127) & 127), (4000 - 127) >> 7)}${value}`,
        'latin1',
      ),
    )
    const taken = new Set<unknown>()
    let times = 0
    const isValid = decoder.decode(Buffer.alloc(16_384, 0xbe), {
      take: ({ field }) => {
        times++
        taken.add(field)
      },
    })
    assert.deepEqual([isValid, times, taken.size], [true, 16_384, 1], 'no copy is made')
  })
})
