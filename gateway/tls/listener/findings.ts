import type { Fault } from '../../config/faults.ts'
import { type Dated, faultAt } from '../../config/rules/certificate-times.ts'

/** What is not valid now is no fault of the file alone, because it may be the clock that is wrong. */
export function timeWarning({ file, path, reason }: Fault): string {
  return `${file}: ${path} ${reason}`
}

/** Collects faults and warnings of all files, so that they are reported together. */
export class Findings {
  readonly faults: Fault[] = []
  /** Probable mistakes that do not prevent serving, one sentence each. */
  readonly warnings: string[] = []

  /** Every certificate and list. */
  readonly dated: Dated[] = []

  fault(fault: Fault): undefined {
    this.faults.push(fault)
  }

  warn(warning: string): void {
    this.warnings.push(warning)
  }

  /** @param one.path where it stands in its file */
  date({ path, ...one }: Omit<Dated, 'place'> & { readonly path: string }, nowMs: number): void {
    const dated = { ...one, place: { file: one.file, path } }
    this.dated.push(dated)
    const fault = faultAt(dated, nowMs)
    if (fault !== undefined) this.warn(timeWarning(fault))
  }
}
