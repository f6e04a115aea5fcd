import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { stripVTControlCharacters } from 'node:util'
import fc from 'fast-check'
import { type Logger, pino } from 'pino'
import { FORMS, logLine } from './operational-log.ts'
import { printable } from './printable.ts'

const line = (fields: object) =>
  stripVTControlCharacters(logLine(JSON.stringify({ level: 30, time: 0, ...fields })))

describe('a log line for people', () => {
  it('has the time, the level, the message and the fields', () => {
    const text = line({
      level: 40,
      msg: 'an upstream is unhealthy',
      upstream: 'http://a',
      healthy: false,
      cause: 'two words',
    })
    assert.match(
      text,
      /^\d\d:\d\d:\d\d warn {2}an upstream is unhealthy {2}upstream=http:\/\/a {2}healthy=false {2}cause="two words"\n$/,
    )
  })

  it('has the faults of a file below it, each on its line', () => {
    const text = line({ msg: 'last good', faults: ['a: $: is bad', 'b: $: is bad'], upstreams: ['http://a'] })
    assert.match(text, /last good {2}upstreams=\["http:\/\/a"\]\n +a: \$: is bad\n +b: \$: is bad\n$/)
  })

  it('escapes control characters that a caller sent', () => {
    const evil = '\u001b]0;owned\u0007\r\n\u202e\u009b2J'
    const text = logLine(JSON.stringify({ level: 30, time: 0, msg: evil, [evil]: evil, list: [`x ${evil}`] }))
    assert.doesNotMatch(stripVTControlCharacters(text).replaceAll('\n', ''), /[\p{Cc}\u202e]/u)
    assert.ok(!text.includes('\u001b]'), text)
  })

  it('keeps its text if it is not JSON', () => {
    assert.equal(logLine('plain\u0007\n'), 'plain\\u0007\n')
  })
})

