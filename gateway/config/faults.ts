/** One thing wrong in a configuration file or in the environment, in words an operator can act on. */
export interface Fault {
  /** The file as the operator named it, or `environment`. */
  readonly file: string
  /** Where in it: a JSON path such as `$.limits[2].window`, a variable's name, or `line 3 column 7`. */
  readonly path: string
  readonly reason: string
}

/** `config/limits.json: $.limits[2].window: must be …`: one line per fault. */
export function describeFault(fault: Fault): string {
  return `${fault.file}: ${fault.path}: ${fault.reason}`
}

/** The result of parsing: either the value, or all faults. */
export type Parsed<T> =
  | { readonly value: T; readonly faults?: never }
  | { readonly faults: readonly Fault[]; readonly value?: never }
