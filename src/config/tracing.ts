import type { TracingOptions } from '../options.ts';
import { choice, httpBase, matching, secret, setting, type ValuesOf } from './setting.ts';

/** `name=value` pairs with commas; values in percent encoding (W3C Baggage). */
const PAIRS = /^([!#$%&'*+.^`|~\w-]+)=([\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]*)$/;
const MAX_PAIRS = 64;

/** Settings of OpenTelemetry, under their standard names. The SDK's own variables need no entry. */
export const TRACING_SETTINGS = {
  OTEL_EXPORTER_OTLP_ENDPOINT: secret(
    undefined,
    'an http:// or https:// URL',
    httpBase,
    'Collector that gets spans, over OTLP/HTTP in JSON at `/v1/traces`. Not set: no spans.',
  ),
  OTEL_EXPORTER_OTLP_HEADERS: secret(
    undefined,
    'name=value pairs with commas, in percent encoding',
    pairs,
    'Headers for the collector.',
  ),
  OTEL_SERVICE_NAME: setting(
    'standin',
    '1 to 255 printable ASCII characters',
    matching(/^[\x20-\x7e]{1,255}$/),
    'Name of the service in spans.',
  ),
  OTEL_RESOURCE_ATTRIBUTES: setting(
    undefined,
    'name=value pairs with commas, in percent encoding',
    pairs,
    'Attributes of the node in spans.',
  ),
  OTEL_TRACES_SAMPLER: choice(
    [
      'always_on',
      'always_off',
      'traceidratio',
      'parentbased_always_on',
      'parentbased_always_off',
      'parentbased_traceidratio',
    ],
    'parentbased_always_on',
    'Which requests have spans. `parentbased_`: as the caller decided, if it did.',
  ),
  OTEL_TRACES_SAMPLER_ARG: setting('1', '0 to 1', ratio, 'Part of the traces for `traceidratio`.'),
} as const;

/** undefined: no spans. */
export function tracingOptions(
  settings: ValuesOf<typeof TRACING_SETTINGS>,
): TracingOptions | undefined {
  const { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint } = settings;
  if (endpoint === undefined) return undefined;
  return {
    url: `${endpoint}/v1/traces`,
    headers: settings.OTEL_EXPORTER_OTLP_HEADERS ?? {},
    attributes: {
      ...settings.OTEL_RESOURCE_ATTRIBUTES,
      'service.name': settings.OTEL_SERVICE_NAME,
    },
    sampler: settings.OTEL_TRACES_SAMPLER,
    ratio: settings.OTEL_TRACES_SAMPLER_ARG,
  };
}

function pairs(text: string): Readonly<Record<string, string>> | undefined {
  const found = text.split(',').map((pair) => PAIRS.exec(pair.trim()));
  if (found.length > MAX_PAIRS) return undefined;
  try {
    return Object.fromEntries(
      found.map((pair) => [pair![1]!, decodeURIComponent(pair![2]!)] as const),
    );
  } catch {
    return undefined;
  }
}

function ratio(text: string): number | undefined {
  return /^(0(\.\d{1,9})?|1(\.0{1,9})?)$/.test(text) ? Number(text) : undefined;
}
