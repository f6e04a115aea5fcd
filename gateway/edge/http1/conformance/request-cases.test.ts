import assert from 'node:assert/strict'
import { once } from 'node:events'
import { describe, it } from 'node:test'
import { readTarget } from '../../rules/request-target.ts'
import { REFUSED } from './llhttp-refused.test-support.ts'
import { TAKEN, TAKEN_AS_IT_STANDS } from './llhttp-requests.test-support.ts'
import { type Seen, scribe, serverOf, wireTo } from './scribe.test-support.ts'

/** What a server has made of some pieces, and the end after them. */
async function toldOf(pieces: readonly string[]): Promise<string[]> {
  const handler = scribe()
  const wire = wireTo(serverOf(handler))
  for (const piece of pieces) wire.send(piece)
  wire.sendEnd()
  if (!wire.destroyed) await once(wire, 'close')
  for (const { closes } of handler.seen) assert.equal(closes, 1)
  return handler.seen.map(told)
}

function told({ method, target, version, headers, text, whole, fault }: Seen): string {
  if (fault !== undefined) return `refused: ${fault}`
  let head = `${method} ${target} HTTP/${version}\r\n`
  for (let i = 0; i < headers.length; i += 2) head += `${headers[i]}: ${headers[i + 1]}\r\n`
  return `${head}\r\n${text}${whole ? '' : ' (cut)'}`
}

/** Sends `text` whole, byte by byte, and cut in two at every place. */
async function whicheverWay(text: string, expected: readonly string[]): Promise<void> {
  assert.deepEqual(await toldOf([text]), expected)
  assert.deepEqual(await toldOf([...text]), expected, 'byte by byte')
  const cuts = Array.from({ length: text.length - 1 }, (_, i) => i + 1)
  const all = await Promise.all(cuts.map((cut) => toldOf([text.slice(0, cut), text.slice(cut)])))
  for (const [i, one] of all.entries()) assert.deepEqual(one, expected, `in two, the first of ${i + 1} bytes`)
}

describe('a request of the suite of llhttp, whole and split at every byte,', () => {
  for (const [what, text] of TAKEN_AS_IT_STANDS) {
    it(`is taken as it stands: ${what}`, () => whicheverWay(text, [text]))
  }

  for (const [what, text, ...expected] of TAKEN) {
    it(`becomes what it says: ${what}`, () => whicheverWay(text, expected))
  }

  for (const [what, text, code] of REFUSED) {
    it(`is refused: ${what}`, () => whicheverWay(text, [`refused: ${code}`]))
  }

  it('is taken with UTF-8 in its target, which llhttp refuses at once, and our reader of targets later', () => {
    const text = TAKEN_AS_IT_STANDS.find(([what]) => what.startsWith('Disallow UTF-8'))?.[1] ?? ''
    assert.equal(typeof readTarget(text.split(' ')[1] ?? ''), 'string')
  })
})
