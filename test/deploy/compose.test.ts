import { execFileSync } from 'node:child_process';
import { cpSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { SETTINGS } from '../../src/config/settings.ts';
import { has, runTool } from '../support/deploy.ts';
import { ROOT, readText } from '../support/docs.ts';
import { newFolder } from '../support/folder.ts';
import { PostgresCluster, postgresBin, query, run } from '../support/postgres.ts';
import { handOver } from '../support/processes.ts';
import { RedisServer, redisServer } from '../support/redis.ts';
import { call, runCli, startService } from '../support/service.ts';

const COMPOSE = 'deploy/compose/compose.yaml';
const compose = parse(readText(COMPOSE), { merge: true });
const { keys, migrate, postgres, standin: node } = compose.services;
/** Of the node of compose.yaml: settings, and what the driver of PostgreSQL reads. */
const NOT_OURS = ['PGPASSFILE'];

const folder = newFolder('compose');
const file = (name: string) => readFileSync(join(folder, name), 'utf8');

beforeAll(() => {
  cpSync(join(ROOT, 'deploy/compose/setup.sh'), join(folder, 'setup.sh'));
  execFileSync(join(folder, 'setup.sh'));
});

describe('setup.sh and compose.yaml', () => {
  test('setup.sh makes every secret and variable of compose.yaml, closed to others', () => {
    const secrets = Object.values<{ file: string }>(compose.secrets).map((one) => one.file);
    expect(readdirSync(join(folder, 'secrets')).sort()).toEqual(
      secrets.map((path) => basename(path)).sort(),
    );
    expect(statSync(join(folder, 'secrets')).mode & 0o077).toBe(0);
    for (const path of [...secrets.filter((one) => !/app\.password$/.test(one)), '.env'])
      expect([path, statSync(join(folder, path)).mode & 0o077]).toEqual([path, 0]);
    const asked = [...readText(COMPOSE).matchAll(/\$\{(\w+)/g)].map(([, name]) => name);
    const set = [...file('.env').matchAll(/^(\w+)=\S+$/gm)].map(([, name]) => name);
    expect(new Set(set)).toEqual(new Set(asked));
    expect(file('.env')).not.toMatch(/_[UG]ID=0$/m);
    expect(readText('deploy/compose/.gitignore').split('\n')).toEqual(['.env', 'secrets/', '']);
  });

  test('setup.sh changes nothing that is there', () => {
    const paths = [
      ...readdirSync(join(folder, 'secrets')).map((name) => `secrets/${name}`),
      '.env',
    ];
    const before = paths.map(file);
    execFileSync(join(folder, 'setup.sh'));
    expect(paths.map(file)).toEqual(before);
  });

  test('every service has secrets, networks and dependencies that are there', () => {
    for (const [name, service] of Object.entries<any>(compose.services)) {
      for (const secret of service.secrets ?? [])
        expect([name, compose.secrets]).toHaveProperty(`1.${secret}`);
      for (const network of service.networks) expect(compose.networks).toHaveProperty(network);
      for (const [other, { condition }] of Object.entries<any>(service.depends_on ?? {})) {
        const ends = condition === 'service_completed_successfully';
        expect([name, other, compose.services[other].healthcheck.disable === true]).toEqual([
          name,
          other,
          ends,
        ]);
      }
    }
  });

  test('the services of Standin have known settings, no rights, and time to drain', () => {
    for (const service of [keys, migrate, node]) {
      for (const name of Object.keys(service.environment)) {
        if (NOT_OURS.includes(name)) continue;
        expect(Object.keys(SETTINGS)).toContain(name);
      }
      expect([service.read_only, service.cap_drop]).toEqual([true, ['ALL']]);
      expect(service.security_opt).toContain('no-new-privileges:true');
    }
    expect(Number.parseInt(node.stop_grace_period, 10)).toBeGreaterThanOrEqual(25);
    // Only to this machine: HTTP is in clear.
    expect(node.ports).toEqual(['127.0.0.1:8080-8089:8080']);
    expect(node.deploy.replicas).toBe(2);
  });

  test.runIf(has('docker', 'compose', 'version'))('docker compose takes it', () => {
    runTool('docker', 'compose', '--project-directory', folder, '-f', COMPOSE, 'config', '--quiet');
  });
});

describe.runIf(postgresBin !== undefined && redisServer !== undefined)(
  'compose.yaml on real servers',
  () => {
    let cluster: PostgresCluster;
    let redis: RedisServer;

    beforeAll(async () => {
      cluster = await PostgresCluster.start();
      redis = await RedisServer.start();
    });
    afterAll(async () => {
      await redis.stop();
      cluster.stop();
    });

    /** The environment of a service, with the addresses and files of this machine. */
    const environment = (service: any): Record<string, string> => {
      const env: Record<string, string> = {};
      for (const [name, value] of Object.entries<string>(service.environment)) {
        env[name] = value
          .replace('@postgres/', `@127.0.0.1:${cluster.port}/`)
          .replace('redis://redis', redis.url)
          .replace(/^\/run\/secrets\/(\w+)$/, (_, secret) =>
            join(folder, compose.secrets[secret].file),
          );
      }
      return { ...env, OPS_HOST: '127.0.0.1', OPS_TOKEN: '0123456789abcdef' };
    };

    test('the passwords, roles and order of compose.yaml make a vault that two nodes serve', async () => {
      const { POSTGRES_USER: owner, POSTGRES_DB: database } = postgres.environment;
      const admin = cluster.directUrl('postgres');
      const password = file('secrets/standin_owner.password').trim();
      await query(admin, `create role ${owner} login superuser password '${password}'`);
      await query(admin, `create database ${database} owner ${owner}`);
      // As the image of PostgreSQL runs it, over the socket.
      const script = join(cluster.folder, 'standin-app.sh');
      const secret = join(cluster.folder, 'password');
      cpSync(join(ROOT, 'deploy/compose/standin-app.sh'), script);
      cpSync(join(folder, 'secrets/standin_app.password'), secret);
      for (const path of [script, secret]) handOver(path);
      execFileSync(script, {
        env: {
          ...process.env,
          PATH: `${postgresBin}:${process.env.PATH}`,
          PGHOST: '127.0.0.1',
          PGPORT: String(cluster.port),
          APP_PASSWORD_FILE: secret,
          POSTGRES_USER: owner,
          POSTGRES_DB: database,
        },
      });
      // From here on passwords are asked for; the files of setup.sh name the host `postgres`.
      const hba = run('psql', ['-Atc', 'show hba_file', admin]).trim();
      execFileSync('sh', ['-c', `echo 'host all all all scram-sha-256' > '${hba}'`]);
      await query(admin, 'select pg_reload_conf()');
      for (const role of ['standin_owner', 'standin_app']) {
        const path = join(folder, `secrets/${role}.pgpass`);
        execFileSync('sed', ['-i', `s/^postgres:5432:/127.0.0.1:${cluster.port}:/`, path]);
      }
      // setup.sh gives them to the user of the containers; here the nodes run as this one.
      execFileSync('chown', ['-R', String(process.getuid!()), join(folder, 'secrets')]);
      const place = { kind: 'server', folder, env: {}, remove: () => {} } as const;
      await expect(startService(place, environment(node))).rejects.toThrow('migrate --grant-to');
      for (const service of [migrate, keys]) {
        const ended = await runCli(service.command, place, environment(service));
        expect([ended.code, ended.stderr]).toEqual([0, expect.any(String)]);
      }
      const made = await runCli(
        ['client', 'create', '--name', 'billing', '--json'],
        place,
        environment(keys),
      );
      const { api_key: apiKey } = JSON.parse(made.stdout);
      const nodes = [
        await startService(place, environment(node)),
        await startService(place, environment(node)),
      ];
      const tokenized = await call(nodes[0]!, 'tokenize', { name: 'ann' }, apiKey);
      const restored = await call(nodes[1]!, 'detokenize', tokenized.body.data, apiKey);
      expect(restored.body.data).toEqual({ name: 'ann' });
      for (const one of nodes) await one.stop();
    });
  },
);
