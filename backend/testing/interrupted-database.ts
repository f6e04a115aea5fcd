import type { Database, Queryable, Row } from '../database/database.ts'

interface Moment {
  readonly statement: RegExp
  /** The statement's first parameter, if it matters: an artifact's model. */
  readonly model?: string
  /** The statement fails when this throws. */
  readonly happens: () => Promise<void>
}

/** Lets something happen just before or after one statement, within a transaction too. */
export class InterruptedDatabase {
  before: Moment | undefined = undefined
  after: Moment | undefined = undefined

  around(database: Database): Database {
    const through = (inner: Queryable) => ({
      query: async <R extends Row>(sql: string, values: readonly unknown[] = []) => {
        await this.#reach('before', sql, values)
        const rows = await inner.query<R>(sql, values)
        await this.#reach('after', sql, values)
        return rows
      },
    })
    return {
      ...database,
      ...through(database),
      transaction: (work, options) =>
        database.transaction(
          (open) => work({ ...through(open), script: (sql) => open.script(sql) }),
          options,
        ),
    }
  }

  async #reach(when: 'before' | 'after', sql: string, [model]: readonly unknown[]): Promise<void> {
    const moment = this[when]
    if (moment === undefined || !moment.statement.test(sql)) return
    if (moment.model !== undefined && moment.model !== model) return
    this[when] = undefined
    await moment.happens()
  }
}
