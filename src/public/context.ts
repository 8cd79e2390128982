import type { Authenticator } from '../access/authenticator.ts';
import type { AuditLog } from '../audit/audit-log.ts';
import type { ByteBudget } from '../limits/byte-budget.ts';
import type { ClientLimits } from '../limits/client-limits.ts';
import type { Log } from '../observe/log.ts';
import type { Metrics } from '../observe/metrics.ts';
import type { RecentRequests } from '../observe/recent-requests.ts';
import type { PolicyFollower } from '../policy/policy-follower.ts';
import type { Health } from '../tokens/health.ts';
import type { VaultClient } from '../tokens/threads/vault-client.ts';
import type { TlsPem } from '../types.ts';
import type { Tracing } from './tracing.ts';
import type { Descriptors } from './transport/connections.ts';

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
  readonly policies: PolicyFollower;
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
