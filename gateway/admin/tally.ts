/** A label value. Never taken from a request, because every value is kept for ever. */
type LabelValue = string | number

/** A metric in the form that prom-client's registry reads. */
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
 * One cell per set of label values, in nested maps, one level per label. Faster than prom-client's own metrics, which
 * build and hash an object of labels at every call.
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
  readonly #cells: Cells<{ value: number }>

  constructor({ name, help, labelNames }: Family) {
    this.name = name
    this.help = help
    this.#cells = new Cells(labelNames, () => ({ value: 0 }))
    // Without labels there is one value from the start, 0.
    if (labelNames.length === 0) this.begin()
  }

  /** Exposes 0 under these label values until something is counted. */
  begin(...values: readonly LabelValue[]): void {
    this.#cells.of(values)
  }

  /** Adds one under these label values, given in the order of the labels. */
  count(...values: readonly LabelValue[]): void {
    this.#cells.of(values).value++
  }

  get(): Promise<object> {
    const { name, help, type } = this
    const values: Sample[] = this.#cells.all.map(({ labels, cell }) => ({ labels, value: cell.value }))
    return Promise.resolve({ name, help, type, values })
  }
}

interface Spread {
  /** Observations per bucket, not cumulative; the last is above all bounds. */
  readonly counts: number[]
  sum: number
}

/** A histogram that a prom-client registry can expose. Bounds ascend. */
export class Spreading {
  readonly name: string
  readonly help: string
  readonly type = 'histogram'
  readonly #bounds: readonly number[]
  readonly #cells: Cells<Spread>

  constructor({ name, help, labelNames }: Family, bounds: readonly number[]) {
    this.name = name
    this.help = help
    this.#bounds = bounds
    this.#cells = new Cells(labelNames, () => ({ counts: new Array(bounds.length + 1).fill(0), sum: 0 }))
    if (labelNames.length === 0) this.#cells.of([])
  }

  observe(observed: number, ...values: readonly LabelValue[]): void {
    const spread = this.#cells.of(values)
    let at = 0
    while (at < this.#bounds.length && observed > (this.#bounds[at] as number)) at++
    spread.counts[at] = (spread.counts[at] ?? 0) + 1
    spread.sum += observed
  }

  get(): Promise<object> {
    const { name, help, type } = this
    const values = this.#cells.all.flatMap(({ labels, cell }) => this.#samples(labels, cell))
    return Promise.resolve({ name, help, type, values })
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
