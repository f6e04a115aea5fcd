import type { Moment } from '../admin/console/wire.ts'

/** The first `moment` event of a console's stream. */
export async function firstMoment(adminUrl: string, token?: string): Promise<Moment> {
  const headers: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` }
  const response = await fetch(`${adminUrl}/events`, { headers })
  let text = ''
  for await (const chunk of response.body ?? []) {
    text += Buffer.from(chunk).toString('utf8')
    const [, data] = /event: moment\ndata: (.*?)\n\n/s.exec(text) ?? []
    if (data !== undefined) return JSON.parse(data)
  }
  throw new Error('the stream ended')
}
