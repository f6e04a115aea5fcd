/** Never taken from a request, because every value is kept for ever. */
type LabelValue = string | number
export type Labels = readonly string[]
type Values<Names extends Labels> = { readonly [At in keyof Names]: LabelValue }
type Reading<Names extends Labels> = readonly [...Values<Names>, number]

export interface Sample {
  readonly labels: Readonly<Record<string, LabelValue>>
  readonly value: number
  readonly metricName?: string
  /** OpenMetrics only. */
  readonly exemplar?: Exemplar | undefined
}

interface Exemplar {
  readonly labelSet: { readonly trace_id: string }
  readonly value: number
  readonly timestamp: number
}

interface Series<Cell> {
  readonly labels: Sample['labels']
  readonly cell: Cell
}

interface Described<Names extends Labels> {
  readonly name: string
  readonly help: string
  readonly labels: Names
}

/**
 * A metric for prom-client registries, with one cell per set of label values, in nested maps. prom-client's own metrics are
 * slower: they build and hash an object of labels at every call.
 */
abstract class Family<Names extends Labels, Cell> {
  abstract readonly type: 'counter' | 'gauge' | 'histogram'
  readonly name: string
  readonly help: string
  readonly labels: Names
  protected source: (() => readonly Series<Cell>[]) | undefined
  readonly #root = new Map<LabelValue, unknown>()
  readonly #counted: Series<Cell>[] = []

  constructor({ name, help, labels }: Described<Names>) {
    this.name = name
    this.help = help
    this.labels = labels
  }

  protected abstract makeCell(): Cell
  protected abstract samplesOf(series: Series<Cell>): readonly Sample[]

  get isUsed(): boolean {
    return this.source !== undefined || this.#counted.length > 0
  }

  /** Exposes 0 until something is counted, because Prometheus sees no increase in a series that begins with 1. */
  begin(...values: Values<Names>): void {
    this.cellOf(values)
  }

  samples(): readonly Sample[] {
    return [...this.#counted, ...(this.source?.() ?? [])].flatMap((series) => this.samplesOf(series))
  }

  get(): Promise<object> {
    const { name, help, type } = this
    return Promise.resolve({ name, help, type, values: this.samples() })
  }

  protected cellOf(values: Values<Names>): Cell {
    let level = this.#root
    const last = values.length - 1
    for (let i = 0; i < last; i++)
      level = level.getOrInsertComputed(values[i] as LabelValue, newLevel) as Map<LabelValue, unknown>
    return (level.get(values[last] ?? '') as Cell | undefined) ?? this.#add(level, values)
  }

  #add(level: Map<LabelValue, unknown>, values: Values<Names>): Cell {
    const cell = this.makeCell()
    level.set(values.at(-1) ?? '', cell)
    this.#counted.push({ labels: this.labelled(values), cell })
    return cell
  }

  protected labelled(values: readonly LabelValue[]): Sample['labels'] {
    return Object.fromEntries(this.labels.map((name, i) => [name, values[i] as LabelValue]))
  }
}

/** A constant, so that no call makes a function. */
const newLevel = () => new Map<LabelValue, unknown>()

abstract class NumberFamily<Names extends Labels> extends Family<Names, { value: number }> {
  /** Makes each scrape ask `source` for a number, or for label values with their number. Call it once. */
  read(source: () => number | Iterable<Reading<Names>>): void {
    this.source = () => {
      const found = source()
      if (typeof found === 'number') return [{ labels: {}, cell: { value: found } }]
      return [...found].map((reading) => {
        return { labels: this.labelled(reading), cell: { value: Number(reading.at(-1)) } }
      })
    }
  }

  /** The value without labels; undefined: not in use. */
  get value(): number | undefined {
    return this.samples()[0]?.value
  }

  protected makeCell() {
    return { value: 0 }
  }

  protected samplesOf({ labels, cell: { value } }: Series<{ value: number }>): readonly Sample[] {
    return [{ labels, value }]
  }
}

export class Counter<Names extends Labels> extends NumberFamily<Names> {
  readonly type = 'counter'

  count(...values: Values<Names>): void {
    this.cellOf(values).value++
  }

  add(amount: number, ...values: Values<Names>): void {
    this.cellOf(values).value += amount
  }
}

export class Gauge<Names extends Labels> extends NumberFamily<Names> {
  readonly type = 'gauge'

  set(value: number, ...values: Values<Names>): void {
    this.cellOf(values).value = value
  }
}

interface Spread {
  /** Observations per bucket, not cumulative; the last bucket is above all bounds. */
  readonly counts: number[]
  sum: number
  /** Each bucket's last traced observation. */
  readonly exemplars?: (Exemplar | undefined)[]
}

export class Histogram<Names extends Labels> extends Family<Names, Spread> {
  readonly type = 'histogram'
  readonly bounds: readonly number[]

  constructor(described: Described<Names>, bounds: readonly number[]) {
    super(described)
    this.bounds = bounds
  }

  observe(observed: number, ...values: Values<Names>): void {
    this.#place(this.cellOf(values), observed)
  }

  observeTraced(traceId: string, observed: number, ...values: Values<Names>): void {
    const spread = this.cellOf(values)
    const at = this.#place(spread, observed)
    const exemplar = { labelSet: { trace_id: traceId }, value: observed, timestamp: Date.now() / 1000 }
    if (spread.exemplars !== undefined) spread.exemplars[at] = exemplar
  }

  /** Returns the bucket's index. */
  #place(spread: Spread, observed: number): number {
    let at = 0
    while (at < this.bounds.length && observed > (this.bounds[at] as number)) at++
    spread.counts[at] = (spread.counts[at] ?? 0) + 1
    spread.sum += observed
    return at
  }

  /** Makes each scrape ask `source`. Call it once, for a metric without labels. */
  read(source: () => Spread): void {
    this.source = () => [{ labels: {}, cell: source() }]
  }

  protected makeCell() {
    return { counts: new Array<number>(this.bounds.length + 1).fill(0), sum: 0, exemplars: [] }
  }

  protected samplesOf({ labels, cell: { counts, sum, exemplars } }: Series<Spread>): readonly Sample[] {
    let count = 0
    const samples: Sample[] = counts.map((own, i) => {
      count += own
      const le = this.bounds[i] ?? '+Inf'
      const exemplar = exemplars?.[i]
      return { metricName: `${this.name}_bucket`, labels: { le, ...labels }, value: count, exemplar }
    })
    samples.push({ metricName: `${this.name}_sum`, labels, value: sum })
    samples.push({ metricName: `${this.name}_count`, labels, value: count })
    return samples
  }
}
