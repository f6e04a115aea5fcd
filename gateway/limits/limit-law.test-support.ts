import assert from 'node:assert/strict'
import fc from 'fast-check'
import { keysOf, type Principal } from '../principal.ts'
import { type Caller, limitKey } from './limit-key.ts'
import { rowWith } from './table/limit-row.test-support.ts'
import { type LimitRow, type Limits, LimitTable, rowsOf, windowsOf } from './table/limit-table.ts'
import type { Take } from './windows/window.ts'

/* The laws of limits, told in the plainest way: with hits in one list, and no windows, links, journals or scripts. */

const PLACES = [
  { path: '/a', covers: (path: string) => path === '/a' },
  { path: '/b/*', covers: (path: string) => path.startsWith('/b/') },
  { path: '/*', isOverall: true as const, covers: () => true },
  { path: '/{x}', isOverall: true as const, covers: (path: string) => /^\/[^/]+$/.test(path) },
  { path: '/a', isOverall: true as const, covers: (path: string) => path === '/a' },
]
const PLAN_OF: Readonly<Record<string, string>> = { app: 'gold', bot: 'tin' }
const PLANNED_KINDS = ['caller', 'client', 'client+user']

/** The part of a row that no edit changes. */
interface Kind {
  readonly place: number
  readonly per: LimitRow['per']
  readonly mode: LimitRow['mode']
  readonly cost: number
  readonly windows: readonly number[]
}

interface Request {
  readonly path: string
  readonly user: string | undefined
  readonly client: string | undefined
  readonly address: string
}

/** What each limit allows beyond two requests, and the factors of the plans. */
interface Edit {
  readonly do: 'edit'
  readonly spare: readonly number[]
  readonly factors: readonly [gold: number, tin: number]
}

type LawStep =
  | { readonly do: 'ask'; readonly stepUs: number; readonly request: Request; readonly times: number }
  | Edit

const anyKinds: fc.Arbitrary<Kind[]> = fc.uniqueArray(
  fc.record({
    place: fc.nat({ max: PLACES.length - 1 }),
    per: fc.constantFrom<LimitRow['per'][]>('caller', 'user', 'client', 'client+user', 'address'),
    mode: fc.constantFrom<LimitRow['mode'][]>('enforce', 'enforce', 'shadow'),
    cost: fc.constantFrom(1, 1, 3),
    windows: fc.uniqueArray(fc.constantFrom(1000, 5000, 60_000, 3_600_000), { minLength: 1, maxLength: 3 }),
  }),
  { minLength: 1, selector: ({ place }) => place },
)
const anySpare = fc.array(fc.nat({ max: 5 }), { minLength: 15, maxLength: 15 })
const anyFactor = fc.constantFrom(0.5, 1, 1.5, 3)
const anyEdit: fc.Arbitrary<Edit> = fc.record({
  do: fc.constant('edit' as const),
  spare: anySpare,
  factors: fc.tuple(anyFactor, anyFactor),
})
const anyStep: fc.Arbitrary<LawStep> = fc.oneof(
  {
    weight: 12,
    arbitrary: fc.record({
      do: fc.constant('ask' as const),
      // Steps that floating milliseconds hold exactly, so that the law rounds nothing.
      stepUs: fc.integer({ min: 0, max: 12_000 }).map((n) => n * 125),
      request: fc.record({
        path: fc.constantFrom('/a', '/b/1', '/b/2/3', '/c'),
        user: fc.constantFrom('alice', 'bob', undefined),
        client: fc.constantFrom('app', 'bot', 'other', undefined),
        address: fc.constantFrom('192.0.2.1', '192.0.2.2'),
      }),
      times: fc.constantFrom(1, 1, 2, 4),
    }),
  },
  { weight: 1, arbitrary: anyEdit },
)

type Law = readonly [kinds: readonly Kind[], first: Edit, steps: readonly LawStep[]]

export const anyLaw: fc.Arbitrary<Law> = fc.tuple(
  anyKinds,
  anyEdit,
  fc.array(anyStep, { maxLength: 50, size: 'max' }),
)

interface Asked extends Caller {
  /** First of the rows that count the request. */
  readonly row: LimitRow
  readonly key: string
  readonly us: number
}

/** Anything that counts requests. */
export interface Judge {
  replace(limits: Limits): void
  take(asked: Asked): Take | Promise<Take>
}

/** Runs a schedule with a judge, and asserts that its decisions and numbers are those of the law. */
export async function holdsLaw([kinds, first, steps]: Law, judge: Judge): Promise<void> {
  const hits = new Map<string, number[]>()
  let us = 1_000_000_000
  let edit = first
  let table = new LimitTable([])
  for (const step of [first, ...steps]) {
    if (step.do === 'edit') {
      edit = step
      const limits = limitsOf(kinds, step)
      table = new LimitTable(limits.rows, limits.plans)
      judge.replace(limits)
      continue
    }
    us += step.stepUs
    const caller = { principal: principalOf(step.request), address: step.request.address }
    for (let i = 0; i < step.times; i++) {
      const expected = judged(kinds, edit, hits, step.request, us / 1000)
      const plan = PLAN_OF[step.request.client ?? '']
      const row = table.find(step.request.path, 'GET', plan)
      assert.equal(row !== undefined, expected.size > 0)
      if (row === undefined) continue
      const key = limitKey(row.per, caller.principal, caller.address)
      assert.deepEqual(told(row, await judge.take({ row, key, us, ...caller })), expected)
    }
  }
}

