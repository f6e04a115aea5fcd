/** The value of a label. Never what a caller wrote: every one that was ever seen is kept. */
type LabelValue = string | number

/** As prom-client's registry asks its metrics for them. */
interface Sample {
  readonly labels: Readonly<Record<string, LabelValue>>
  readonly value: number
  readonly metricName?: string
}

interface Family {
  readonly name: string
  readonly help: string
  readonly labelNames: readonly string[]
}

/**
 * One cell for each set of label values, found by walking down a map for each label. prom-client's own metrics make an
 * object of the labels and hash it at every call, which costs more than a request can pay ten times.
 */
class Cells<Cell> {
  readonly #labelNames: readonly string[]
  readonly #make: () => Cell
  readonly #root = new Map<LabelValue, unknown>()
  readonly all: { readonly labels: Readonly<Record<string, LabelValue>>; readonly cell: Cell }[] = []

  constructor(labelNames: readonly string[], make: () => Cell) {
    this.#labelNames = labelNames
    this.#make = make
  }

  /** As many values as there are labels. */
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
    const labels = Object.fromEntries(this.#labelNames.map((name, i) => [name, values[i] as LabelValue]))
    this.all.push({ labels, cell })
    return cell
  }
}

/** A counter that a prom-client registry can expose. */
export class Tally {
  readonly name: string
  readonly help: string
  readonly type = 'counter'
  readonly aggregator = 'sum'
  readonly #cells: Cells<{ value: number }>

  constructor({ name, help, labelNames }: Family) {
    this.name = name
    this.help = help
    this.#cells = new Cells(labelNames, () => ({ value: 0 }))
    // Without labels there is one number, also before anything was counted.
    if (labelNames.length === 0) this.#cells.of([])
  }

  /** Counts one, under the values of the labels in their order. */
  count(...values: readonly LabelValue[]): void {
    this.#cells.of(values).value++
  }

  get(): Promise<object> {
    const { name, help, type, aggregator } = this
    const values: Sample[] = this.#cells.all.map(({ labels, cell }) => ({ labels, value: cell.value }))
    return Promise.resolve({ name, help, type, aggregator, values })
  }
}

interface Spread {
  /** How many were at most each bound and above the one before; the last: above all. */
  readonly counts: number[]
  sum: number
}

/** A histogram that a prom-client registry can expose. Bounds ascend. */
export class Spreading {
  readonly name: string
  readonly help: string
  readonly type = 'histogram'
  readonly aggregator = 'sum'
  readonly #bounds: readonly number[]
  readonly #cells: Cells<Spread>

  constructor({ name, help, labelNames }: Family, bounds: readonly number[]) {
    this.name = name
    this.help = help
    this.#bounds = bounds
    this.#cells = new Cells(labelNames, () => ({ counts: new Array(bounds.length + 1).fill(0), sum: 0 }))
  }

  observe(observed: number, ...values: readonly LabelValue[]): void {
    const spread = this.#cells.of(values)
    let at = 0
    while (at < this.#bounds.length && observed > (this.#bounds[at] as number)) at++
    spread.counts[at] = (spread.counts[at] ?? 0) + 1
    spread.sum += observed
  }

  get(): Promise<object> {
    const { name, help, type, aggregator } = this
    const values = this.#cells.all.flatMap(({ labels, cell }) => this.#samples(labels, cell))
    return Promise.resolve({ name, help, type, aggregator, values })
  }

  #samples(labels: Sample['labels'], { counts, sum }: Spread): Sample[] {
    let count = 0
    const samples: Sample[] = counts.map((own, i) => {
      count += own
      const le = this.#bounds[i] ?? '+Inf'
      return { metricName: `${this.name}_bucket`, labels: { le, ...labels }, value: count }
    })
    samples.push({ metricName: `${this.name}_sum`, labels, value: sum })
    samples.push({ metricName: `${this.name}_count`, labels, value: count })
    return samples
  }
}
