import type { Config } from '../config/config.ts';
import type { Snapshot } from '../metrics/metrics.ts';
import type { KeyNews } from '../service/keys/key-feed.ts';
import type { BucketsAnswer, BucketsCall } from '../service/limits/primary-buckets.ts';
import type { TlsPem } from '../types.ts';

/** What the primary tells a worker. */
export type ToWorker =
  | StartMessage
  /** Answer for `delay_ms` more, then end. */
  | { readonly kind: 'stop'; readonly delay_ms: number }
  /** Another has taken the place: end when callers have left. */
  | { readonly kind: 'retire' }
  | { readonly kind: 'renew'; readonly tls: TlsPem }
  /** For all metrics, or for what a sample of the console needs. */
  | { readonly kind: 'scrape'; readonly id: number; readonly is_sample: boolean }
  | { readonly kind: 'keys'; readonly news: KeyNews }
  | { readonly kind: 'granted'; readonly answers: readonly BucketsAnswer[] };

export interface StartMessage {
  readonly kind: 'start';
  readonly number: number;
  readonly config: Config;
  readonly keys: KeyNews;
  /** undefined: HTTP in clear. */
  readonly tls: TlsPem | undefined;
}

/** What a worker tells the primary. Values and tokens are never in it. */
export type FromWorker =
  /** It has loaded, and takes messages: those that come earlier are lost in node:cluster. */
  | { readonly kind: 'loaded' }
  | { readonly kind: 'listening' }
  | { readonly kind: 'failed'; readonly problems: readonly string[] }
  /** `id` of the scrape it answers; undefined: the last one of a worker that ends. */
  | { readonly kind: 'metrics'; readonly id: number | undefined; readonly snapshot: Snapshot }
  /** It wants the keyring read at once. */
  | { readonly kind: 'keys_wanted' }
  | { readonly kind: 'take'; readonly calls: readonly BucketsCall[] };
