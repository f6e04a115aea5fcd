import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { parseOptions } from './options.ts'

const IDS = ['main', 'cold']

describe('the command line of the benchmark', () => {
  it('asks for five rounds of everything and for the committed page by default', () => {
    const options = parseOptions([], IDS)
    assert.deepEqual(
      [options.rounds, options.measureMs, options.only, options.out],
      [5, 2500, undefined, undefined],
    )
  })

  it('never writes the committed page in a partial run', () => {
    const partial = [
      ['--quick'],
      ['--only', 'main'],
      ['--among', 'x'],
      ['--rounds', '4'],
      ['--root', '/x'],
      ['--against', '/x'],
    ]
    for (const args of partial) assert.equal(parseOptions(args, IDS).out, 'data/bench', args.join(' '))
    assert.equal(parseOptions(['--quick', '--out', 'here'], IDS).out, 'here')
  })

  it('names the scenarios when it is asked for an unknown one', () => {
    assert.throws(
      () => parseOptions(['--only', 'main,nope'], IDS),
      /no scenario is called nope: the scenarios are main, cold/,
    )
  })

  it('takes the name of a group for all its scenarios', () => {
    const { only } = parseOptions(['--only', 'both,cold'], IDS, { both: ['main', 'cold'] })
    assert.deepEqual([...(only ?? [])], ['main', 'cold'])
  })

  it('refuses a malformed number', () => {
    for (const rounds of ['1.5', '0'])
      assert.throws(() => parseOptions(['--rounds', rounds], IDS), /must be a whole number above 0/)
    assert.throws(() => parseOptions(['--seconds', 'x'], IDS), /must be a number above 0/)
  })
})
