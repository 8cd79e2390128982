import { copyFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Authority } from './certificates.ts';
import { handOver } from './owner.ts';
import { type PostgresCluster, run } from './postgres.ts';

/**
 * Makes a test server speak TLS as `localhost`. The service has no other access over TCP.
 * @param demand an option of pg_hba.conf: `clientcert=verify-ca`, or ''
 */
export function serveTls(cluster: PostgresCluster, authority: Authority, demand = ''): void {
  const server = authority.issue('DNS:localhost');
  for (const [from, name] of [
    [server.cert, 'server.crt'],
    [server.key, 'server.key'],
    [authority.ca, 'ca.crt'],
  ] as const) {
    copyFileSync(from, join(cluster.dataDir, name));
    handOver(join(cluster.dataDir, name));
  }
  const settings = ["ssl_ca_file = 'ca.crt'", 'ssl = on'].flatMap((one) => [
    '-c',
    `alter system set ${one}`,
  ]);
  run('psql', [cluster.directUrl('postgres'), ...settings]);
  const lines = [
    'local all all trust',
    `hostssl all all 127.0.0.1/32 trust ${demand}`,
    // The tests themselves connect here.
    demand === '' ? 'hostnossl all all 127.0.0.1/32 trust' : '',
  ];
  writeFileSync(join(cluster.dataDir, 'pg_hba.conf'), `${lines.join('\n')}\n`);
  run('pg_ctl', ['-D', cluster.dataDir, '-w', 'restart', '-l', cluster.logFile]);
}
