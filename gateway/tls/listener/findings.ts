import type { Fault } from '../../config/faults.ts'
import type { Dated } from '../../config/rules/certificate-times.ts'

interface Validity extends Omit<Dated, 'fault'> {
  /** Where it stands in the file. */
  readonly path: string
  /** Undefined: it is valid now. */
  readonly reason: string | undefined
  /** What comes of it, after the reason. */
  readonly effect?: string
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

  /** Not a fault of the file alone, because it may be the clock that is wrong. */
  date({ file, path, reason, effect = '', ...one }: Validity): void {
    this.dated.push({ ...one, file, fault: reason === undefined ? undefined : { file, path, reason } })
    if (reason !== undefined) this.warn(`${file}: ${path} ${reason}${effect}`)
  }
}
