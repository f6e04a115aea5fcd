import { NEWLINE } from '../../audit/segments/read-segment.ts'
import { type AuditLine, textOf } from '../../evidence/records/audit-line.ts'
import { findRecords, type Search } from '../../evidence/records/find-records.ts'
import { printable } from '../../terminal/printable.ts'
import { type Command, complain, EXIT, type Given, print, UsageFault } from '../command.ts'
import {
  ABOUT_FILES,
  ableTo,
  FILES,
  PERIOD_FLAGS,
  Progress,
  trailsNamed,
  UNABLE,
  whenOf,
} from './trail-words.ts'

export const command: Command = {
  words: FILES,
  flags: {
    request: { value: 'ID', about: 'the request id, made by the gateway or the client' },
    user: { value: 'ID', about: 'userId' },
    client: { value: 'ID', about: 'clientId: a machine, or the app that acted for a user' },
    path: { value: 'TEXT', about: 'text in the path, such as a pseudonym of "audit pseudonym"' },
    session: {
      value: 'NAME',
      about: 'sessionId: the name of a session (docs/verify/records.md)',
    },
    status: { value: 'STATUS', about: 'status of the response; finds responses only' },
    'grpc-status': {
      value: 'NUMBER',
      about: 'status of a call of gRPC, such as 14 for UNAVAILABLE; finds responses only',
    },
    ...PERIOD_FLAGS,
    everywhere: {
      about: 'reads the whole trail, and so also finds later requests in which a client used the id again',
    },
    format: {
      value: 'FORMAT',
      about: 'ndjson, the lines as they are, or table; default: table on a terminal',
    },
  },
  about: [
    'Prints the records that match all flags, in the order of the trail. --since and --until are about the start of a request; its response is found however late it came.',
    ABOUT_FILES,
    'The command reads the trail only from --since to --until, or around the time in an id that the gateway made. So it may miss a request that was recorded more than ten minutes after its start, and records in a file in which the clock goes back by more than a minute.',
  ],
  examples: [
    ['countersign audit find --user a3f1e7c2-0000-7000-8000-000000000001 --since 24h', 'what a user did'],
    ['countersign audit find --status 429 --format table data/audit.ndjson', 'who exceeded a limit'],
    [
      'countersign audit find --client webhooks --since 2026-11-01 --until 2026-12-01',
      'a month of one client',
    ],
  ],
  fault: 'nothing was found',
  unable: UNABLE,
  async run({ words, flags }) {
    const search = searchOf(flags)
    const isTable = formatOf(flags) === 'table'
    const show = isTable ? tableRow : ndjson
    const progress = new Progress('searching')
    let count = 0
    let isHeaded = false
    for (const { segments } of await trailsNamed(words)) {
      const result = await ableTo(() =>
        findRecords(segments, search, {
          onRecord(line, record) {
            progress.clear()
            if (isTable && !isHeaded) print(HEADINGS)
            isHeaded = true
            process.stdout.write(show(line, record))
          },
          onRead: progress.show,
          // Waits until the output so far is written, so that it does not fill the memory. True: nobody reads any more.
          isEnough: () => new Promise((done) => process.stdout.write('', (error) => done(error != null))),
        }),
      )
      count += result.count
      progress.clear()
      if (result.byIdTime && process.stderr.isTTY) {
        complain('only records near the time of the id were read; --everywhere also finds later uses')
      }
    }
    if (count === 0) complain('nothing was found')
    return count === 0 ? EXIT.fault : EXIT.good
  },
}

function searchOf(flags: Given['flags']): Search {
  const status = flags.status
  if (status !== undefined && !/^\d{1,3}$/.test(status))
    throw new UsageFault('--status must be a number: 429')
  const grpcStatus = flags['grpc-status']
  if (grpcStatus !== undefined && !/^(?:\d|1[0-6])$/.test(grpcStatus))
    throw new UsageFault('--grpc-status must be a number from 0 to 16')
  const filter = {
    request: flags.request,
    user: flags.user,
    client: flags.client,
    path: flags.path,
    session: flags.session,
    status: status === undefined ? undefined : Number(status),
    grpcStatus: grpcStatus === undefined ? undefined : Number(grpcStatus),
  }
  const fromMs = whenOf(flags, 'since')
  const toMs = whenOf(flags, 'until')
  const hasPeriod = fromMs !== undefined || toMs !== undefined
  if (!hasPeriod && Object.values(filter).every((value) => value === undefined)) {
    throw new UsageFault(
      'needs at least one of --request, --user, --client, --path, --session, --status, --grpc-status, --since, --until',
    )
  }
  const period = { fromMs: fromMs ?? Number.NEGATIVE_INFINITY, toMs: toMs ?? Number.POSITIVE_INFINITY }
  return { filter, period: hasPeriod ? period : undefined, everywhere: flags.everywhere !== undefined }
}

function formatOf(flags: Given['flags']): string {
  const format = flags.format ?? (process.stdout.isTTY ? 'table' : 'ndjson')
  if (format !== 'table' && format !== 'ndjson') throw new UsageFault('--format must be ndjson or table')
  return format
}

/** Gives the exact bytes, but escaped for a terminal. The last line of a file may lack its end. */
function ndjson(line: Buffer): Buffer | string {
  if (process.stdout.isTTY) return `${printable(line.toString().trimEnd())}\n`
  return line.at(-1) === NEWLINE ? line : Buffer.concat([line, Buffer.of(NEWLINE)])
}

const HEADINGS = `${'TIME'.padEnd(24)}  RECORD    CODE   DURATION  METHOD  ${'PATH'.padEnd(24)}  CALLER  ID`

/** Other records than requests and responses are shown whole. */
function tableRow(line: Buffer, record: AuditLine): string {
  const { type, timestamp, statusCode, duration, method, path, userId, clientId, ip, requestId } = record
  const cells =
    type === 'API_REQUEST' || type === 'API_RESPONSE'
      ? [
          textOf(timestamp).padEnd(24),
          (type === 'API_REQUEST' ? 'request' : 'response').padEnd(8),
          textOf(statusCode ?? '').padStart(3),
          (duration === undefined ? '' : `${textOf(duration)} ms`).padStart(11),
          textOf(method).padEnd(6),
          textOf(path).padEnd(24),
          `${callerOf(userId, clientId)} ${textOf(ip)}`,
          textOf(requestId),
        ]
      : [textOf(timestamp).padEnd(24), line.toString().trimEnd()]
  return `${printable(cells.join('  '))}\n`
}

function callerOf(userId: unknown, clientId: unknown): string {
  if (userId !== undefined && clientId !== undefined) return `${textOf(userId)} by ${textOf(clientId)}`
  return textOf(userId ?? clientId ?? '-')
}