function principalOf({ user, client }: Request): Principal | undefined {
  if (user === undefined && client === undefined) return undefined
  return {
    method: 'bearer',
    subject: user,
    client,
    session: undefined,
    sessionName: undefined,
    expiresAtMs: undefined,
    scopes: new Set(),
    scope: '',
    ...keysOf(user === undefined ? `client:${client}` : `user:${user}`),
  }
}

function limitOf({ place, cost }: Kind, window: number, { spare }: Edit): number {
  return 2 * cost + (spare[3 * place + window] ?? 0)
}

function limitsOf(kinds: readonly Kind[], edit: Edit): Limits {
  const rows = kinds.map((kind) => {
    const { path, isOverall } = PLACES[kind.place] as (typeof PLACES)[number]
    const { per, mode, cost, windows } = kind
    const bounds = windows.map((windowMs, i) => [limitOf(kind, i, edit), windowMs] as const)
    const row = rowWith(bounds, { path, per, mode, cost, ...(isOverall && { isOverall }) })
    return renamed(row, `r${kind.place}`)
  })
  const [gold, tin] = edit.factors
  return {
    rows,
    plans: new Map([
      ['gold', gold],
      ['tin', tin],
    ]),
  }
}

function renamed(row: LimitRow, name: string): LimitRow {
  return { ...row, name: `${name}-${row.windowMs}`, ...(row.next && { next: renamed(row.next, name) }) }
}

/** Decisions by policy name. */
type Told = Map<
  string,
  { readonly allowed: boolean; readonly remaining: number; readonly resetSeconds: number }
>

function told(row: LimitRow, take: Take): Told {
  const all: Told = new Map()
  let ofRow: Take | undefined = take
  for (const one of rowsOf(row)) {
    let own: Take | undefined = ofRow
    for (const { name } of windowsOf(one)) {
      const { allowed, remaining, resetSeconds, next }: Take = own ?? assert.fail(name)
      all.set(name, { allowed, remaining, resetSeconds })
      own = next
    }
    ofRow = ofRow?.beside
  }
  return all
}

function judged(
  kinds: readonly Kind[],
  edit: Edit,
  hits: Map<string, number[]>,
  request: Request,
  nowMs: number,
): Told {
  const rows = kinds
    .filter(({ place }) => PLACES[place]?.covers(request.path))
    .map((kind) => {
      const name = `${kind.place} ${nameOf(kind.per, request)}`
      const times = hits.get(name) ?? []
      const windows = kind.windows.map((windowMs, i) => {
        const limit = Math.max(1, Math.floor(limitOf(kind, i, edit) * factorOf(kind, edit, request)))
        const counted = times.filter((atMs) => nowMs - atMs < windowMs)
        return { windowMs, limit, counted, admits: counted.length + kind.cost <= limit }
      })
      return { kind, name, times, windows, admits: windows.every(({ admits }) => admits) }
    })
  const passes = rows.every(({ kind, admits }) => admits || kind.mode === 'shadow')
  const all: Told = new Map()
  for (const { kind, name, times, windows, admits } of rows) {
    const own = passes && admits ? Array<number>(kind.cost).fill(nowMs) : []
    hits.set(name, [...times, ...own])
    for (const { windowMs, limit, counted, admits: allowed } of windows) {
      const used = [...counted, ...own]
      const leaves = (allowed ? used[0] : counted[counted.length - limit + kind.cost - 1]) ?? nowMs
      all.set(`r${kind.place}-${windowMs}`, {
        allowed,
        remaining: allowed ? limit - used.length : 0,
        resetSeconds: Math.max(1, Math.ceil((windowMs - (nowMs - leaves)) / 1000)),
      })
    }
  }
  return all
}

function nameOf(per: LimitRow['per'], { user, client, address }: Request): string {
  const [byUser, byClient] = [user && `user ${user}`, client && `client ${client}`]
  if (per === 'address') return address
  if (per === 'client') return byClient ?? byUser ?? address
  if (per === 'client+user')
    return byUser && byClient ? `${byUser} ${byClient}` : (byUser ?? byClient ?? address)
  return byUser ?? byClient ?? address
}

function factorOf({ per }: Kind, { factors }: Edit, { client }: Request): number {
  const at = ['gold', 'tin'].indexOf(PLAN_OF[client ?? ''] ?? '')
  return PLANNED_KINDS.includes(per) ? (factors[at] ?? 1) : 1
}