describe('a log line in the form of a standard', () => {
  const service = { 'service.name': 'accounts', 'service.version': '1.2.3' }
  const lineOf = (form: keyof typeof FORMS, write: (log: Logger) => void) => {
    const lines: string[] = []
    const inForm = FORMS[form](service)
    write(pino({ level: 'trace', base: null }, { write: (json) => void lines.push(inForm(json)) }))
    assert.match(lines.join(), /^[^\n]+\n$/)
    return JSON.parse(lines.join())
  }
  const refused = {
    ...{ requestId: 'r1', traceId: 'ab'.repeat(16), code: 'invalid_token', route: '/a', cause: 'expired' },
    ...{ ip: '192.0.2.1', unlogged: 3 },
  }
  const failed = { err: new RangeError('too far'), requestId: 'r1' }
  const keys = (
    attributes: readonly { readonly key: string; readonly value: { readonly stringValue?: string } }[],
  ) => Object.fromEntries(attributes.map(({ key, value }) => [key, value]))

  it('of Elastic begins with the fields that loggers must write, and has our fields under the names of Elastic', () => {
    const { '@timestamp': at, ...line } = lineOf('ecs', (log) => log.warn(refused, 'refused'))
    assert.equal(new Date(at).toISOString(), at)
    assert.deepEqual(line, {
      'log.level': 'warn',
      message: 'refused',
      'ecs.version': '8.17.0',
      'service.name': 'accounts',
      'service.version': '1.2.3',
      'event.dataset': 'accounts.log',
      'http.request.id': 'r1',
      'trace.id': 'ab'.repeat(16),
      'error.code': 'invalid_token',
      'error.message': 'expired',
      'client.ip': '192.0.2.1',
      'countersign.route': '/a',
      'countersign.unlogged': 3,
    })
    const fault = lineOf('ecs', (log) => log.error(failed, 'a stage failed'))
    assert.deepEqual(Object.keys(fault).slice(0, 3), ['@timestamp', 'log.level', 'message'])
    assert.deepEqual([fault['error.type'], fault['error.message']], ['RangeError', 'too far'])
    assert.match(fault['error.stack_trace'], /^RangeError: too far\n +at /)
  })

  it('of OpenTelemetry is a record with its resource, severity, trace and attributes', () => {
    const { resourceLogs } = lineOf('otlp', (log) => log.warn(refused, 'refused'))
    const [{ resource, scopeLogs }] = resourceLogs
    assert.deepEqual(keys(resource.attributes)['service.name'], { stringValue: 'accounts' })
    const [record] = scopeLogs[0].logRecords
    assert.match(record.timeUnixNano, /^\d{13}000000$/)
    assert.deepEqual([record.severityNumber, record.severityText], [13, 'warn'])
    assert.deepEqual(record.body, { stringValue: 'refused' })
    assert.equal(record.traceId, 'ab'.repeat(16))
    assert.deepEqual(keys(record.attributes), {
      'countersign.requestId': { stringValue: 'r1' },
      'error.type': { stringValue: 'invalid_token' },
      'http.route': { stringValue: '/a' },
      'countersign.cause': { stringValue: 'expired' },
      'client.address': { stringValue: '192.0.2.1' },
      'countersign.unlogged': { intValue: '3' },
    })
    const fault = lineOf('otlp', (log) => log.error(failed, 'a stage failed'))
    const { attributes } = fault.resourceLogs[0].scopeLogs[0].logRecords[0]
    assert.deepEqual(keys(attributes)['exception.type'], { stringValue: 'RangeError' })
    assert.match(keys(attributes)['exception.stacktrace']?.stringValue ?? '', /^RangeError: too far\n +at /)
  })

  it('of OpenTelemetry has the number of every level', () => {
    const levels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal'] as const
    const numbers = levels.map((level) => {
      const { resourceLogs } = lineOf('otlp', (log) => log[level]('x'))
      return resourceLogs[0].scopeLogs[0].logRecords[0].severityNumber
    })
    assert.deepEqual(numbers, [1, 5, 9, 13, 17, 21])
  })

  it('loses no field, whatever it holds', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 3 })), (fields) => {
        const ecs = lineOf('ecs', (log) => log.info({ mine: fields }))
        assert.deepEqual(ecs['countersign.mine'], JSON.parse(JSON.stringify(fields)))
        const otlp = lineOf('otlp', (log) => log.info({ mine: fields }))
        const { attributes } = otlp.resourceLogs[0].scopeLogs[0].logRecords[0]
        assert.deepEqual(read(attributes[0].value), JSON.parse(JSON.stringify(fields)))
      }),
    )
  })
})

/** The value that an AnyValue of OTLP holds. */
function read(value: {
  readonly stringValue?: string
  readonly boolValue?: boolean
  readonly intValue?: string
  readonly doubleValue?: number
  readonly arrayValue?: { readonly values: readonly object[] }
  readonly kvlistValue?: { readonly values: readonly { readonly key: string; readonly value: object }[] }
}): unknown {
  if (value.arrayValue !== undefined) return value.arrayValue.values.map(read)
  if (value.kvlistValue !== undefined)
    return Object.fromEntries(value.kvlistValue.values.map((entry) => [entry.key, read(entry.value)]))
  if (value.intValue !== undefined) return Number(value.intValue)
  return value.stringValue ?? value.boolValue ?? value.doubleValue ?? null
}

it('printable text keeps tabs, letters of every script and pairs of surrogates', () => {
  assert.equal(printable('a\tgröße 😀 日本'), 'a\tgröße 😀 日本')
  // A soft hyphen, and a tag, which no terminal shows. JSON reads the escapes back.
  const hidden = 'tra\u00adnsfer\u{e0041}'
  assert.equal(printable(hidden), 'tra\\u00adnsfer\\udb40\\udc41')
  assert.equal(JSON.parse(printable(JSON.stringify(hidden))), hidden)
  assert.equal(printable('a\u0000\u001b[31m\u007f\ud800'), 'a\\u0000\\u001b[31m\\u007f\\ud800')
})
