import type { Sampling, TracingSettings } from '../config/tracing-settings.ts'
import { withoutNominated } from '../edge/rules/hop-by-hop.ts'
import type { Field } from '../edge/syntax/field.ts'
import { receivedTraceparent } from '../edge/syntax/traceparent.ts'
import { type Envelope, type ExportReports, SpanExporter } from './span-exporter.ts'
import { createPost, type Post } from './span-post.ts'
import { spansOf, type TracedExchange } from './span-text.ts'
import { flagsIn, newTraceId, SAMPLED, Trace } from './trace.ts'

interface TracerOptions {
  readonly settings: TracingSettings
  readonly version: string
  readonly instanceId: string
  /** Wall time in epoch milliseconds. */
  readonly clock: () => number
  readonly steadyClock: () => number
  readonly reports: ExportReports
  readonly post?: Post
}

const SCHEMA_URL = 'https://opentelemetry.io/schemas/1.44.0'
/** A larger difference means that the wall clock was set or drifted; a smaller one is its resolution. */
const CLOCK_CHANGE_MS = 2
/** The last digits of a trace id, random by Trace Context level 2, that decide about sampling. */
const DECIDING_DIGITS = 12
const DECIDING_VALUES = 2 ** 48

export class Tracer {
  readonly #options: TracerOptions
  readonly #exporter: SpanExporter
  /** Epoch milliseconds at steady time 0. */
  #epochOffsetMs: number

  constructor(options: TracerOptions) {
    const { settings, clock, steadyClock, reports, post = createPost(settings.receiver) } = options
    this.#options = options
    this.#exporter = new SpanExporter({ ...settings, envelope: envelopeOf(options), post, reports })
    this.#epochOffsetMs = clock() - steadyClock()
  }

  /** @returns undefined when the request is not sampled */
  begin(fields: readonly Field[], viaTrustedProxy: boolean): Trace | undefined {
    const { steadyClock, settings } = this.#options
    const passedOn = withoutNominated(fields)
    const traceparent = receivedTraceparent(passedOn)
    if (traceparent !== undefined) {
      if (!takesChild(settings.sampling, traceparent, viaTrustedProxy)) return undefined
      const tracestates = passedOn.filter(({ lower }) => lower === 'tracestate')
      return new Trace(steadyClock, { traceparent, tracestates })
    }
    const traceId = newTraceId()
    return takesRoot(settings.sampling, traceId) ? new Trace(steadyClock, { traceId }) : undefined
  }

  /** @param statusCode as in its audit record: 499 when the client went away */
  finish(trace: Trace, exchange: TracedExchange, statusCode: number): void {
    const { steadyClock, settings } = this.#options
    const spans = trace.attempts.length + 1
    if (!this.#exporter.hasRoom) {
      this.#exporter.drop(spans)
      return
    }
    const end = {
      statusCode,
      endMs: steadyClock(),
      epochOffsetMs: this.#epochOffset(),
      knownMethods: settings.knownMethods,
    }
    this.#exporter.add(spansOf(trace, exchange, end), spans)
  }

  close(withinMs: number, hurry: Promise<void>): Promise<void> {
    return this.#exporter.close(withinMs, hurry)
  }

  /** Wall time minus steady time, equal for all spans until the wall clock changes. */
  #epochOffset(): number {
    const { clock, steadyClock } = this.#options
    const offsetMs = clock() - steadyClock()
    if (Math.abs(offsetMs - this.#epochOffsetMs) > CLOCK_CHANGE_MS) this.#epochOffsetMs = offsetMs
    return this.#epochOffsetMs
  }
}

function takesChild({ parents, ratio }: Sampling, traceparent: string, viaTrustedProxy: boolean): boolean {
  if (parents === 'all' || (parents === 'trusted' && viaTrustedProxy))
    return (flagsIn(traceparent) & SAMPLED) !== 0
  // The trace id does not decide, because the caller could choose one that is always taken.
  return Math.random() < ratio
}

/** Decides by the trace's id, so that programs with the same rule and ratio decide alike. */
function takesRoot({ ratio }: Sampling, traceId: string): boolean {
  return ratio >= 1 || Number.parseInt(traceId.slice(-DECIDING_DIGITS), 16) < ratio * DECIDING_VALUES
}

/** The ExportTraceServiceRequest around a batch's spans. */
function envelopeOf({ settings, version, instanceId }: TracerOptions): Envelope {
  const attributes = {
    'service.version': version,
    'service.instance.id': instanceId,
    ...settings.resource,
    'telemetry.sdk.name': 'countersign',
    'telemetry.sdk.language': 'nodejs',
    'telemetry.sdk.version': version,
  }
  const resource = {
    attributes: Object.entries(attributes).map(([key, value]) => ({ key, value: { stringValue: value } })),
  }
  const scope = { name: 'countersign', version }
  return {
    head: `{"resourceSpans":[{"resource":${JSON.stringify(resource)},"scopeSpans":[{"scope":${JSON.stringify(scope)},"spans":[`,
    tail: `],"schemaUrl":"${SCHEMA_URL}"}],"schemaUrl":"${SCHEMA_URL}"}]}`,
  }
}
