import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { describe, it } from 'node:test'
import { cpuTimeOf, familyOf, parsePeakBytes, parseStat, peakBytesOf, residentBytesOf } from './kernel.ts'

const STAT =
  '4242 (odd) name (x) S 17 4242 4242 0 -1 4194560 9150 0 12 0 123 45 6 7 20 0 11 0 8412 1234 5678 18446744073709551615 1 1 0'

describe('the accounting of the kernel', () => {
  it('is read behind a name with spaces and brackets', () => {
    assert.deepEqual(parseStat(STAT), { parent: 17, userUs: 1_230_000, systemUs: 450_000 })
  })

  it('is refused if it has another form', () => {
    assert.throws(() => parseStat('4242 (node) S'), /not a line of/)
  })

  it('tells peak memory in bytes', () => {
    assert.equal(parsePeakBytes('VmPeak:\t  999 kB\nVmHWM:\t   2048 kB\nVmRSS:\t 7 kB\n'), 2_097_152)
    assert.throws(() => parsePeakBytes('VmRSS:\t7 kB\n'), /no VmHWM/)
  })

  it('agrees with what this process knows of itself', {
    skip: process.platform !== 'linux' && 'needs Linux',
  }, () => {
    const ownUs = () => process.cpuUsage().user + process.cpuUsage().system
    const beforeUs = ownUs()
    const { userUs, systemUs } = cpuTimeOf([process.pid])
    const toldUs = userUs + systemUs
    assert.ok(toldUs > beforeUs - 100_000 && toldUs < ownUs() + 100_000, `${toldUs}, before ${beforeUs}`)
    assert.ok(peakBytesOf([process.pid]) >= process.memoryUsage.rss() / 2)
    const residentBytes = process.memoryUsage.rss()
    assert.ok(Math.abs(residentBytesOf(process.pid) - residentBytes) < residentBytes / 2)
  })

  it('finds the children of children', { skip: process.platform !== 'linux' && 'needs Linux' }, async () => {
    const shell = spawn('sh', ['-c', 'cat; true'], { stdio: ['pipe', 'pipe', 'ignore'] })
    shell.stdin.write('up\n')
    await once(shell.stdout, 'data')
    assert.equal(familyOf(shell.pid!).length, 2)
    shell.stdin.end()
    await once(shell, 'exit')
  })
})
