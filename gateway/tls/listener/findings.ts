import type { Fault } from '../../config/faults.ts'

/** What is found while files are looked through: all of it is told at once. */
export class Findings {
  readonly faults: Fault[] = []
  /** What can hardly be meant but can be served with, in one sentence each. */
  readonly warnings: string[] = []

  fault(fault: Fault): undefined {
    this.faults.push(fault)
  }

  warn(warning: string): void {
    this.warnings.push(warning)
  }
}
