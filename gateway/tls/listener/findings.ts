import type { Fault } from '../../config/faults.ts'

/** Collects faults and warnings of all files, so that they are reported together. */
export class Findings {
  readonly faults: Fault[] = []
  /** Probable mistakes that do not prevent serving, one sentence each. */
  readonly warnings: string[] = []

  fault(fault: Fault): undefined {
    this.faults.push(fault)
  }

  warn(warning: string): void {
    this.warnings.push(warning)
  }
}
