/** A label value. Never taken from a request, because every value is kept for ever. */
type LabelValue = string | number

/** Names of labels, in the order in which their values are given. */
export type Labels = readonly string[]
type Values<Names extends Labels> = { readonly [At in keyof Names]: LabelValue }
/** A value after those of its labels. */
type Reading<Names extends Labels> = readonly [...Values<Names>, number]

/** One line of the page. `metricName` differs from the family's name in histograms. */
export interface Sample {
  readonly labels: Readonly<Record<string, LabelValue>>
  readonly value: number
  readonly metricName?: string
}

interface Described<Names extends Labels> {
  readonly name: string
  readonly help: string
  readonly labels: Names
}

/**
 * One cell per set of label values, in nested maps, one level per label. Faster than prom-client's own metrics, which
 * build and hash an object of labels at every call.
 */
class Cells<Cell> {
  readonly #labels: Labels
  readonly #make: () => Cell
  readonly #root = new Map<LabelValue, unknown>()
  readonly all: { readonly labels: Sample['labels']; readonly cell: Cell }[] = []

  constructor(labels: Labels, make: () => Cell) {
    this.#labels = labels
    this.#make = make
  }

  /** One value per label. */
  of(values: readonly LabelValue[]): Cell {
    let level = this.#root
    const last = values.length - 1
    for (let i = 0; i < last; i++) {
      const value = values[i] as LabelValue
      let next = level.get(value) as Map<LabelValue, unknown> | undefined
      if (next === undefined) {
        next = new Map()
        level.set(value, next)
      }
      level = next
    }
    const value = values[last] ?? ''
    return (level.get(value) as Cell | undefined) ?? this.#add(level, values)
  }

  #add(level: Map<LabelValue, unknown>, values: readonly LabelValue[]): Cell {
    const cell = this.#make()
    level.set(values.at(-1) ?? '', cell)
    this.all.push({ labels: labelled(this.#labels, values), cell })
    return cell
  }
}

function labelled(names: Labels, values: readonly LabelValue[]): Sample['labels'] {
  return Object.fromEntries(names.map((name, i) => [name, values[i] as LabelValue]))
}

/** A metric that a prom-client registry can expose. It is on no page until it is first used. */
export abstract class Family<Names extends Labels> {
  readonly name: string
  readonly help: string
  readonly labels: Names
  abstract readonly type: 'counter' | 'gauge' | 'histogram'

  constructor({ name, help, labels }: Described<Names>) {
    this.name = name
    this.help = help
    this.labels = labels
  }

  /** Whether anything has ever been counted, or is read. */
  abstract get isUsed(): boolean
  abstract samples(): readonly Sample[]

  /** For the registry. */
  get(): Promise<object> {
    const { name, help, type } = this
    return Promise.resolve({ name, help, type, values: this.samples() })
  }
}

abstract class NumberFamily<Names extends Labels> extends Family<Names> {
  protected readonly cells: Cells<{ value: number }>
  #source: (() => number | Iterable<Reading<Names>>) | undefined

  constructor(described: Described<Names>) {
    super(described)
    this.cells = new Cells(described.labels, () => ({ value: 0 }))
  }

  /** Asks `source` at each scrape, for a number or for label values with their number. Called once. */
  read(source: () => number | Iterable<Reading<Names>>): void {
    this.#source = source
  }

  get isUsed(): boolean {
    return this.#source !== undefined || this.cells.all.length > 0
  }

  /** The value of a metric without labels; undefined: it is not in use. */
  get value(): number | undefined {
    return this.samples()[0]?.value
  }

  samples(): readonly Sample[] {
    const samples: Sample[] = this.cells.all.map(({ labels, cell }) => ({ labels, value: cell.value }))
    const found = this.#source?.() ?? []
    if (typeof found === 'number') return [...samples, { labels: {}, value: found }]
    for (const reading of found) {
      samples.push({ labels: labelled(this.labels, reading), value: reading[reading.length - 1] as number })
    }
    return samples
  }
}

/** Label values are given in the order of the labels. */
export class Counter<Names extends Labels> extends NumberFamily<Names> {
  readonly type = 'counter'

  /** Exposes 0 until something is counted: what appears with its first event looks to Prometheus as if nothing had happened. */
  begin(...values: Values<Names>): void {
    this.cells.of(values)
  }

  count(...values: Values<Names>): void {
    this.cells.of(values).value++
  }

  add(amount: number, ...values: Values<Names>): void {
    this.cells.of(values).value += amount
  }
}

/** Label values are given in the order of the labels. */
export class Gauge<Names extends Labels> extends NumberFamily<Names> {
  readonly type = 'gauge'

  set(value: number, ...values: Values<Names>): void {
    this.cells.of(values).value = value
  }
}

interface Spread {
  /** Observations per bucket, not cumulative; the last is above all bounds. */
  readonly counts: readonly number[]
  readonly sum: number
}

/** Bounds ascend. Label values are given in the order of the labels. */
export class Histogram<Names extends Labels> extends Family<Names> {
  readonly type = 'histogram'
  readonly bounds: readonly number[]
  readonly #cells: Cells<{ readonly counts: number[]; sum: number }>
  #source: (() => Spread) | undefined

  constructor(described: Described<Names>, bounds: readonly number[]) {
    super(described)
    this.bounds = bounds
    this.#cells = new Cells(described.labels, () => ({
      counts: new Array(bounds.length + 1).fill(0),
      sum: 0,
    }))
  }

  /** Exposes zeros until something is observed. */
  begin(...values: Values<Names>): void {
    this.#cells.of(values)
  }

  observe(observed: number, ...values: Values<Names>): void {
    const spread = this.#cells.of(values)
    let at = 0
    while (at < this.bounds.length && observed > (this.bounds[at] as number)) at++
    spread.counts[at] = (spread.counts[at] ?? 0) + 1
    spread.sum += observed
  }

  /** Asks `source` at each scrape. Called once, of a histogram without labels. */
  read(source: () => Spread): void {
    this.#source = source
  }

  get isUsed(): boolean {
    return this.#source !== undefined || this.#cells.all.length > 0
  }

  samples(): readonly Sample[] {
    const samples = this.#cells.all.flatMap(({ labels, cell }) => this.#samplesOf(labels, cell))
    return this.#source === undefined ? samples : this.#samplesOf({}, this.#source())
  }

  #samplesOf(labels: Sample['labels'], { counts, sum }: Spread): Sample[] {
    let count = 0
    const samples: Sample[] = counts.map((own, i) => {
      count += own
      const le = this.bounds[i] ?? '+Inf'
      return { metricName: `${this.name}_bucket`, labels: { le, ...labels }, value: count }
    })
    samples.push({ metricName: `${this.name}_sum`, labels, value: sum })
    samples.push({ metricName: `${this.name}_count`, labels, value: count })
    return samples
  }
}
