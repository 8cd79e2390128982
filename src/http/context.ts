import type { Log } from '../log.ts';
import type { Metrics } from '../metrics/metrics.ts';
import type { AuditLog } from '../service/audit/audit-log.ts';
import type { Authenticator, Caller } from '../service/authenticator.ts';
import type { Health } from '../service/health.ts';
import type { ByteBudget, Holder } from '../service/limits/byte-budget.ts';
import type { ClientLimits, ClientOperation } from '../service/limits/client-limits.ts';
import type { VaultClient } from '../service/threads/vault-client.ts';
import type { TlsPem } from '../types.ts';
import type { Descriptors } from './descriptors.ts';

export type InterfaceVersion = '1.0.5' | '1.0.4';

/**
 * serving -> draining (still answering, /health says 503) -> closing (new requests are refused).
 */
export interface ServerState {
  phase: 'serving' | 'draining' | 'closing';
}

/** All that the endpoints use. */
export interface ServerContext {
  readonly interfaceVersion: InterfaceVersion;
  readonly bodyLimit: number;
  readonly valuesLimit: number;
  /** What every token ends in, after `_`. */
  readonly token_suffix: string;
  readonly authenticator: Authenticator;
  readonly limits: ClientLimits;
  readonly budget: ByteBudget;
  readonly vault: VaultClient;
  readonly health: Health;
  readonly metrics: Metrics;
  readonly log: Log;
  /** undefined: none is kept. */
  readonly audit: AuditLog | undefined;
  readonly state: ServerState;
  readonly descriptors: Descriptors;
  /** undefined: HTTP in clear. */
  readonly tls: TlsPem | undefined;
}

declare module 'fastify' {
  interface FastifyRequest {
    startedAtMs: number;
    /** Set when the API key was accepted. */
    caller: Caller | null;
    /** What it holds of the budget of bytes; null until the API key was accepted. */
    held: Holder | null;
    /** What the audit log says that it was; null until the API key is looked at. */
    operation: ClientOperation | null;
    /** How many distinct tokens of it the vault has never given out. */
    unknown_tokens: number;
  }
}
