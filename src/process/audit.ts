import { hostname } from 'node:os';
import { AuditLog } from '../audit/audit-log.ts';
import type { ByteBudget } from '../limits/byte-budget.ts';
import type { ListenerOptions } from './public-listener.ts';

export function openAudit(options: ListenerOptions, budget: ByteBudget): AuditLog | undefined {
  const { config, vault, metrics, log } = options;
  if (config.AUDIT_LOG === undefined) return undefined;
  return new AuditLog({
    path: config.AUDIT_LOG,
    isRequired: config.AUDIT_REQUIRED,
    node: hostname(),
    macOf: (last, line) => vault.keyring.auditMac(last, line),
    onHead: (head) => log.info({ head }, 'last line of the audit log so far'),
    onLost: metrics.unaudited,
    onWaiting: (bytes) => budget.count(bytes),
    onChange: (isAvailable, code) => {
      if (isAvailable) log.warn({}, 'the audit log can be written again');
      else log.error({ code }, 'the audit log cannot be written');
    },
  });
}
