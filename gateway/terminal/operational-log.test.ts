import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { stripVTControlCharacters } from 'node:util'
import { logLine } from './operational-log.ts'
import { printable } from './printable.ts'

const line = (fields: object) =>
  stripVTControlCharacters(logLine(JSON.stringify({ level: 30, time: 0, ...fields })))

describe('a log line for people', () => {
  it('has the time, the level, the message and the fields', () => {
    const text = line({
      level: 40,
      msg: 'upstream health',
      upstream: 'http://a',
      healthy: false,
      cause: 'two words',
    })
    assert.match(
      text,
      /^\d\d:\d\d:\d\d warn {2}upstream health {2}upstream=http:\/\/a {2}healthy=false {2}cause="two words"\n$/,
    )
  })

  it('has the faults of a file below it, each on its line', () => {
    const text = line({ msg: 'last good', faults: ['a: $: is bad', 'b: $: is bad'], upstreams: ['http://a'] })
    assert.match(text, /last good {2}upstreams=\["http:\/\/a"\]\n +a: \$: is bad\n +b: \$: is bad\n$/)
  })

  it('never carries on what a caller sent to the terminal', () => {
    const evil = '\u001b]0;owned\u0007\r\n\u202e\u009b2J'
    const text = logLine(JSON.stringify({ level: 30, time: 0, msg: evil, [evil]: evil, list: [`x ${evil}`] }))
    assert.doesNotMatch(stripVTControlCharacters(text).replaceAll('\n', ''), /[\p{Cc}\u202e]/u)
    assert.ok(!text.includes('\u001b]'), text)
  })

  it('is what it was when it is no JSON', () => {
    assert.equal(logLine('plain\u0007\n'), 'plain\\u0007\n')
  })
})

it('printable text keeps tabs, letters of every script and pairs of surrogates', () => {
  assert.equal(printable('a\tgröße 😀 日本'), 'a\tgröße 😀 日本')
  assert.equal(printable('a\u0000\u001b[31m\u007f\ud800'), 'a\\u0000\\u001b[31m\\u007f\\ud800')
})
