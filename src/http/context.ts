import type { Log } from '../log.ts';
import type { Metrics } from '../metrics.ts';
import type { AuditLog } from '../service/audit/audit-log.ts';
import type { Authenticator } from '../service/authenticator.ts';
import type { Health } from '../service/health.ts';
import type { ByteBudget } from '../service/limits/byte-budget.ts';
import type { ClientLimits } from '../service/limits/client-limits.ts';
import type { PolicyGate } from '../service/policy-gate.ts';
import type { RecentRequests } from '../service/recent-requests.ts';
import type { VaultClient } from '../service/threads/vault-client.ts';
import type { TlsPem } from '../types.ts';
import type { Descriptors } from './connections.ts';
import type { Tracing } from './tracing.ts';

export type InterfaceVersion = '1.0.5' | '1.0.4';

/** serving -> draining (still answers, but /health says 503) -> closing (refuses new requests). */
export interface ServerState {
  phase: 'serving' | 'draining' | 'closing';
}

/** Everything that the endpoints use. */
export interface ServerContext {
  readonly interfaceVersion: InterfaceVersion;
  readonly bodyLimit: number;
  readonly valuesLimit: number;
  /** The ending of every token, after `_`. */
  readonly tokenSuffix: string;
  readonly authenticator: Authenticator;
  readonly limits: ClientLimits;
  readonly budget: ByteBudget;
  readonly vault: VaultClient;
  readonly policies: PolicyGate;
  readonly health: Health;
  readonly metrics: Metrics;
  readonly log: Log;
  readonly recent: RecentRequests;
  /** undefined: no audit log. */
  readonly audit: AuditLog | undefined;
  /** undefined: no spans. */
  readonly tracing: Tracing | undefined;
  readonly state: ServerState;
  readonly descriptors: Descriptors;
  /** undefined: no TLS. */
  readonly tls: TlsPem | undefined;
}
