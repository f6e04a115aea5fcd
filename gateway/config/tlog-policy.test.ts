import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { describe, it } from 'node:test'
import { isReached, PolicyFault, parseTlogPolicy } from './tlog-policy.ts'

function vkey(name: string, byte: number, type = 4): string {
  const bytes = Buffer.concat([Buffer.of(type), Buffer.alloc(32, byte)])
  const id = hash('sha256', Buffer.concat([Buffer.from(`${name}\n`), bytes]), 'hex').slice(0, 8)
  return `${name}+${id}+${bytes.toString('base64')}`
}

const [X1, X2, X3, Y1, Y2, Y3] = [1, 2, 3, 4, 5, 6].map((byte) => vkey(`w.example/${byte}`, byte))
const LOG = vkey('log.example', 9, 1)

/** The example of the specification, with blanks, comments and URLs that it allows. */
const EXAMPLE = `log ${LOG}
# two of X, one of Y
\twitness  X1 ${X1} https://w.example/1
witness X2 ${X2}
witness X3 ${X3}
group X-witnesses 2 X1 X2 X3

witness Y1 ${Y1}
witness Y2 ${Y2}
witness Y3 ${Y3}
  group Y-witnesses any Y1 Y2 Y3\t
  # done
group X-and-Y all X-witnesses Y-witnesses
quorum X-and-Y
`

describe('a policy of C2SP tlog-policy', () => {
  it('says which witnesses are enough, by groups of groups', () => {
    const { logs, witnesses, quorum } = parseTlogPolicy(EXAMPLE)
    assert.deepEqual(logs, [LOG])
    assert.equal(witnesses.length, 6)
    assert.deepEqual(witnesses[0], { name: 'X1', key: X1, url: 'https://w.example/1' })
    assert.equal(witnesses[1]?.url, undefined)
    for (const [signed, isEnough] of [
      [[X1, X3, Y2], true],
      [[X1, X2, X3, Y1, Y2, Y3], true],
      [[X1, X2, X3], false],
      [[X1, Y1, Y2, Y3], false],
      [[], false],
    ] as const) {
      assert.equal(
        isReached(quorum, (key) => signed.some((one) => one === key)),
        isEnough,
      )
    }
    assert.equal(
      isReached(parseTlogPolicy('quorum none').quorum, () => false),
      true,
    )
    const single = parseTlogPolicy(`witness a ${X1}\nquorum a`).quorum
    assert.deepEqual([isReached(single, () => false), isReached(single, (key) => key === X1)], [false, true])
  })

  it('is refused with the line that is wrong', () => {
    const two = `witness a ${X1}\nwitness b ${X2}\n`
    for (const [text, reason] of [
      ['', /^has no line with a quorum/],
      ['quorum none\nquorum none', /^line 2 is a second quorum/],
      ['quorum a', /^line 1 names "a", which no line before defines/],
      ['quorums none', /^line 1 must begin with log, witness, group or quorum/],
      ['log a+b', /^line 1 has a key that must be a verifier key/],
      [
        `log ${X1}`,
        /^line 1 has a key that must be the key of a log, of signature type 1 or 6, but is of type 4/,
      ],
      [`log ${LOG}\nlog ${vkey('other', 9, 1)}`, /^line 2 has a key that another log has/],
      [`witness a ${LOG}`, /^line 1 has a key that must be the key of a witness/],
      [`witness a ${X1} u v`, /^line 1 must be: witness/],
      [`witness a ${X1?.replace('+', '+0')}`, /^line 1 has a key that/],
      [`${two}witness c ${vkey('c', 1)}`, /^line 3 has a key that another witness has/],
      [`${two}witness a ${X3}`, /^line 3 defines "a", which is defined already/],
      [`witness none ${X1}`, /^line 1 defines "none"/],
      [`${two}group g 3 a b`, /^line 3 must be: group/],
      [`${two}group g 0 a b`, /^line 3 must be: group/],
      [`${two}group g 01 a b`, /^line 3 must be: group/],
      [`${two}group g toString a b`, /^line 3 must be: group/],
      [`${two}group g all`, /^line 3 must be: group/],
      [`${two}group g all a a`, /^line 3 names "a", which is a member already/],
      [`${two}group g any a\ngroup h any a b`, /^line 4 names "a", which is a member already/],
      [`${two}group g any none`, /^line 3 names "none", which no line before defines/],
      [`${two}group g any g`, /^line 3 names "g", which no line before defines/],
      ['quorum none\r\n', /^line 1 has a control character/],
      [
        Array.from({ length: 33 }, (_, i) => `witness w${i} ${vkey('w', i + 1)}`).join('\n'),
        /^line 33 is one witness too many: at most 32 may be named/,
      ],
    ] as const) {
      assert.throws(
        () => parseTlogPolicy(text),
        (error) => error instanceof PolicyFault && reason.test(error.message),
        text,
      )
    }
  })
})
